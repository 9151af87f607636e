package lifecycle

import (
	"strings"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// forBudget begins the reason of a pause because of a budget of the project, the user or the station.
const forBudget = "budget "

// Unfunded pauses a run whose turn needs more of a budget than it has room for; why names the budget and says what is
// missing. The run returns what it has not spent and has not set aside for requests under way. It answers nothing where
// no turn waits for a budget.
func Unfunded(s run.State, why string) []events.Payload {
	if s.Status != events.Running || s.AwaitsBudget() == nil {
		return nil
	}
	return []events.Payload{&events.RunPausedData{Event: "run_paused", From: events.Running, To: events.Paused,
		By: string(events.Planner), Reason: shorten(forBudget+why, maxError), ClockStopped: true,
		Funds: budget.Kept(s)}}
}

// Funded gives a run whose turn waits what was reserved for it, and lets it go on where it was paused for that. It
// answers nothing for a run that waits for nothing, or that a person paused.
func Funded(s run.State, f events.Funds) []events.Payload {
	switch {
	case s.AwaitsBudget() == nil || s.Stopping != nil:
		return nil
	case s.Status == events.Running:
		return []events.Payload{&events.RunFundedData{Event: "run_funded", Funds: f}}
	case PausedForBudget(s):
		return []events.Payload{&events.RunResumedData{Event: "run_resumed", From: s.Status, To: events.Running,
			By: string(events.Planner), Funds: &f}}
	}
	return nil
}

// PausedForBudget reports whether a run is paused because of a budget, and not by a person or with its parent.
func PausedForBudget(s run.State) bool {
	return s.Status == events.Paused && !s.PausedByParent && s.AwaitsBudget() != nil &&
		strings.HasPrefix(s.PauseReason, forBudget)
}
