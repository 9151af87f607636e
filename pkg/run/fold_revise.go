package run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Begun reports whether a step was permitted, so that no revision of the plan takes it out.
func (st *Step) Begun() bool {
	return st.Status == events.StepIsRunning || st.Status == events.StepIsCompleted || st.Status == events.StepIsFailed ||
		st.Status == events.StepIsSkipped || st.Part != nil
}

// Unbegun splits the plan as a revision does: the ids of the steps that stay, of those that are removed, and the step
// that delivers where it is to be planned anew. The checkout of a run that works in git always stays, and so does the
// commit of the work of a step that has begun.
func (p *Plan) Unbegun() (kept, removed []string, deliver *Step) {
	kept, removed = []string{}, []string{}
	for _, st := range p.Steps {
		switch {
		case st.Begun() || st.Kind == events.StepCheckout || st.Kind == events.StepCommit && p.commitsBegun(st):
			kept = append(kept, st.ID)
		case st.Kind == events.StepDeliver:
			deliver = st
		default:
			removed = append(removed, st.ID)
		}
	}
	return kept, removed, deliver
}

// commitsBegun reports whether a step commits the work of one that has begun.
func (p *Plan) commitsBegun(commit *Step) bool {
	return slices.ContainsFunc(p.Steps, func(st *Step) bool {
		return st.Kind == "" && st.Begun() && slices.Contains(commit.Dependencies, st.ID)
	})
}

// Revisable returns why the plan of the run cannot be revised now, or "".
func (s *State) Revisable() string {
	switch deliver := s.Step(events.DeliverStep); {
	case s.Status != events.Paused:
		return fmt.Sprintf("the run is %s, and a plan is revised while its run is paused", s.Status)
	case s.Stopping != nil:
		return "the run is stopping"
	case s.Plan == nil:
		return "the run has no plan yet"
	case s.Direct():
		return "the run is on the direct path, its only step has begun"
	case s.PlanDone:
		return "all steps of the plan are complete"
	case deliver != nil && deliver.Begun():
		return "the run delivers its work already"
	}
	return ""
}

// planRevised replaces the steps that have not begun. What has begun stays as it is, with its output.
func (s *State) planRevised(d *events.PlanRevisedData, at time.Time, seq uint64) string {
	if fault := s.Revisable(); fault != "" {
		return fault
	}
	kept, removed, deliver := s.Plan.Unbegun()
	if !slices.Equal(d.Kept, kept) || !slices.Equal(d.Removed, removed) {
		return fmt.Sprintf("it keeps %v and removes %v, but a revision keeps %v and removes %v", d.Kept, d.Removed, kept,
			removed)
	}
	if fault := s.revisedFault(d.Steps, kept, deliver); fault != "" {
		return fault
	}
	plan := *s.Plan
	plan.Removed = append(plan.Removed[:len(plan.Removed):len(plan.Removed)], removed...)
	plan.Steps = make([]*Step, 0, len(kept)+len(d.Steps))
	for _, id := range kept {
		plan.Steps = append(plan.Steps, s.Step(id))
	}
	for _, st := range d.Steps {
		plan.Steps = append(plan.Steps, stepOf(st))
	}
	blockDependents(&plan)
	s.Plan, s.CurrentStepIndex = &plan, firstIncomplete(&plan)
	s.supersede(removed, d, at, seq)
	if len(d.Agents) > 0 {
		all := maps.Clone(s.Agents)
		maps.Copy(all, d.Agents)
		s.Agents = all
	}
	s.pinPrices(d.Prices)
	s.took(d.Input)
	return ""
}

// revisedFault returns what is wrong with the steps of a revision, or "". A new step has an id that no step of the run
// ever had, so that it never finds the answer that another one got at its gate.
func (s *State) revisedFault(steps []events.PlanStep, kept []string, deliver *Step) string {
	if len(steps) == 0 {
		return "the revision has no steps"
	}
	ids := map[string]bool{}
	for _, id := range kept {
		ids[id] = true
	}
	for i, st := range steps {
		again := deliver != nil && st.ID == deliver.ID && st.Kind == deliver.Kind && i == len(steps)-1
		switch {
		case ids[st.ID] || !again && (s.Step(st.ID) != nil || slices.Contains(s.Plan.Removed, st.ID)):
			return fmt.Sprintf("the run has or had a step %s already", st.ID)
		case !again && st.Kind != "":
			return fmt.Sprintf("a revision cannot add step %s of the kind %s", st.ID, st.Kind)
		case st.Git != nil:
			return fmt.Sprintf("a revision cannot give step %s git settings of its own", st.ID)
		}
		ids[st.ID] = true
	}
	for _, st := range steps {
		for _, dep := range st.Dependencies {
			if !ids[dep] {
				return fmt.Sprintf("step %s depends on %s, which is not in the plan", st.ID, dep)
			}
		}
	}
	if deliver != nil && steps[len(steps)-1].Kind != deliver.Kind {
		return "the last step of the revision is not the one that delivers"
	}
	return ""
}

// supersede closes the gates that wait before steps which were removed. A yes to a delivery was for what was to be done
// before it: it does not hold for another plan.
func (s *State) supersede(removed []string, d *events.PlanRevisedData, at time.Time, seq uint64) {
	s.Gates = slices.Clone(s.Gates)
	for i, g := range s.Gates {
		delivers := g.StepID == events.DeliverStep && s.Harness(g.StepID)
		if g.CallID != "" || !delivers && !slices.Contains(removed, g.StepID) || g.Status != GatePending &&
			(!delivers || g.Status != GateApproved) {
			continue
		}
		next := *g
		next.Status, next.ResolvedAt, next.By, next.Reason, next.Resolution, next.Input = GateSuperseded, &at, d.By,
			"the plan was revised", seq, d.Input
		s.Gates[i] = &next
	}
}
