package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
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
