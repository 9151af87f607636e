package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// treed is a run in git whose step tree, which is given to a child in a worktree, runs.
func treed() *runtest.Builder {
	b := runtest.New("demo", "r")
	b.Append(runtest.GitCreated(), runtest.Started(), runtest.Plan(runtest.TreeStep("tree"), runtest.Step("after", "tree")),
		runtest.Ready("tree"), runtest.Allowed("tree"))
	return b
}

func notTaken(t *testing.T, b *runtest.Builder, p events.Payload, want string) {
	t.Helper()
	if _, err := b.Try(p); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", p.Kind(), err, want)
	}
}

func TestWorktree(t *testing.T) {
	t.Parallel()
	held := events.Reserve{ToolCalls: 5}
	done := events.Use{Runs: 1, ToolCalls: 1}
	t.Run("SUB-7 a step is branched once, before its child and not after the step has ended", func(t *testing.T) {
		t.Parallel()
		b := treed()
		s := b.State()
		if _, waits := s.Post("tree", ""); waits {
			t.Error("a child is due before there is a commit that it can begin with")
		}
		notTaken(t, b, runtest.Spawned(b.State(), "tree", held), "waits for a child")
		none := runtest.Branched("tree")
		none.Commit = ""
		notTaken(t, b, none, "without a branch or a commit")
		notTaken(t, b, runtest.Branched("after"), "branched for a child")
		b.Append(runtest.Branched("tree"))
		if s := b.State(); s.Step("tree").Owed != 0 || *s.Step("tree").Branched != runtest.Branched("tree").BranchAt {
			t.Errorf("%+v", s.Step("tree"))
		}
		notTaken(t, b, runtest.Branched("tree"), "branched for a child")
		b.Append(runtest.Spawned(b.State(), "tree", held))
		notTaken(t, b, runtest.Branched("tree"), "branched for a child")
		b.Append(runtest.ChildEnd(b.State(), "tree", events.ChildIsCompleted, false, done))
		notTaken(t, b, runtest.Branched("tree"), "branched for a child")
		b.Append(runtest.StepDone("tree", "out"))
		notTaken(t, b, runtest.Branched("tree"), "branched for a child")
	})
	t.Run("SUB-7 a step whose child completed may fail where the work is not merged, and does not complete without its child", func(t *testing.T) {
		t.Parallel()
		b := treed()
		notTaken(t, b, runtest.StepDone("tree", "out"), "without its child")
		b.Append(runtest.Branched("tree"))
		notTaken(t, b, runtest.StepBad("tree", "no"), "without its child")
		b.Append(runtest.Spawned(b.State(), "tree", held))
		notTaken(t, b, runtest.StepBad("tree", "no"), "without its child")
		end := runtest.ChildEnd(b.State(), "tree", events.ChildIsCompleted, false, done)
		end.BranchAt = events.BranchAt{Branch: "agent/worker/x", Commit: "2222222222222222222222222222222222222222"}
		b.Append(end)
		if c := b.State().Children[0]; c.BranchAt != end.BranchAt {
			t.Errorf("%+v", c)
		}
		n := b.State().AgentLoopSnapshot
		if n != nil {
			t.Fatal("turns were taken")
		}
		b.Append(runtest.Turn(1, "tree", "", runtest.Asked(1, 1, events.GitMerge, `{}`)))
		notTaken(t, b, runtest.StepDone("tree", "out"), "without its child") // while it is merged
		notTaken(t, b, runtest.Spawned(b.State(), "tree", held), "attempt 2")
		ref := runtest.Ref("tree", "c1-1", events.GitMerge)
		b.Append(runtest.CallYes(ref, "idempotent"), runtest.CallBegun(ref, 1))
		if s := b.State(); s.CallsHeld != 0 {
			t.Errorf("%d calls are held for the harness", s.CallsHeld)
		}
		b.Append(runtest.CallDone(ref, b.State().Sequence, "{}"), runtest.StepBad("tree", "a conflict"))
		if s := b.State(); s.TotalToolCalls != 0 || s.ModelTurns() != 0 || s.Step("after").Status != events.StepIsBlocked {
			t.Errorf("%d calls, %d turns, the next step is %s", s.TotalToolCalls, s.ModelTurns(), s.Step("after").Status)
		}
	})
	t.Run("SUB-7 a run without git has no step in a worktree", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		b.Append(runtest.Created(), runtest.Started())
		notTaken(t, b, runtest.Plan(runtest.TreeStep("tree")), "does not work in git")
	})
	t.Run("PLUS-1 SUB-8 a fork branches anew for a child that had not ended, and keeps the work of one that was merged", func(t *testing.T) {
		t.Parallel()
		b := treed()
		b.Append(runtest.Branched("tree"), runtest.Spawned(b.State(), "tree", held))
		start, err := run.Fork(b.State(), "", true)
		if err != nil {
			t.Fatal(err)
		}
		if st := start.Step("tree"); st.Status != events.StepIsPending || st.Branched != nil || st.Turns != 0 {
			t.Errorf("%+v", st)
		}
		b.Append(runtest.ChildEnd(b.State(), "tree", events.ChildIsCompleted, false, done), runtest.StepDone("tree", "out"))
		if start, err = run.Fork(b.State(), "", true); err != nil {
			t.Fatal(err)
		}
		if st := start.Step("tree"); st.Status != events.StepIsCompleted || st.Branched == nil {
			t.Errorf("%+v", st)
		}
	})
}
