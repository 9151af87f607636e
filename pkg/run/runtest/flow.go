package runtest

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// FlowPlan has a step that is tried again where it fails, one that the plan computes, and one behind both.
func FlowPlan() *events.PlanMadeData {
	tries, value := Step("tries"), Step("value")
	tries.Flow = &events.StepFlow{Retry: &events.StepRetry{Attempts: 2}}
	value.Flow = &events.StepFlow{Kind: events.ControlSet, Set: "1"}
	return Plan(tries, value, Step("behind", "tries", "value"))
}

// Expanded makes the next attempt of a step.
func Expanded(st *run.Step) *events.StepExpandedData {
	return &events.StepExpandedData{Event: eventOf(events.StepExpanded), Step: st.ID, From: st.Parts + 1, Count: 1}
}

// Settled ends a step by what its plan says.
func Settled(st *run.Step, status events.StepStatus) *events.StepSettledData {
	d := &events.StepSettledData{Event: eventOf(events.StepSettled), Step: st.ID, Status: status, Parts: st.Parts}
	if status == events.StepIsFailed {
		d.Error, d.FinishReason, d.Class = "it broke", events.FinishError, events.FailureHard
	} else {
		d.Output = "1"
	}
	return d
}

// flowMoves are what may happen to a step that its plan decides about.
func flowMoves(s run.State, st *run.Step) []events.Payload {
	if st.Status != events.StepIsPending && st.Status != events.StepIsRunning {
		return nil
	}
	if st.Flow.Controls() {
		return []events.Payload{Settled(st, events.StepIsCompleted), Settled(st, events.StepIsFailed)}
	}
	parts := s.Plan.PartsOf(st.ID)
	switch {
	case slices.ContainsFunc(parts, func(p *run.Step) bool { return !p.Ended() }):
		return nil
	case len(parts) == 0:
		return []events.Payload{Expanded(st)}
	case parts[len(parts)-1].Status == events.StepIsCompleted:
		return []events.Payload{Settled(st, events.StepIsCompleted)}
	case len(parts) < st.Flow.Retry.Attempts:
		return []events.Payload{Expanded(st), Settled(st, events.StepIsFailed)}
	}
	return []events.Payload{Settled(st, events.StepIsFailed)}
}
