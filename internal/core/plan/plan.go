// Package plan decides about the execution plan: whether it is sound, and what follows from what is done.
//
// Promises: a plan is refused with the fault named, never fixed in silence; a step becomes ready exactly when all
// it depends on is completed; what hangs on a failed step is blocked; the end of the plan is the end of the run.
package plan

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Limits of a plan.
const (
	MaxSteps       = 1000
	MaxDescription = events.MaxDescription
)

// Fault is what is wrong with a plan (PLAN-3).
type Fault struct{ Step, Text, Hint string }

func (f *Fault) Error() string {
	if f.Step == "" {
		return "plan: " + f.Text
	}
	return fmt.Sprintf("plan step %q: %s", f.Step, f.Text)
}

// Check returns nil or a *Fault: duplicate ids, a dependency outside the plan, a cycle, an empty description or an
// unknown agent. known tells which agents are registered.
func Check(steps []events.PlanStep, known func(agent string) bool) error {
	if len(steps) == 0 {
		return &Fault{Text: "has no steps", Hint: "give at least one step, or leave the plan out for a run of one step"}
	}
	own := 0
	for _, s := range steps {
		if s.Kind == "" {
			own++
		}
	}
	if own > MaxSteps {
		return &Fault{Text: fmt.Sprintf("has %d steps, the limit is %d", own, MaxSteps), Hint: "split the task"}
	}
	ids := make(map[string]bool, len(steps))
	for _, s := range steps {
		switch {
		case s.Kind == "" && (s.ID == events.CheckoutStep || s.ID == events.DeliverStep):
			return &Fault{Step: s.ID, Text: "the id is that of a step of the harness", Hint: "give the step another id"}
		case !events.ValidID(s.ID):
			return &Fault{Step: s.ID, Text: "the id is not a single token", Hint: "use A-Z a-z 0-9 _ and -, at most 64"}
		case ids[s.ID]:
			return &Fault{Step: s.ID, Text: "the id is used twice", Hint: "give each step its own id"}
		case strings.TrimSpace(s.Description) == "":
			return &Fault{Step: s.ID, Text: "the description is empty", Hint: "say what the step is to do"}
		case len(s.Description) > MaxDescription:
			return &Fault{Step: s.ID, Text: fmt.Sprintf("the description has %d bytes, the limit is %d", len(s.Description),
				MaxDescription), Hint: "put long material in a file of the workspace"}
		case s.Flow.Fault(s.ID, s.Child) != "":
			return &Fault{Step: s.ID, Text: s.Flow.Fault(s.ID, s.Child),
				Hint: "docs/formulas.md says what the flow of a step may have"}
		case s.Flow != nil && s.Git != nil:
			return &Fault{Step: s.ID, Text: "has git settings and a flow of its own", Hint: "leave one of them out"}
		case !known(s.Agent):
			return &Fault{Step: s.ID, Text: fmt.Sprintf("agent %q is not registered", s.Agent),
				Hint: "inspan doctor lists the agents; add AGENT.prompt to the agents folder"}
		}
		ids[s.ID] = true
	}
	if err := partless(steps); err != nil {
		return err
	}
	for _, s := range steps {
		for _, d := range s.Dependencies {
			if !ids[d] {
				return &Fault{Step: s.ID, Text: fmt.Sprintf("depends on %q, which is not in the plan", d),
					Hint: "name a step id of this plan"}
			}
		}
	}
	return acyclic(steps)
}

// partless refuses an id that a part of another step may get.
func partless(steps []events.PlanStep) error {
	groups := map[string]bool{}
	for _, s := range steps {
		if s.Flow.Parted() {
			groups[s.ID] = true
		}
	}
	if len(groups) == 0 {
		return nil
	}
	for _, s := range steps {
		for whole, ok := events.Whole(s.ID); ok; whole, ok = events.Whole(whole) {
			if groups[whole] {
				return &Fault{Step: s.ID, Text: fmt.Sprintf("the id is one that parts of %q get", whole),
					Hint: "give the step another id"}
			}
		}
	}
	return nil
}

// acyclic removes steps without open dependencies until none is left; what remains stands in a cycle.
func acyclic(steps []events.PlanStep) error {
	open := make(map[string][]string, len(steps))
	for _, s := range steps {
		open[s.ID] = s.Dependencies
	}
	for removed := true; removed; {
		removed = false
		for id, deps := range open {
			if !anyIn(deps, open) {
				delete(open, id)
				removed = true
			}
		}
	}
	for _, s := range steps {
		if _, left := open[s.ID]; left {
			return &Fault{Step: s.ID, Text: "stands in a cycle of dependencies", Hint: "remove one of the dependencies among " +
				names(steps, open)}
		}
	}
	return nil
}

func anyIn(deps []string, open map[string][]string) bool {
	for _, d := range deps {
		if _, ok := open[d]; ok {
			return true
		}
	}
	return false
}

func names(steps []events.PlanStep, in map[string][]string) string {
	var ids []string
	for _, s := range steps {
		if _, ok := in[s.ID]; ok {
			ids = append(ids, s.ID)
		}
	}
	return strings.Join(ids, ", ")
}

// Single is the plan of a task that has none: one step.
func Single(taskID, task, agent string) *events.PlanMadeData {
	return &events.PlanMadeData{Event: "plan_made", TaskID: taskID, Origin: events.OriginSingle,
		Steps: []events.PlanStep{events.OnlyStep(task, agent)}}
}
