package schedules

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// dispatch opens the run of a firing, or goes on with an opening that somebody did not finish.
func (r *Scheduler) dispatch(ctx context.Context, s schedule.State, f events.Firing, m part.Dispatch) error {
	return r.runs.Open(ctx, m, schedule.TaskOf(s, f), ce.Envelope{Source: "/inspan/schedule/" + s.ID},
		part.Origin{Firing: &events.FiringRef{Schedule: s.ID, Number: f.Number, At: f.At}})
}

// Continue gives the run of a firing its plan where whoever created it did not come to that. Of any other run the plan
// is in the message of its task; that of a firing follows from the schedule, so that no night is given up because of a
// restart.
func (r *Scheduler) Continue(ctx context.Context, s run.State) error {
	if !part.Unplanned(s) || s.Created.Firing == nil {
		return nil
	}
	of, err := r.Ledger.Fresh(ctx, s.Created.Firing.Schedule)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", s.Created.Firing.Schedule, err)
	}
	f, open := of.Firing(s.Created.Firing.Number)
	if !open || f.Run != s.HarnessID {
		return nil
	}
	err = r.dispatch(ctx, of, f, part.Dispatch{Station: r.Names.Station, At: r.Now(), Tries: 1})
	if _, refused := errors.AsType[*kernel.Refusal](err); refused {
		return nil // the schedule begins something else by now: the run is given up in its time
	}
	return err
}
