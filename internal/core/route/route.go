// Package route decides which path the run of a task takes: wrapped in the harness, or direct.
//
// Promises: a run is direct only where nothing asks for what the harness adds, and somebody has said that it need not
// be wrapped; where no one says anything it is wrapped. What a person or a hook has to permit first is never direct.
// The choice follows from what is given alone: the same task takes the same path on every delivery.
package route

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Ask is all that the choice rests on.
type Ask struct {
	// Mark is what the task says of itself, nil for nothing: true for long-running.
	Mark *bool
	// Estimate is how long the task's sender thinks that the work takes, 0 for no estimate.
	Estimate time.Duration
	// Harness is what is said of the agent: events.HarnessOn, events.HarnessOff, or "" for nothing.
	Harness string
	// Planned is true where the task brings a plan, or a model is to make one.
	Planned bool
	// Gated is true where a person is asked before the step, Held where a hook holds the run back at its start.
	Gated, Held bool
	// Kept is true where the task asks for checkpoints or snapshots by name.
	Kept bool
	// Locked is true where the run works in a session or on a work item: that is confirmed once the run exists and before
	// it begins, and the first event of a direct run is both.
	Locked bool
	// Git is true where the run works in git: steps of the harness come before and after those of its agent.
	Git bool
	// Checked is true where acceptance checks decide that the step is done.
	Checked bool
}

// Threshold is how long a task must be thought to take to be long-running, where no one says another.
const Threshold = 5 * time.Minute

// LongRunning is the classification of a task by what it says of itself: by its mark, else by its estimate (LIFE-13).
// said is false where it says nothing.
func LongRunning(a Ask, threshold time.Duration) (long, said bool) {
	if a.Mark != nil {
		return *a.Mark, true
	}
	return a.Estimate >= threshold && a.Estimate > 0, a.Estimate > 0
}

// Direct says whether the run of a task takes the direct path, and why it takes the one that it does. threshold is that
// of LongRunning.
func Direct(a Ask, threshold time.Duration) (direct bool, why string) {
	if why := a.needs(); why != "" {
		return false, why
	}
	long, said := LongRunning(a, threshold)
	switch {
	case a.Mark != nil && long:
		return false, "the task is marked long-running"
	case a.Mark != nil:
		return true, "the task is marked as not long-running"
	case long:
		return false, fmt.Sprintf("the estimate of the task is %s, and %s or more is long-running", a.Estimate, threshold)
	case a.Harness == events.HarnessOn:
		return false, "the agent's harness is on"
	case a.Harness == events.HarnessOff:
		return true, "the agent's harness is off"
	case said:
		return true, fmt.Sprintf("the estimate of the task is %s, and less than %s is not long-running", a.Estimate,
			threshold)
	}
	return false, "no setting disables the harness"
}

// needs is what the task asks for that only the harness gives; whatever else is said, its run is then wrapped.
func (a Ask) needs() string {
	switch {
	case a.Planned:
		return "a plan is carried out"
	case a.Gated:
		return "a person is asked before the step"
	case a.Held:
		return "a hook holds the run back at its start"
	case a.Checked:
		return "acceptance checks decide when it is done"
	case a.Kept:
		return "the task asks for checkpoints"
	case a.Locked:
		return "the lock of a session is confirmed before the run begins"
	case a.Git:
		return "the harness checks out and delivers what the run works on in git"
	}
	return ""
}
