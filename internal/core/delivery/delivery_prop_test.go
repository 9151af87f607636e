package delivery_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

const (
	one = "1111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222"
)

// inGit begins a run that works in git, with the steps given around those of the harness.
func inGit(w events.GitWork, steps ...events.PlanStep) *runtest.Builder {
	b := runtest.New("main", "r1")
	c := runtest.Created()
	c.Git, c.Repo = &w, "https://host/repo"
	b.Append(c, runtest.Started(), delivery.Wrap(&w, runtest.Plan(steps...)))
	return b
}

// begin lets a step run.
func begin(b *runtest.Builder, step string) { b.Append(runtest.Ready(step), runtest.Allowed(step)) }

// owed says what a step is owed, until it asks for a call or ends; done is true where it ended.
func owed(b *runtest.Builder, step string) (c events.RequestedCall, done bool) {
	duty := turn.Next(b.State(), step, runtest.Start)
	b.Append(duty.Append...)
	if again := turn.Next(b.State(), step, runtest.Start); len(again.Append) > 0 {
		panic(fmt.Sprintf("law 1: a second look said %v", again.Append))
	}
	if len(duty.Append) != 1 {
		panic(fmt.Sprintf("said %v", duty.Append))
	}
	if t, ok := duty.Append[0].(*events.TurnFinishedData); ok {
		return t.Calls[0], false
	}
	return c, true
}

// answer ends a call as a tool does.
func answer(b *runtest.Builder, step string, c events.RequestedCall, result string, ok bool) {
	ref := events.ToolRef{Step: step, Call: c.ID, Tool: c.Tool}
	allowed := runtest.CallYes(ref, "idempotent")
	begun := runtest.CallBegun(ref, 1)
	b.Append(allowed, begun)
	d := runtest.CallDone(ref, b.State().Sequence, result)
	d.Success = ok
	b.Append(d)
}

// checkedOut takes the checkout of a run to its end, on branch at commit one.
func checkedOut(b *runtest.Builder, branch string) {
	begin(b, events.CheckoutStep)
	c, _ := owed(b, events.CheckoutStep)
	answer(b, events.CheckoutStep, c, fmt.Sprintf(`{"branch":%q,"commit":%q,"base":%q,"cloned":true}`, branch, one, one), true)
	if _, done := owed(b, events.CheckoutStep); !done {
		panic("the checkout did not end")
	}
}

func TestEveryDelivery(t *testing.T) {
	t.Parallel()
	t.Run("GIT-3 GIT-8 GIT-10 GATE-13 C17 SAFE-7 whatever tools answer, a delivery ends, keeps before it sends, and tells only what it saw", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			w := events.GitWork{NewBranch: "agent/x", Collaboration: rapid.SampledFrom([]events.SessionMode{events.Sequential, events.Parallel}).Draw(t, "how"),
				AutoCommit: rapid.Bool().Draw(t, "commit"), Push: rapid.Bool().Draw(t, "push"), RequireApproval: true}
			if rapid.Bool().Draw(t, "merges") {
				w.Merge = []string{"agent/s/a", "agent/s/b"}
			}
			b := inGit(w, runtest.Step("a"), runtest.Step("b"))
			checkedOut(b, "agent/x")
			fails := rapid.Bool().Draw(t, "fails")
			for _, id := range []string{"a", "b"} {
				begin(b, id)
				b.Append(runtest.Turn(b.State().AgentLoopSnapshot.Turns.Len()+1, id, "done"))
				if fails && id == "b" {
					b.Append(runtest.StepBad(id, "it broke"))
				} else {
					b.Append(runtest.StepDone(id, "out "+id))
				}
			}
			begin(b, events.DeliverStep)
			var asked []string
			pushed, conflict := "", false
			for {
				same(t, b.State())
				c, done := owed(b, events.DeliverStep)
				if done {
					break
				}
				asked = append(asked, c.Tool)
				again := c.Tool == events.GitPrepare || c.Tool == events.GitMerge // sides may move on
				if len(asked) > 10 || !again && slices.Contains(asked[:len(asked)-1], c.Tool) {
					t.Fatalf("asked for %v", asked)
				}
				if !slices.Contains(delivery.Tools(&run.Step{Kind: events.StepDeliver}), c.Tool) {
					t.Fatalf("asked for %s", c.Tool)
				}
				if c.Tool == events.GitPush && (fails || conflict || !w.Push || !slices.Contains(asked, events.GitPublish)) {
					t.Fatalf("pushed after %v, failed %v, conflict %v", asked, fails, conflict)
				}
				if c.Tool == events.GitMerge && (fails || delivery.Unbound(b.State(), events.DeliverStep, c.Tool, c.Input) != "" || !strings.Contains(string(c.Input), two)) {
					t.Fatalf("merged by %s, failed %v", c.Input, fails)
				}
				what := random(t, b, c, &conflict)
				if c.Tool == events.GitPush && what {
					pushed = two
				}
			}
			s := b.State()
			d := delivery.Of(s)
			if d.Pushed != (pushed != "") || d.Pushed && (d.Commit != two || d.Remote != "https://host/repo") {
				t.Fatalf("pushed %q, told %+v", pushed, d)
			}
			if conflict != (len(d.Conflicts) > 0) {
				t.Fatalf("conflict %v, told %+v", conflict, d.Conflicts)
			}
			if bad := s.Broken(); bad != "" || s.TotalToolCalls != 0 || s.CallsHeld != 0 || s.ModelTurns() != 2 {
				t.Fatalf("%s: %d calls counted, %d held, %d turns of models", bad, s.TotalToolCalls, s.CallsHeld, s.ModelTurns())
			}
		})
	})
}

// same makes sure that a state that was written and read again is owed the very same.
func same(t *rapid.T, s run.State) {
	whole, err := run.Codec{}.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := run.Codec{}.Decode(whole)
	if err != nil {
		t.Fatal(err)
	}
	want, got := turn.Next(s, events.DeliverStep, runtest.Start).Append, turn.Next(again, events.DeliverStep, runtest.Start).Append
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%v is not %v", got, want)
	}
}

// random answers a call in one of the ways there are, and reports whether it did what it was asked for.
func random(t *rapid.T, b *runtest.Builder, c events.RequestedCall, conflict *bool) bool {
	ref := events.ToolRef{Step: events.DeliverStep, Call: c.ID, Tool: c.Tool}
	switch rapid.IntRange(0, 9).Draw(t, "answer") {
	case 0:
		no := runtest.CallNo(ref)
		no.Code = rapid.SampledFrom([]string{events.RefusedByPerson, events.RefusedGuard, events.RefusedHook, events.RefusedUnknown, events.RefusedInput}).Draw(t, "code")
		b.Append(no)
		return false
	case 1:
		b.Append(runtest.CallYes(ref, "idempotent"), runtest.CallBegun(ref, 1))
		b.Append(runtest.CallBad(ref, b.State().Sequence, rapid.SampledFrom([]string{"transient", "permanent", events.OutcomeUnknown}).Draw(t, "class")))
		return false
	case 2:
		answer(b, events.DeliverStep, c, rapid.SampledFrom([]string{"", "{", "null", "[]", `{"commit":7}`, "<workspace-news>"}).Draw(t, "junk"), true)
		return false
	case 3:
		answer(b, events.DeliverStep, c, "it did not work", false)
		return false
	}
	result := map[string]string{
		events.GitPrepare: fmt.Sprintf(`{"branch":"agent/x","commit":%q}`, two),
		events.GitCommit:  fmt.Sprintf(`{"branch":"agent/x","commit":%q,"made":true,"paths":1}`, two),
		events.GitMerge:   fmt.Sprintf(`{"commit":%q,"merged":[{"branch":"agent/s/a","commit":%q,"how":"merge"}]}`, two, one),
		events.GitPublish: fmt.Sprintf(`{"branch":"agent/x","commit":%q,"artifact":"branch.1"}`, two),
		events.GitPush:    fmt.Sprintf(`{"url":"https://host/repo","branch":"agent/x","commit":%q}`, two),
	}[c.Tool]
	if c.Tool == events.GitPrepare && strings.Contains(string(c.Input), "sides") {
		result = fmt.Sprintf(`{"branch":"agent/x","commit":%q,"sides":[{"branch":"agent/s/a","commit":%q},{"branch":"agent/s/b","commit":%q}]}`, two, one, two)
	}
	if c.Tool == events.GitMerge && rapid.Bool().Draw(t, "moved") {
		result = fmt.Sprintf(`{"commit":%q,"merged":[],"moved":[{"branch":"agent/s/b","was":%q,"is":%q}]}`, two, two, one)
	} else if c.Tool == events.GitMerge && rapid.Bool().Draw(t, "conflicts") {
		*conflict = true
		result = fmt.Sprintf(`{"commit":%q,"merged":[],"conflicts":[{"branch":"agent/s/b","ours":%q,"theirs":%q,"paths":[{"path":"a.txt"}]}]}`, two, two, one)
	}
	answer(b, events.DeliverStep, c, result, true)
	return true
}

func TestResolve(t *testing.T) {
	t.Parallel()
	ask := func() delivery.Ask {
		return delivery.Ask{Run: "r1", Agent: "coder", Name: func(agent, run string) string { return agent + "/" + run }, Variables: map[string]string{"pr_number": "12"}}
	}
	yes, no := true, false
	for _, tc := range []struct {
		name string
		ask  func(*delivery.Ask)
		want events.GitWork
	}{
		{"GIT-1 GIT-14 a run has a branch of its own, named from agent and run", func(*delivery.Ask) {},
			events.GitWork{NewBranch: "agent/coder/r1", Collaboration: events.Sequential, RequireApproval: true}},
		{"GIT-1 the prefix is a setting", func(a *delivery.Ask) { a.File.BranchPrefix = "bot-" },
			events.GitWork{NewBranch: "bot-coder/r1", Collaboration: events.Sequential, RequireApproval: true}},
		{"GIT-1 without auto_branch the run works on what is checked out", func(a *delivery.Ask) { a.File.AutoBranch = &no },
			events.GitWork{Collaboration: events.Sequential, RequireApproval: true}},
		{"GIT-9 the working branch is a template, and the run's own is made off it", func(a *delivery.Ask) { a.File.WorkingBranch = "feature/review-${input.pr_number}" },
			events.GitWork{WorkingBranch: "feature/review-12", NewBranch: "agent/coder/r1", Collaboration: events.Sequential, RequireApproval: true}},
		{"GIT-5 GIT-6 C17 the runs of a session share one branch and are committed", func(a *delivery.Ask) { a.Session = "s" },
			events.GitWork{NewBranch: "agent/s.session", Collaboration: events.Sequential, AutoCommit: true, RequireApproval: true}},
		{"GIT-6 GIT-9 or the line that somebody names", func(a *delivery.Ask) { a.Session, a.SessionBranch = "s", "feature/x" },
			events.GitWork{WorkingBranch: "feature/x", Collaboration: events.Sequential, AutoCommit: true, RequireApproval: true}},
		{"GIT-5 GIT-7 parallel must be asked for: each agent has a branch off the working branch", func(a *delivery.Ask) {
			a.Session, a.SessionBranch, a.Task.Collaboration = "s", "feature/x", events.Parallel
		}, events.GitWork{WorkingBranch: "feature/x", NewBranch: "agent/s/coder", Collaboration: events.Parallel, AutoCommit: true, RequireApproval: true}},
		{"GIT-7 off the line of the session where no one names one", func(a *delivery.Ask) { a.Session, a.Mode = "s", events.Parallel },
			events.GitWork{WorkingBranch: "agent/s.session", NewBranch: "agent/s/coder", Collaboration: events.Parallel, AutoCommit: true, RequireApproval: true}},
		{"GIT-8 who merges works on the line, also in a parallel session", func(a *delivery.Ask) { a.Session, a.Mode, a.Merge = "s", events.Parallel, []string{"agent/s/coder"} },
			events.GitWork{NewBranch: "agent/s.session", Collaboration: events.Sequential, AutoCommit: true, RequireApproval: true, Merge: []string{"agent/s/coder"}}},
		{"GIT-4 the runs of a workflow share one branch", func(a *delivery.Ask) { a.Workflow = "w" },
			events.GitWork{NewBranch: "agent/w.workflow", Collaboration: events.Sequential, RequireApproval: true}},
		{"GIT-4 or each has its own", func(a *delivery.Ask) { a.Workflow, a.File.Strategy = "w", events.BranchPerRun },
			events.GitWork{NewBranch: "agent/coder/r1", Collaboration: events.Sequential, RequireApproval: true}},
		{"GIT-3 C17 auto_commit is what somebody says, else as the run works with others", func(a *delivery.Ask) { a.Session, a.File.AutoCommit = "s", &no },
			events.GitWork{NewBranch: "agent/s.session", Collaboration: events.Sequential, RequireApproval: true}},
		{"C17 a declared way of collaboration commits too", func(a *delivery.Ask) { a.File.Collaboration = events.Sequential },
			events.GitWork{NewBranch: "agent/coder/r1", Collaboration: events.Sequential, AutoCommit: true, RequireApproval: true}},
		{"WS-14 an ephemeral workspace is what somebody asks for", func(a *delivery.Ask) { a.File.Workspace = events.WorkspaceEphemeral },
			events.GitWork{NewBranch: "agent/coder/r1", Collaboration: events.Sequential, RequireApproval: true, Workspace: events.WorkspaceEphemeral}},
		{"WS-14 and a persistent one what the task says instead", func(a *delivery.Ask) {
			a.File.Workspace, a.Task.Workspace, a.Depth = events.WorkspaceEphemeral, events.WorkspacePersistent, 3
		}, events.GitWork{NewBranch: "agent/coder/r1", Collaboration: events.Sequential, RequireApproval: true, Depth: 3}},
		{"GIT-12 GIT-13 a repository is pushed to, and the task wins over the agent's file", func(a *delivery.Ask) {
			a.Repo, a.Branch, a.Depth = true, "main", 1
			a.File.RequireApproval, a.File.AutoCommit, a.Task.AutoCommit = &no, &no, &yes
		}, events.GitWork{Branch: "main", Depth: 1, NewBranch: "agent/coder/r1", Collaboration: events.Sequential, AutoCommit: true, Push: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := ask()
			tc.ask(&a)
			got, err := delivery.Resolve(a)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, tc.want) {
				t.Errorf("got %+v, want %+v", *got, tc.want)
			}
		})
	}
	t.Run("GATE-13 SAFE-9 a task can ask for approval, and cannot switch off what an operator has not", func(t *testing.T) {
		t.Parallel()
		for _, file := range []*bool{nil, &yes, &no} {
			for _, task := range []*bool{nil, &yes, &no} {
				a := ask()
				a.File.RequireApproval, a.Task.RequireApproval = file, task
				got, err := delivery.Resolve(a)
				if want := task == &no && file != &no; (err != nil) != want {
					t.Errorf("file %v, task %v: %v", file, task, err)
				}
				if free := file == &no && task != &yes; err == nil && got.RequireApproval == free {
					t.Errorf("file %v, task %v: %+v", file, task, got)
				}
			}
		}
	})
	t.Run("WS-14 an ephemeral workspace has the whole history: a depth is refused and says what to do", func(t *testing.T) {
		t.Parallel()
		a := ask()
		a.Depth, a.File.Workspace = 1, events.WorkspaceEphemeral
		if _, err := delivery.Resolve(a); err == nil || !strings.Contains(err.Error(), "remove depth") {
			t.Errorf("%v", err)
		}
	})
	t.Run("GIT-9 a template without a value is an error that names it", func(t *testing.T) {
		t.Parallel()
		for template, want := range map[string]string{"x-${input.nothing}": `no variable "nothing"`, "x-${session_id}": "is empty", "x-${other}": "unknown variable", "x-${run_id": "without its }"} {
			a := ask()
			a.Task.WorkingBranch = template
			if _, err := delivery.Resolve(a); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", template, err, want)
			}
		}
	})
	t.Run("GIT-14 C22 lines of sessions, branches of agents and of runs never stand in each other's way", func(t *testing.T) {
		t.Parallel()
		id := rapid.StringMatching(`[A-Za-z0-9_]{1,3}`)
		rapid.Check(t, func(t *rapid.T) {
			names := map[string]string{}
			for range 6 {
				a := ask()
				a.Run, a.Agent = id.Draw(t, "run"), id.Draw(t, "agent")
				if rapid.Bool().Draw(t, "in a session") {
					a.Session = id.Draw(t, "session")
				}
				if rapid.Bool().Draw(t, "side by side") {
					a.Task.Collaboration = events.Parallel
				}
				w, err := delivery.Resolve(a)
				if err != nil {
					t.Fatal(err)
				}
				b, err := json.Marshal(a.Session)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []string{w.NewBranch, w.WorkingBranch} {
					for other := range names {
						if n != "" && (strings.HasPrefix(n, other+"/") || strings.HasPrefix(other, n+"/")) {
							t.Fatalf("%s and %s cannot both be", n, other)
						}
					}
					if n != "" {
						names[n] = string(b)
					}
				}
			}
		})
	})
}
