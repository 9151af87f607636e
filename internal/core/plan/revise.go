package plan

import (
	"fmt"
	"slices"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MaxRemoved bounds the steps that all revisions of a run take out together.
const MaxRemoved = 2000

// Revision is what somebody outside wants instead of the steps that have not begun.
type Revision struct {
	Plan *events.TaskPlan
	// Agents that the steps name, and the prices of their models; those that the run has pinned are used as they are.
	Agents map[string]events.Agent
	Prices map[string]events.Price
	By     string
	Reason string
	// Input is the position of the message: a second look at it answers nothing.
	Input uint64
}

// StateError is returned where a plan cannot be revised as the run stands.
type StateError struct {
	Status events.Status
	Text   string
}

func (e *StateError) Error() string { return e.Text }

// Revise replaces the steps of a paused run that have not begun (PLAN-9). Steps that have begun or ended stay. It
// returns a *StateError, or a *Fault of the plan as it would be.
func Revise(s run.State, r Revision) ([]events.Payload, error) {
	if s.Took(r.Input) {
		return nil, nil
	}
	if why := s.Revisable(); why != "" {
		return nil, &StateError{s.Status, why}
	}
	if r.Plan == nil || len(r.Plan.Steps) == 0 {
		return nil, &Fault{Text: "the revision has no steps", Hint: "give at least one step; inspan stop ends the run"}
	}
	kept, removed, deliver := s.Plan.Unbegun()
	if n := len(s.Plan.Removed) + len(removed); n > MaxRemoved {
		return nil, &Fault{Text: fmt.Sprintf("revisions have removed %d steps, the limit is %d", n, MaxRemoved),
			Hint: "stop the run and start a new one"}
	}
	steps := r.Plan.PlanSteps(s.AgentName)
	whole := retainedSteps(s, kept)
	if s.Step(events.CheckoutStep) != nil && s.Harness(events.CheckoutStep) {
		for i := range steps {
			if len(steps[i].Dependencies) == 0 {
				steps[i].Dependencies = []string{events.CheckoutStep}
			}
		}
	}
	afterCommits(s, kept, steps)
	if err := unused(s, steps); err != nil {
		return nil, err
	}
	if deliver != nil {
		steps = append(steps, last(deliver, append(slices.Clone(whole), steps...)))
	}
	known := func(agent string) bool {
		_, pinned := s.Agents[agent]
		_, found := r.Agents[agent]
		return pinned || found
	}
	if err := Check(append(whole, steps...), known); err != nil {
		return nil, err
	}
	d := &events.PlanRevisedData{Event: "plan_revised", Steps: steps, Removed: removed, Kept: kept, By: r.By,
		Reason: r.Reason, Input: r.Input, Prices: r.Prices}
	for name, a := range r.Agents {
		if _, pinned := s.Agents[name]; pinned {
			continue
		}
		if d.Agents == nil {
			d.Agents = map[string]events.Agent{}
		}
		d.Agents[name] = a
	}
	return []events.Payload{d}, nil
}

// afterCommits has new steps wait for the commits that are owed to steps that stay: a commit takes all of the working
// tree.
func afterCommits(s run.State, kept []string, steps []events.PlanStep) {
	for _, id := range kept {
		st := s.Step(id)
		if st.Kind != events.StepCommit || st.Status == events.StepIsCompleted || st.Status == events.StepIsFailed {
			continue
		}
		for i := range steps {
			if !slices.Contains(steps[i].Dependencies, id) {
				steps[i].Dependencies = append(slices.Clone(steps[i].Dependencies), id)
			}
		}
	}
}

// unused returns a *Fault for git settings, for an id that a step of the run has or had, and for a dependency on a step
// that did not succeed.
func unused(s run.State, steps []events.PlanStep) error {
	for _, st := range steps {
		if st.Git != nil {
			return &Fault{Step: st.ID, Text: "a revision cannot give a step git settings of its own",
				Hint: "leave git out: the run's settings hold for new steps"}
		}
		if s.Step(st.ID) != nil || slices.Contains(s.Plan.Removed, st.ID) {
			return &Fault{Step: st.ID, Text: "a step of this run has or had that id",
				Hint: "give new steps ids of their own; a step that has begun stays in the plan by itself, and others name it in needs"}
		}
		for _, d := range st.Dependencies {
			switch on := s.Step(d); {
			case on == nil:
			case on.Status == events.StepIsFailed:
				return &Fault{Step: st.ID, Text: fmt.Sprintf("depends on %q, which has failed", d),
					Hint: "plan the work of that step anew, under another id"}
			case on.Kind == "" && !on.Begun():
				return &Fault{Step: st.ID, Text: fmt.Sprintf("depends on %q, which this revision removes", d),
					Hint: "name a step that has begun, or one of the new steps"}
			}
		}
	}
	return nil
}

// retainedSteps are the steps that stay, as the check of a plan takes them.
func retainedSteps(s run.State, kept []string) []events.PlanStep {
	steps := make([]events.PlanStep, 0, len(kept))
	for _, id := range kept {
		st := s.Step(id)
		steps = append(steps, events.PlanStep{ID: st.ID, Description: "kept", Agent: st.AssignedAgent,
			Dependencies: st.Dependencies, Critical: st.Critical, Kind: st.Kind})
	}
	return steps
}

// last is the step that delivers, after all steps that no other one needs.
func last(deliver *run.Step, before []events.PlanStep) events.PlanStep {
	needed := map[string]bool{}
	for _, st := range before {
		for _, d := range st.Dependencies {
			needed[d] = true
		}
	}
	st := events.PlanStep{ID: deliver.ID, Description: deliver.Description, Agent: deliver.AssignedAgent,
		Critical: deliver.Critical, Kind: deliver.Kind,
		Dependencies: []string{events.CheckoutStep}}
	for _, b := range before {
		if (b.Kind == "" || b.Kind == events.StepCommit) && !needed[b.ID] {
			st.Dependencies = append(st.Dependencies, b.ID)
		}
	}
	return st
}
