package lifecycle

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MaxPlanTries bounds the requests for a plan of one run, the first and those after answers that were none.
const MaxPlanTries = 5

// maxFault bounds what a model reads about its answer, in bytes.
const maxFault = 4 << 10

// RequestPlan asks for the plan that a model is to make, of a run that was started and has none. agents are the names
// that the model may give steps to. A run that a hook held back at its start follows the hook first.
func RequestPlan(s run.State, now time.Time, agents []string) ([]events.Payload, error) {
	if s.Plan != nil {
		return Progress(s, now)
	}
	if s.Status != events.Running || s.Planning != nil {
		return nil, nil
	}
	if held, _ := heldBack(s, now, nil, nil); len(held) > 0 {
		return held, nil
	}
	return []events.Payload{requested(1, agents, "", "")}, nil
}

// RefusePlan follows an answer that is no plan, and says why: the model is asked again, or the run ends where it was
// asked often enough. answered is the sequence of that answer; a second look at it says nothing.
func RefusePlan(s run.State, now time.Time, answered uint64, agents []string,
	fault, hint string) ([]events.Payload, error) {
	switch {
	case !awaits(s, answered):
		return nil, nil
	case s.Planning.Try >= MaxPlanTries:
		return GiveUp(s, now, events.FinishError, "no plan: "+fault)
	}
	return []events.Payload{requested(s.Planning.Try+1, agents, fault, hint)}, nil
}

// TakePlan follows an answer that is a plan, which was made of it. answered is as for RefusePlan.
func TakePlan(s run.State, now time.Time, answered uint64, made *events.PlanMadeData) ([]events.Payload, error) {
	if s.Plan != nil {
		return Progress(s, now)
	}
	if !awaits(s, answered) {
		return nil, nil
	}
	return Begin(s, now, s.Created, made, nil)
}

// awaits reports whether a run waits for what follows from that answer to a request for a plan.
func awaits(s run.State, answered uint64) bool {
	return !s.Status.Ended() && s.Plan == nil && s.Planning != nil && s.Planning.Owed == 0 &&
		s.Planning.Answered == answered
}

func requested(try int, agents []string, fault, hint string) *events.PlanRequestedData {
	return &events.PlanRequestedData{Event: "plan_requested", Try: try,
		Agents: agents[:min(len(agents), events.MaxPlanAgents)],
		Fault:  shorten(fault, maxFault), Hint: shorten(hint, maxFault)}
}
