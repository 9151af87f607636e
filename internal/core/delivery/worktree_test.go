package delivery_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// treed is a run in git whose steps a and b are given to children in worktrees, checked out and begun.
func treed() *runtest.Builder {
	w := events.GitWork{NewBranch: "agent/x", Collaboration: events.Sequential, RequireApproval: true}
	b := inGit(w, runtest.TreeStep("a"), runtest.TreeStep("b"))
	checkedOut(b, "agent/x")
	begin(b, "a")
	return b
}

// branch takes a step to where its child is due.
func branch(b *runtest.Builder, step, commit string) {
	c, _ := owed(b, step)
	answer(b, step, c, fmt.Sprintf(`{"branch":"agent/x","commit":%q,"tree":"t","made":true}`, commit), true)
	c, _ = owed(b, step)
	answer(b, step, c, fmt.Sprintf(`{"branch":"agent/x","commit":%q,"artifact":"k"}`, commit), true)
	if _, ok := owed(b, step); !ok {
		panic("it is not branched")
	}
}

// worked spawns the child of a step and ends it with a commit on its branch.
func worked(b *runtest.Builder, step, commit string) *run.Child {
	say := child.Next(b.State(), runtest.Start, func(run, step, call string, attempt int) string { return fmt.Sprint("child_", step, attempt) })
	b.Append(say...)
	end := runtest.ChildEnd(b.State(), step, events.ChildIsCompleted, false, events.Use{Runs: 1})
	if commit != "" {
		end.BranchAt = events.BranchAt{Branch: "agent/worker/" + end.Child, Commit: commit}
	}
	b.Append(end)
	s := b.State()
	return s.ChildOf(step)
}

func endOf(t *testing.T, b *runtest.Builder, step string) events.Payload {
	t.Helper()
	c, done := owed(b, step)
	if !done {
		t.Fatalf("it calls %s", c.Tool)
	}
	s := b.State()
	st := s.Step(step)
	if st.Status == events.StepIsFailed {
		return &events.StepFailedData{Error: st.Error, RunReason: st.RunReason}
	}
	return &events.StepFinishedData{Output: st.Output}
}

func TestWorktree(t *testing.T) {
	t.Parallel()
	t.Run("SUB-7 GIT-7 a child in a worktree begins with the commit of all that was in the tree, on a branch of its own, and is sent nowhere", func(t *testing.T) {
		t.Parallel()
		b := treed()
		branch(b, "a", two)
		c := worked(b, "a", three)
		s := b.State()
		w := delivery.Spawned(s, s.Step("a"), c)
		if w.Begin == nil || w.Begin.Commit != two || w.NewBranch != "agent/worker/child_a1" || w.Push || !w.AutoCommit || len(w.Merge) > 0 ||
			w.Scope != delivery.Scope(s.Created, "r1") || !slices.Contains(w.Begin.Scopes, w.Scope) {
			t.Errorf("%+v %+v", w, w.Begin)
		}
		kid := &events.RunCreatedData{Git: w, WorkflowRun: "other"}
		if got := delivery.Scope(kid, "child_a1"); got != w.Scope {
			t.Errorf("the child publishes in %s, its parent looks in %s", got, w.Scope)
		}
		own := *c
		own.Workspace = events.ChildOwn
		if w := delivery.Spawned(s, s.Step("a"), &own); w.Begin == nil || w.Begin.Commit != one {
			t.Errorf("a child with a directory of its own begins with %+v", w.Begin)
		}
		own.Workspace = events.ChildShared
		if w := delivery.Spawned(s, s.Step("a"), &own); w != nil {
			t.Errorf("a child that shares the directory works in git itself: %+v", w)
		}
	})
	t.Run("GIT-8 exactly the commit that the child ended with is merged, no person is asked, and the step has its output", func(t *testing.T) {
		t.Parallel()
		b := treed()
		branch(b, "a", two)
		kid := worked(b, "a", three)
		c, _ := owed(b, "a")
		var args struct{ From, Commits []string }
		if err := json.Unmarshal(c.Input, &args); err != nil || c.Tool != events.GitMerge || args.From[0] != kid.Branch || args.Commits[0] != three {
			t.Fatalf("%s %s", c.Tool, c.Input)
		}
		s := b.State()
		if why, gated := delivery.Gated(s, "a", c.Tool); gated || delivery.Unbound(s, "a", c.Tool, c.Input) != "" {
			t.Errorf("a person is asked: %s", why)
		}
		if _, gated := delivery.Gated(s, events.DeliverStep, c.Tool); !gated {
			t.Error("no one is asked about a merge at the end of the run")
		}
		answer(b, "a", c, fmt.Sprintf(`{"branch":"agent/x","commit":%q,"merged":[{"branch":%q,"commit":%q,"how":"merge"}]}`, two, kid.Branch, three), true)
		if d, ok := endOf(t, b, "a").(*events.StepFinishedData); !ok || d.Output != "output of a" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("SUB-7 without commits of the child nothing is merged", func(t *testing.T) {
		t.Parallel()
		b := treed()
		branch(b, "a", two)
		worked(b, "a", "")
		if d, ok := endOf(t, b, "a").(*events.StepFinishedData); !ok || d.Output != "output of a" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("GIT-8 a conflict fails the step: its files, the branch and the commit of the child are named", func(t *testing.T) {
		t.Parallel()
		b := treed()
		branch(b, "a", two)
		kid := worked(b, "a", three)
		c, _ := owed(b, "a")
		answer(b, "a", c, fmt.Sprintf(`{"branch":"agent/x","commit":%q,"merged":[],"conflicts":[{"branch":%q,"ours":%q,"theirs":%q,"paths":[{"path":"a.go"},{"path":"b.go"}],"more":3}]}`,
			two, kid.Branch, two, three), true)
		d, ok := endOf(t, b, "a").(*events.StepFailedData)
		if !ok || d.RunReason != events.FinishConflict {
			t.Fatalf("%+v", d)
		}
		for _, want := range []string{"a.go, b.go and 3 more", kid.Branch, three[:12], "inspan branches get run/r1 " + kid.Branch} {
			if !strings.Contains(d.Error, want) {
				t.Errorf("%q has no %q", d.Error, want)
			}
		}
	})
	t.Run("SAFE-2 what others wrote into the tree is committed before the merge is tried again, at most twice", func(t *testing.T) {
		t.Parallel()
		b := treed()
		branch(b, "a", two)
		worked(b, "a", three)
		var asked []string
		for {
			c, done := owed(b, "a")
			if done {
				break
			}
			asked = append(asked, c.Tool)
			if c.Tool == events.GitMerge {
				answer(b, "a", c, "there are uncommitted changes", false)
			} else {
				answer(b, "a", c, fmt.Sprintf(`{"branch":"agent/x","commit":%q}`, two), true)
			}
		}
		s := b.State()
		if got := strings.Join(asked, " "); got != "git_merge git_commit git_merge git_commit git_merge" || !strings.Contains(s.Step("a").Error, "uncommitted") {
			t.Errorf("%s: %s", got, s.Step("a").Error)
		}
	})
	t.Run("GIT-8 SAFE-7 a step tells that the working tree is unchanged only where that is known: not after a merge that failed", func(t *testing.T) {
		t.Parallel()
		for result, known := range map[string]bool{"refused": true, `{"moved":[{"branch":"b","was":"w","is":"i"}]}`: true,
			`{"conflicts":[{"branch":"b","paths":[{"path":"p"}]}]}`: true, "failed": false} {
			b := treed()
			branch(b, "a", two)
			worked(b, "a", three)
			for {
				c, done := owed(b, "a")
				if done {
					break
				}
				ref := events.ToolRef{Step: "a", Call: c.ID, Tool: c.Tool}
				switch {
				case c.Tool == events.GitCommit:
					answer(b, "a", c, fmt.Sprintf(`{"branch":"agent/x","commit":%q}`, two), true)
				case result == "refused":
					no := runtest.CallNo(ref)
					no.Code = events.RefusedGuard
					b.Append(no)
				case result == "failed":
					b.Append(runtest.CallYes(ref, "idempotent"), runtest.CallBegun(ref, 1))
					b.Append(runtest.CallBad(ref, b.State().Sequence, "transient"))
				default:
					answer(b, "a", c, result, true)
				}
			}
			s := b.State()
			if got := s.Step("a").Error; strings.Contains(got, "The working tree is unchanged.") != known || strings.Contains(got, "may have changed the working tree") == known {
				t.Errorf("%s: %q", result, got)
			}
		}
	})
	t.Run("SUB-7 without a commit or a branch that is checked out the step fails before a child is spawned", func(t *testing.T) {
		t.Parallel()
		for want, result := range map[string]string{
			"no commit":              `{"branch":"agent/x","commit":""}`,
			"no branch":              `{"branch":"","commit":"` + two + `"}`,
			"the branch of the run":  `{"branch":"other","commit":"` + two + `"}`,
			"git_commit did not suc": "",
		} {
			b := treed()
			c, _ := owed(b, "a")
			answer(b, "a", c, result, result != "")
			if d, ok := endOf(t, b, "a").(*events.StepFailedData); !ok || !strings.Contains(d.Error, want) {
				t.Errorf("%+v, want %q", d, want)
			}
			if s := b.State(); child.Owes(s) {
				t.Error("a child is due")
			}
		}
	})
	t.Run("GIT-8 SAFE-7 whatever tools and children come to, a step in a worktree ends, and completes only with the work of its child merged", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := treed()
			merged, calls := false, 0
			for {
				s := b.State()
				st := s.Step("a")
				if st.Ended() {
					break
				}
				if child.Owes(s) {
					commit := rapid.SampledFrom([]string{"", three}).Draw(t, "commit")
					merged = commit == ""
					worked(b, "a", commit)
					continue
				}
				c, done := owed(b, "a")
				if done || c.Tool == "" {
					continue
				}
				if calls++; calls > 8 {
					t.Fatal("it does not end")
				}
				if !slices.Contains(delivery.Tools(st), c.Tool) {
					t.Fatalf("asks for %s", c.Tool)
				}
				ok := rapid.Bool().Draw(t, "good")
				result := fmt.Sprintf(`{"branch":"agent/x","commit":%q,"artifact":"k"}`, two)
				if c.Tool == events.GitMerge && rapid.Bool().Draw(t, "conflict") {
					result = `{"conflicts":[{"branch":"b","paths":[{"path":"p"}]}]}`
				} else if c.Tool == events.GitMerge && ok {
					merged = true
				}
				answer(b, "a", c, result, ok)
			}
			if s := b.State(); s.Step("a").Status == events.StepIsCompleted && !merged {
				t.Fatalf("it is complete, and nothing was merged")
			}
		})
	})
}
