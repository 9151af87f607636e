package schedules

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// replace stops the run that a later firing is to take the place of. That one begins when the first has ended, children
// and all: its end has the schedule looked at again. again is true where it ended at once.
func (r *Scheduler) replace(ctx context.Context, s schedule.State) (again bool, err error) {
	f, by, ok := s.Replaced()
	if !ok {
		return false, nil
	}
	wish := lifecycle.Wish{By: "schedule " + s.ID,
		Reason: fmt.Sprintf("replaced by firing %d of schedule %s", by.Number, s.ID)}
	w, err := r.runs.Change(ctx, f.Run, func(now run.State, at time.Time) ([]events.Payload, error) {
		if now.Sequence == 0 || now.Status.Ended() || now.Stopping != nil {
			return nil, nil
		}
		return lifecycle.Stop(now, at, wish)
	})
	if err != nil {
		return false, fmt.Errorf("stop run %s of schedule %s: %w", f.Run, s.ID, err)
	}
	return w.State.Status.Ended(), nil
}
