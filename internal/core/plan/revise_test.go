package plan

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// rejected is a run of three steps, paused because the gate before the second was answered with no.
func rejected() *runtest.Builder {
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("one"), runtest.Step("two", "one"), runtest.Step("three", "two")),
		runtest.Ready("one"), runtest.Allowed("one"), runtest.Turn(1, "one", "done"), runtest.StepDone("one", "the first output"),
		runtest.Ready("two"), runtest.GateAt("g-two", "two", ""))
	s := b.State()
	b.Append(runtest.No(s.Gate("g-two"), "too risky"), runtest.Paused("gate rejected: too risky"))
	return b
}

func steps(given ...events.TaskStep) *events.TaskPlan { return &events.TaskPlan{Steps: given} }

func todo(id string, needs ...string) events.TaskStep {
	return events.TaskStep{ID: id, Description: "do " + id, Needs: needs}
}

func TestRevise(t *testing.T) {
	t.Parallel()
	t.Run("PLAN-9 what has not begun is replaced, what is finished stays, and a second look answers nothing", func(t *testing.T) {
		t.Parallel()
		b := rejected()
		r := Revision{Plan: steps(todo("staging", "one"), todo("check", "staging")), By: "anna", Reason: "staging first", Input: 9}
		say, err := Revise(b.State(), r)
		if err != nil || len(say) != 1 {
			t.Fatalf("got %v, %v", say, err)
		}
		d, ok := say[0].(*events.PlanRevisedData)
		if !ok || !reflect.DeepEqual(d.Kept, []string{"one"}) || !reflect.DeepEqual(d.Removed, []string{"two", "three"}) || d.By != "anna" || d.Reason != "staging first" {
			t.Fatalf("got %+v", say[0])
		}
		b.Append(say...)
		s := b.State()
		if s.Status != events.Paused || len(s.Plan.Steps) != 3 || s.Step("one").Output != "the first output" || s.Step("check").Status != events.StepIsPending || s.Step("two") != nil {
			t.Fatalf("%s %+v", s.Status, s.Plan)
		}
		if say, err := Revise(s, r); len(say) != 0 || err != nil {
			t.Errorf("a second look answers %v, %v", say, err)
		}
		b.Append(runtest.Resumed())
		s = b.State()
		if ready := Ready(s.Plan, time.Time{}); len(ready) != 1 || ready[0].ID != "staging" {
			t.Errorf("ready: %+v", ready)
		}
	})
	for _, c := range []struct {
		name string
		plan *events.TaskPlan
		want string
	}{
		{"no plan", nil, "the revision has no steps"},
		{"no steps", steps(), "the revision has no steps"},
		{"the id of a finished step", steps(todo("one")), "has or had that id"},
		{"the id of the step whose gate was rejected", steps(todo("two")), "has or had that id"},
		{"a need that is removed", steps(todo("new", "three")), "which this revision removes"},
		{"a need that never was", steps(todo("new", "nothing")), "is not in the plan"},
		{"a cycle", steps(todo("a", "b"), todo("b", "a")), "stands in a cycle"},
		{"an id twice", steps(todo("a"), todo("a")), "used twice"},
		{"an agent that is not registered", steps(events.TaskStep{ID: "a", Description: "do a", Agent: "nobody"}), "is not registered"},
		{"an empty description", steps(events.TaskStep{ID: "a"}), "description is empty"},
		{"the id of a step of the harness", steps(todo(events.DeliverStep)), "step of the harness"},
		{"more steps than a plan may have", many(MaxSteps), "the limit is"},
	} {
		t.Run("PLAN-9 PLAN-3 refused: "+c.name, func(t *testing.T) {
			t.Parallel()
			b := rejected()
			say, err := Revise(b.State(), Revision{Plan: c.plan, Input: 9})
			if _, ok := errors.AsType[*Fault](err); !ok || len(say) > 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want a fault with %q", say, err, c.want)
			}
		})
	}
	t.Run("PLAN-9 as many steps as a plan may have are taken", func(t *testing.T) {
		t.Parallel()
		b := rejected()
		if _, err := Revise(b.State(), Revision{Plan: many(MaxSteps - 1), Input: 9}); err != nil {
			t.Error(err)
		}
	})
	t.Run("PLAN-9 an id that an earlier revision removed is not used again", func(t *testing.T) {
		t.Parallel()
		b := rejected()
		b.Append(runtest.Revised(b.State(), runtest.Step("staging", "one")))
		b.Append(runtest.Revised(b.State(), runtest.Step("other", "one")))
		for _, id := range []string{"two", "staging", "other"} {
			if say, err := Revise(b.State(), Revision{Plan: steps(todo(id)), Input: 9}); err == nil || len(say) > 0 {
				t.Errorf("step %s is taken again: %v", id, say)
			}
		}
	})
	t.Run("PLAN-9 a need that failed is refused, and a step that runs stays and may be needed", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("bad"), runtest.Step("runs"), runtest.Step("after", "bad"), runtest.Step("rest", "runs")),
			runtest.Ready("bad"), runtest.Ready("runs"), runtest.Allowed("bad"), runtest.Allowed("runs"), runtest.StepBad("bad", "it broke"), runtest.Paused("wait"))
		if _, err := Revise(b.State(), Revision{Plan: steps(todo("new", "bad")), Input: 9}); err == nil || !strings.Contains(err.Error(), "which has failed") {
			t.Errorf("got %v", err)
		}
		say, err := Revise(b.State(), Revision{Plan: steps(todo("new", "runs")), Input: 9})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		s := b.State()
		if d := say[0].(*events.PlanRevisedData); !reflect.DeepEqual(d.Removed, []string{"after", "rest"}) || s.Step("runs").Status != events.StepIsRunning || s.Step("bad").Status != events.StepIsFailed {
			t.Errorf("%+v", d)
		}
	})
	t.Run("PLAN-9 a run that is not paused is refused with its status", func(t *testing.T) {
		t.Parallel()
		for want, say := range map[string]func(*runtest.Builder) events.Payload{
			"the run is running": func(*runtest.Builder) events.Payload { return runtest.Resumed() },
			"the run is failed": func(b *runtest.Builder) events.Payload {
				return runtest.Failed(b.State(), events.FinishStopped, "stopped")
			},
		} {
			b := rejected()
			b.Append(say(b))
			got, err := Revise(b.State(), Revision{Plan: steps(todo("new")), Input: 9})
			if stands, ok := errors.AsType[*StateError](err); !ok || len(got) > 0 || !strings.Contains(stands.Error(), want) {
				t.Errorf("got %v, %v; want %q", got, err, want)
			}
		}
	})
	t.Run("PLAN-9 agents that the run has pinned stay as they are, others are pinned", func(t *testing.T) {
		t.Parallel()
		b := rejected()
		changed := runtest.Agent("worker", "bash")
		r := Revision{Plan: steps(events.TaskStep{ID: "new", Description: "review it", Agent: "reviewer"}, todo("own")), Input: 9,
			Agents: map[string]events.Agent{"worker": changed, "reviewer": runtest.Agent("reviewer", "read")}}
		say, err := Revise(b.State(), r)
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		s := b.State()
		if len(s.Agents) != 2 || len(s.Agents["worker"].Tools) != 2 || s.Agents["reviewer"].Name != "reviewer" {
			t.Errorf("%+v", s.Agents)
		}
	})
	t.Run("PLAN-9 GIT-13 in a run that works in git all is delivered after the new steps, and an old yes to the delivery does not count", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		c := runtest.Created()
		c.Git = &events.GitWork{NewBranch: "agent/x", Collaboration: events.Sequential}
		checkout, deliver := runtest.Step(events.CheckoutStep), runtest.Step(events.DeliverStep, events.CheckoutStep, "a")
		checkout.Kind, deliver.Kind = events.StepCheckout, events.StepDeliver
		b.Append(c, runtest.Started(), runtest.Plan(checkout, runtest.Step("a", events.CheckoutStep), deliver),
			runtest.Ready(checkout.ID), runtest.Allowed(checkout.ID), runtest.Turn(1, checkout.ID, "done"), runtest.StepDone(checkout.ID, "ready"),
			runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(2, "a", "done"), runtest.StepDone("a", "made"),
			runtest.Ready(deliver.ID), runtest.GateAt("g-deliver", deliver.ID, ""), runtest.Paused("wait"))
		s := b.State()
		b.Append(runtest.Yes(s.Gate("g-deliver")))
		say, err := Revise(b.State(), Revision{Plan: steps(todo("b"), todo("c", "a")), By: "anna", Input: 9})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		s = b.State()
		last := s.Plan.Steps[len(s.Plan.Steps)-1]
		if last.ID != deliver.ID || last.Status != events.StepIsPending || !reflect.DeepEqual(last.Dependencies, []string{checkout.ID, "b", "c"}) || !reflect.DeepEqual(s.Step("b").Dependencies, []string{checkout.ID}) {
			t.Errorf("%+v", last)
		}
		if g := s.Gate("g-deliver"); g.Status != run.GateSuperseded {
			t.Errorf("the gate is %s", g.Status)
		}
	})
	t.Run("PLAN-9 GIT-13 the commit that is owed to a step that has begun stays, new steps wait for it, and that of a removed step goes", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		c := runtest.Created()
		c.Git = &events.GitWork{NewBranch: "agent/x", Collaboration: events.Sequential}
		harness := func(id string, kind events.StepKind, needs ...string) events.PlanStep {
			st := runtest.Step(id, needs...)
			st.Kind = kind
			return st
		}
		mine, theirs := events.CommitStepPrefix+"1", events.CommitStepPrefix+"2"
		b.Append(c, runtest.Started(), runtest.Plan(harness(events.CheckoutStep, events.StepCheckout), runtest.Step("a", events.CheckoutStep),
			harness(mine, events.StepCommit, events.CheckoutStep, "a"), runtest.Step("z", mine), harness(theirs, events.StepCommit, events.CheckoutStep, "z"),
			harness(events.DeliverStep, events.StepDeliver, events.CheckoutStep, theirs)),
			runtest.Ready(events.CheckoutStep), runtest.Allowed(events.CheckoutStep), runtest.Turn(1, events.CheckoutStep, "done"), runtest.StepDone(events.CheckoutStep, "ready"),
			runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(2, "a", "done"), runtest.StepDone("a", "made"), runtest.Paused("wait"))
		say, err := Revise(b.State(), Revision{Plan: steps(todo("b"), todo("c", "a")), By: "anna", Input: 9})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		s := b.State()
		if s.Step(mine) == nil || s.Step(theirs) != nil || s.Step("z") != nil {
			t.Fatalf("%+v", s.Plan)
		}
		for id, want := range map[string][]string{"b": {events.CheckoutStep, mine}, "c": {"a", mine}, events.DeliverStep: {events.CheckoutStep, "b", "c"}} {
			if got := s.Step(id).Dependencies; !reflect.DeepEqual(got, want) {
				t.Errorf("%s waits for %v, want %v", id, got, want)
			}
		}
	})
	t.Run("PLAN-9 GIT-13 a revision cannot give a step git settings: what a person is asked about is the run's to say", func(t *testing.T) {
		t.Parallel()
		no := false
		lax := todo("staging", "one")
		lax.Git = &events.GitSettings{RequireApproval: &no}
		var fault *Fault
		if say, err := Revise(rejected().State(), Revision{Plan: steps(lax), By: "anna", Input: 9}); !errors.As(err, &fault) || fault.Step != "staging" || len(say) > 0 {
			t.Errorf("got %v, %v", say, err)
		}
		b := rejected()
		st := runtest.Step("staging", "one")
		st.Git = lax.Git
		if _, err := b.Try(runtest.Revised(b.State(), st)); err == nil || !strings.Contains(err.Error(), "git settings") {
			t.Errorf("the fold answers %v", err)
		}
	})
}

// TestReviseProperties takes random histories, and revisions of them that need what stays and each other.
func TestReviseProperties(t *testing.T) {
	t.Parallel()
	t.Run("PLAN-9 LIFE-2 for any history and revision: what has begun stays with its output, a second look answers nothing, and the run can go on", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("demo", "r")
			for range rapid.IntRange(4, 40).Draw(t, "facts") {
				moves := runtest.Moves(b.State())
				if len(moves) == 0 {
					break
				}
				b.Append(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")])
			}
			if s := b.State(); s.Status == events.Running && s.Plan != nil {
				b.Append(runtest.Paused("to revise"))
			}
			before := b.State()
			r := Revision{Plan: drawn(t, before), By: "anna", Reason: "another way", Input: 1077} // no drawn event has it
			say, err := Revise(before, r)
			if why := before.Revisable(); (why != "") != (err != nil) {
				t.Fatalf("%q, and the answer is %v", why, err)
			}
			if err != nil {
				return
			}
			b.Append(say...)
			s := b.State()
			for _, st := range before.Plan.Steps {
				if st.Begun() && !reflect.DeepEqual(s.Step(st.ID), st) {
					t.Fatalf("step %s was %+v and is %+v", st.ID, st, s.Step(st.ID))
				}
				if !st.Begun() && s.Step(st.ID) != nil {
					t.Fatalf("step %s has not begun and stays", st.ID)
				}
			}
			for _, st := range r.Plan.Steps {
				if s.GateFor(st.ID, "") != nil {
					t.Fatalf("the new step %s has a gate already", st.ID)
				}
			}
			for _, g := range s.Gates {
				if g.Status == run.GatePending && s.Step(g.StepID) == nil {
					t.Fatalf("gate %s waits before a step that is gone", g.ID)
				}
			}
			if again, err := Revise(s, r); len(again) > 0 || err != nil {
				t.Fatalf("a second look answers %v, %v", again, err)
			}
			if s.Status != events.Paused || s.ToolCallHistory.Len() != before.ToolCallHistory.Len() || s.Broken() != "" {
				t.Fatalf("the run is %s, %s", s.Status, s.Broken())
			}
			b.Append(runtest.Resumed())
			for range 3 * MaxSteps { // and it is carried out to its end
				s := b.State()
				ready := Ready(s.Plan, time.Time{})
				if len(ready) == 0 {
					break
				}
				b.Append(runtest.Ready(ready[0].ID), runtest.Allowed(ready[0].ID), runtest.Turn(s.Turns().Len()+1, ready[0].ID, "done"))
				runtest.PassChecks(b, ready[0].ID)
				b.Append(runtest.StepDone(ready[0].ID, "new output"))
			}
			s = b.State()
			for _, st := range s.Plan.Steps {
				if st.Status == events.StepIsPending && waits(s, st) {
					t.Fatalf("step %s never becomes ready", st.ID)
				}
			}
		})
	})
}

// waits reports whether a step is pending although all that it needs is complete.
func waits(s run.State, st *run.Step) bool {
	for _, d := range st.Dependencies {
		if s.Step(d).Status != events.StepIsCompleted {
			return false
		}
	}
	return true
}

// drawn is a sound revision: new steps, each after some that stay without having failed and some of those before it.
func drawn(t *rapid.T, s run.State) *events.TaskPlan {
	p := &events.TaskPlan{}
	var may []string
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			if st.Begun() && st.Status != events.StepIsFailed {
				may = append(may, st.ID)
			}
		}
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
		var needs []string
		for _, id := range may {
			if rapid.IntRange(0, 2).Draw(t, "needs") == 0 {
				needs = append(needs, id)
			}
		}
		st := todo("new-"+string(rune('a'+i)), needs...)
		p.Steps, may = append(p.Steps, st), append(may, st.ID)
	}
	return p
}

// many is a plan of so many steps.
func many(n int) *events.TaskPlan {
	p := &events.TaskPlan{}
	for i := range n {
		p.Steps = append(p.Steps, todo("m"+strings.Repeat("x", i%50)+string(rune('a'+i/50))))
	}
	return p
}
