package delivery_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

const three = "3333333333333333333333333333333333333333"

// landing begins a run of a merge queue: commit two of agent/a is to be landed on main, which is at commit one.
func landing() *runtest.Builder {
	w := events.GitWork{Branch: "main", WorkingBranch: "main", NewBranch: "landing/x", Collaboration: events.Sequential, Push: true}
	b := runtest.New("main", "r1")
	c := runtest.Created()
	c.Git, c.Repo = &w, "https://host/repo"
	c.Landing = &events.LandingRef{Queue: "main", Number: 1, Attempt: 1, Branch: "agent/a", Commit: two, Target: "main"}
	b.Append(c, runtest.Started(), delivery.Wrap(&w, runtest.Plan(runtest.Step("check"))))
	begin(b, events.CheckoutStep)
	return b
}

const ready = `{"branch":"landing/x","commit":%q,"base":%q,"tree":"t1","cloned":true,"sides":[{"branch":"agent/a","commit":%q}]}`

// expect answers the next call of a step, which must be the given tool with the given arguments.
func expect(t *testing.T, b *runtest.Builder, step, tool, input, result string) {
	t.Helper()
	c, done := owed(b, step)
	if done || c.Tool != tool || string(c.Input) != input {
		t.Fatalf("asked for %s %s, ended %v; want %s %s", c.Tool, c.Input, done, tool, input)
	}
	answer(b, step, c, result, true)
}

func ends(t *testing.T, b *runtest.Builder, step string) {
	t.Helper()
	if c, done := owed(b, step); !done {
		t.Fatalf("asked for %s", c.Tool)
	}
}

// merges takes the checkout to its end, where the merge is told as given.
func merges(t *testing.T, b *runtest.Builder, result string) {
	t.Helper()
	prepare := `{"url":"https://host/repo","branch":"main","working_branch":"main","new_branch":"landing/x","sides":["agent/a"]}`
	expect(t, b, events.CheckoutStep, events.GitPrepare, prepare, fmt.Sprintf(ready, one, one, two))
	expect(t, b, events.CheckoutStep, events.GitMerge, fmt.Sprintf(`{"from":["agent/a"],"onto":%q,"commits":[%q]}`, one, two), result)
	ends(t, b, events.CheckoutStep)
}

// checked takes the step of the checks to its end, and begins the last one.
func checked(b *runtest.Builder) {
	begin(b, "check")
	b.Append(runtest.Turn(b.State().AgentLoopSnapshot.Turns.Len()+1, "check", "done"), runtest.StepDone("check", "passed"))
	begin(b, events.DeliverStep)
}

func TestLanding(t *testing.T) {
	t.Parallel()
	merged := fmt.Sprintf(`{"commit":%q,"branch":"landing/x","merged":[{"branch":"agent/a","commit":%q,"how":"merge"}]}`, three, two)
	t.Run("DLV-1 the delivered commit is merged into the target, and the merged commit is pushed to it after the checks", func(t *testing.T) {
		t.Parallel()
		b := landing()
		merges(t, b, merged)
		checked(b)
		expect(t, b, events.DeliverStep, events.GitPrepare, `{}`, fmt.Sprintf(`{"branch":"landing/x","commit":%q,"base":%q,"tree":"t3"}`, three, one))
		expect(t, b, events.DeliverStep, events.GitPush, fmt.Sprintf(`{"branch":"landing/x","commit":%q,"url":"https://host/repo","to":"main"}`, three),
			fmt.Sprintf(`{"url":"https://host/repo","branch":"main","commit":%q}`, three))
		expect(t, b, events.DeliverStep, events.GitRemove, fmt.Sprintf(`{"branch":"agent/a","commit":%q,"into":"main","url":"https://host/repo"}`, two),
			fmt.Sprintf(`{"branch":"agent/a","commit":%q,"how":"history"}`, two))
		ends(t, b, events.DeliverStep)
		if o := delivery.Landed(b.State()); o.Code != "" || o.Commit != three || o.Base != one || o.How != "merge" || o.Tree != "t3" || !o.Removed {
			t.Errorf("%+v", o)
		}
	})
	t.Run("DLV-1 where the target has the commit already nothing is pushed, and it is landed", func(t *testing.T) {
		t.Parallel()
		b := landing()
		merges(t, b, fmt.Sprintf(`{"commit":%q,"branch":"landing/x","merged":[{"branch":"agent/a","commit":%q,"how":"nothing"}]}`, one, two))
		checked(b)
		expect(t, b, events.DeliverStep, events.GitPrepare, `{}`, fmt.Sprintf(`{"branch":"landing/x","commit":%q,"base":%q,"tree":"t1"}`, one, one))
		expect(t, b, events.DeliverStep, events.GitRemove, fmt.Sprintf(`{"branch":"agent/a","commit":%q,"into":"main","url":"https://host/repo"}`, two),
			fmt.Sprintf(`{"branch":"agent/a","commit":%q}`, two))
		ends(t, b, events.DeliverStep)
		if o := delivery.Landed(b.State()); o.Code != "" || o.Commit != one || o.How != "nothing" || !o.Removed {
			t.Errorf("%+v", o)
		}
	})
	t.Run("DLV-1 a remote that has another commit on the target after the push did not take the work", func(t *testing.T) {
		t.Parallel()
		b := landing()
		merges(t, b, merged)
		checked(b)
		expect(t, b, events.DeliverStep, events.GitPrepare, `{}`, fmt.Sprintf(`{"branch":"landing/x","commit":%q,"base":%q,"tree":"t3"}`, three, one))
		expect(t, b, events.DeliverStep, events.GitPush, fmt.Sprintf(`{"branch":"landing/x","commit":%q,"url":"https://host/repo","to":"main"}`, three),
			fmt.Sprintf(`{"url":"https://host/repo","branch":"main","commit":%q}`, one))
		ends(t, b, events.DeliverStep)
		if o := delivery.Landed(b.State()); o.Code == "" || o.Commit != "" {
			t.Errorf("%+v", o)
		}
	})
	t.Run("DLV-1 a branch that is not at the delivered commit is not merged", func(t *testing.T) {
		t.Parallel()
		b := landing()
		c, _ := owed(b, events.CheckoutStep)
		answer(b, events.CheckoutStep, c, fmt.Sprintf(ready, one, one, three), true)
		ends(t, b, events.CheckoutStep)
		s := b.State()
		if st := s.Step(events.CheckoutStep); st.Status != events.StepIsFailed || !strings.Contains(st.Error, "was rewritten") {
			t.Errorf("%+v", st)
		}
		if o := delivery.Landed(b.State()); o.Code != events.LandingRewritten {
			t.Errorf("%+v", o)
		}
	})
	for name, c := range map[string]struct{ result, code string }{
		"a conflict":                       {fmt.Sprintf(`{"commit":%q,"merged":[],"conflicts":[{"branch":"agent/a","ours":%q,"theirs":%q,"paths":[{"path":"login.go"}],"more":2}]}`, one, one, two), events.LandingConflict},
		"a branch that moved meanwhile":    {fmt.Sprintf(`{"commit":%q,"merged":[],"moved":[{"branch":"agent/a","was":%q,"is":%q}]}`, one, two, three), events.LandingRewritten},
		"a merge of another commit":        {fmt.Sprintf(`{"commit":%q,"merged":[{"branch":"agent/a","commit":%q,"how":"merge"}]}`, three, three), events.LandingFailed},
		"a merge that says nothing at all": {`{}`, events.LandingFailed},
	} {
		t.Run("DLV-1 GIT-8 "+name+" ends the attempt before anything is checked or pushed", func(t *testing.T) {
			t.Parallel()
			b := landing()
			merges(t, b, c.result)
			s := b.State()
			if st := s.Step(events.CheckoutStep); st.Status != events.StepIsFailed {
				t.Fatalf("%+v", st)
			}
			if o := delivery.Landed(b.State()); o.Code != c.code || o.Commit != "" || c.code == events.LandingConflict && !strings.Contains(o.Reason, "login.go and 2 more") {
				t.Errorf("%+v, want %s", o, c.code)
			}
		})
	}
	t.Run("GATE-13 DLV-1 the push to the target needs the approval of a person where the run does, and the merge before it does not", func(t *testing.T) {
		t.Parallel()
		b := landing()
		s := b.State()
		work := *s.Created.Git
		work.RequireApproval = true
		s.Created.Git = &work
		if _, gated := delivery.Gated(s, events.DeliverStep, events.GitPush); !gated {
			t.Error("nobody is asked about the push")
		}
		if _, gated := delivery.Gated(s, events.CheckoutStep, events.GitMerge); gated {
			t.Error("somebody is asked about the merge that is tried")
		}
		if _, gated := delivery.Gated(s, "check", events.GitMerge); !gated {
			t.Error("an agent's own merge asks nobody")
		}
	})
}

func TestLandedBranch(t *testing.T) {
	t.Parallel()
	t.Run("DLV-5 a queue that keeps branches asks for no removal, and says so", func(t *testing.T) {
		t.Parallel()
		b := landing()
		b.State().Created.Landing.Keep = true
		merges(t, b, fmt.Sprintf(`{"commit":%q,"branch":"landing/x","merged":[{"branch":"agent/a","commit":%q,"how":"nothing"}]}`, one, two))
		checked(b)
		expect(t, b, events.DeliverStep, events.GitPrepare, `{}`, fmt.Sprintf(`{"branch":"landing/x","commit":%q,"base":%q,"tree":"t1"}`, one, one))
		ends(t, b, events.DeliverStep)
		if o := delivery.Landed(b.State()); o.Code != "" || o.Removed || o.Kept == "" {
			t.Errorf("%+v", o)
		}
	})
}
