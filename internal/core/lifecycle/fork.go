package lifecycle

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Fork answers a task that forks a run: the run is created, given the state that it begins with part by part, and
// started. On a later look it says only what is missing, and then what follows from its plan. answers are as those of
// Begin.
func Fork(s run.State, now time.Time, created *events.RunCreatedData, parts []*events.RunForkedData,
	answers []events.HookAnswer) ([]events.Payload, error) {
	var say []events.Payload
	if s.Sequence == 0 {
		say = append(say, created)
	}
	if s.Sequence == 0 || s.Status == events.Created {
		for _, p := range parts {
			if !s.Forked && p.Offset >= len(s.ForkStart) {
				say = append(say, p)
			}
		}
		begun := started(s, created)
		begun.Hooks = answers
		say = append(say, begun)
	}
	held, _ := heldBack(s, now, say, answers)
	if say = append(say, held...); len(say) > 0 {
		return say, nil
	}
	return Progress(s, now)
}
