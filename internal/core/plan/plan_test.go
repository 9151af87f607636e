package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func known(agent string) bool { return agent == "worker" }

func step(id string, deps ...string) events.PlanStep {
	return events.PlanStep{ID: id, Description: "do " + id, Agent: "worker", Dependencies: deps}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	many := make([]events.PlanStep, MaxSteps+1)
	for i := range many {
		many[i] = step(fmt.Sprintf("s%d", i))
	}
	cases := []struct {
		name, want string
		steps      []events.PlanStep
	}{
		{"PLAN-2 a sound plan passes", "", []events.PlanStep{step("a"), step("b", "a"), step("c", "a", "b")}},
		{"PLAN-3 duplicate id", "used twice", []events.PlanStep{step("a"), step("a")}},
		{"PLAN-3 dependency outside the plan", "not in the plan", []events.PlanStep{step("a", "ghost")}},
		{"PLAN-3 cycle of two", "cycle", []events.PlanStep{step("a", "b"), step("b", "a")}},
		{"PLAN-3 step that waits for itself", "cycle", []events.PlanStep{step("a", "a")}},
		{"PLAN-3 empty description", "description is empty", []events.PlanStep{{ID: "a", Description: " \n", Agent: "worker"}}},
		{"PLAN-3 unknown agent", "not registered", []events.PlanStep{{ID: "a", Description: "x", Agent: "nobody"}}},
		{"SAFE-12 id with a dot", "not a single token", []events.PlanStep{step("a.b")}},
		{"SAFE-12 id with a wildcard", "not a single token", []events.PlanStep{step("*")}},
		{"no steps", "no steps", nil},
		{"at the limit", "", many[:MaxSteps]},
		{"above the limit", "the limit is", many},
		{"description above the limit", "the limit is", []events.PlanStep{{ID: "a", Description: strings.Repeat("x", MaxDescription+1), Agent: "worker"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := Check(c.steps, known)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			fault, ok := errors.AsType[*Fault](err)
			if !ok || !strings.Contains(fault.Text, c.want) || fault.Hint == "" {
				t.Errorf("got %v, want a fault with a hint and %q", err, c.want)
			}
		})
	}
}

func TestPROP12(t *testing.T) {
	t.Parallel()
	t.Run("PROP-12 Feature: agent-harnesses, Property 12: what Check lets through can be worked off to the end", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 8).Draw(t, "steps")
			steps := make([]events.PlanStep, n)
			for i := range steps {
				var deps []string
				for range rapid.IntRange(0, 3).Draw(t, "deps") {
					deps = append(deps, fmt.Sprintf("s%d", rapid.IntRange(0, n).Draw(t, "dep")))
				}
				steps[i] = step(fmt.Sprintf("s%d", i), deps...)
			}
			p := &run.Plan{}
			for _, s := range steps {
				p.Steps = append(p.Steps, &run.Step{ID: s.ID, Dependencies: s.Dependencies, Status: events.StepIsPending})
			}
			done := 0
			for ready := Ready(p); len(ready) > 0; ready = Ready(p) {
				for _, st := range ready {
					st.Status = events.StepIsCompleted
					done++
				}
			}
			if sound := Check(steps, known) == nil; sound != (done == n) {
				t.Fatalf("Check says sound=%v, but %d of %d steps can be done: %+v", sound, done, n, steps)
			}
		})
	})
}

func TestPROP13(t *testing.T) {
	t.Parallel()
	t.Run("PROP-13 PLAN-5 Feature: agent-harnesses, Property 13: ready is exactly pending with all dependencies completed", func(t *testing.T) {
		t.Parallel()
		statuses := []events.StepStatus{events.StepIsPending, events.StepIsReady, events.StepIsRunning, events.StepIsCompleted, events.StepIsFailed, events.StepIsBlocked}
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 10).Draw(t, "steps")
			p := &run.Plan{}
			for i := range n {
				st := &run.Step{ID: fmt.Sprintf("s%d", i), Status: rapid.SampledFrom(statuses).Draw(t, "status")}
				for j := range i {
					if rapid.Bool().Draw(t, "dep") {
						st.Dependencies = append(st.Dependencies, fmt.Sprintf("s%d", j))
					}
				}
				p.Steps = append(p.Steps, st)
			}
			got := map[string]bool{}
			for _, st := range Ready(p) {
				got[st.ID] = true
			}
			for _, st := range p.Steps {
				want := st.Status == events.StepIsPending
				for _, d := range st.Dependencies {
					for _, other := range p.Steps {
						if other.ID == d && other.Status != events.StepIsCompleted {
							want = false
						}
					}
				}
				if got[st.ID] != want {
					t.Fatalf("%s: ready %v, want %v", st.ID, got[st.ID], want)
				}
			}
		})
	})
}
