package planner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/checkpoint"
	"github.com/inspan/inspan/pkg/run"
)

// checkpointTimer is the timer of a run in Dream Mode: there is one, at its next checkpoint.
const checkpointTimer = "checkpoint"

// reminders sets the timers of runs that go on.
type reminders struct{ cfg Config }

// checkpoint takes the checkpoint of a run whose interval is over, and sets the timer of the next.
func (r *reminders) checkpoint(ctx context.Context, runID string) error {
	w, err := r.cfg.Ledger.Write(ctx, runID, checkpoint.Take)
	if err != nil {
		return err
	}
	return r.setCheckpoint(ctx, w.State)
}

// setCheckpoint sets the timer of the next checkpoint. The same state leads to the same time, so that it may be set by
// whoever goes on with the run.
func (r *reminders) setCheckpoint(ctx context.Context, s run.State) error {
	at, ok := checkpoint.Wake(s, time.Now().UTC())
	if !ok {
		return nil
	}
	return r.cfg.Timers.Set(ctx, s.HarnessID, "run."+checkpointTimer, at, s.Sequence)
}

// stood is how long the station was halted between two times.
func (c Config) stood(since, now time.Time) time.Duration {
	if c.Stood == nil {
		return 0
	}
	return c.Stood(since, now)
}

// stoodSince is the same for a time that may not have come yet.
func (c Config) stoodSince(since *time.Time, now time.Time) time.Duration {
	if since == nil {
		return 0
	}
	return c.stood(*since, now)
}
