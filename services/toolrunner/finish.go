package toolrunner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// finisher records what calls came to.
type finisher struct {
	ledger *runlog.Ledger
	timers kernel.Timers
	files  *provision.RunFiles
}

// finish records what an attempt made and then how it ended, until the log has taken it. Where the attempt is not the
// current one any more nothing is recorded. A failed attempt that will be made again has a timer.
func (f finisher) finish(ctx context.Context, c captured) (runlog.Written, error) {
	runID, of := c.state.HarnessID, c.attempt.Call
	w, err := insist(ctx, f.ledger, runID, func(s run.State, now time.Time) []events.Payload {
		end := c.end(s, now)
		if len(end) == 0 {
			return nil
		}
		return append(c.look.Events(s, of, c.attempt.Fence), end...)
	})
	if err != nil {
		return w, err
	}
	if len(w.Events) > 0 { // else what it found is for the attempt that is the current one
		c.look.Commit()
	}
	if _, said := w.Wrote(events.ArtifactSaved); said {
		f.files.Artifacts(w.State, c.Dir)
	}
	if call.NeedsStart(of.Effect) {
		f.files.Log(w.State, of.ID, c.Dir)
	}
	if _, said := w.Wrote(events.CallFinished); said && c.shown {
		c.NewsStored()
	}
	if c := w.State.Open[of.ID]; c != nil && c.Phase == run.CallDeferred {
		return w, f.timers.Set(ctx, runID, "call."+c.ID, c.NotBefore, w.State.Sequence)
	}
	return w, nil
}

// decision returns the events that are to be appended to a state.
type decision = func(s run.State, now time.Time) []events.Payload

// write appends what a decision says.
func write(ctx context.Context, l *runlog.Ledger, runID string, decide decision) (runlog.Written, error) {
	return l.Write(ctx, runID, always(decide))
}

// insist writes until the log has taken it or ctx ends: the worker that is delivered the call next would find none at
// work on it, and call unknown what is known here. This worker is held meanwhile, which is as it should be while
// nothing can be written.
func insist(ctx context.Context, l *runlog.Ledger, runID string, decide decision) (runlog.Written, error) {
	return l.Insist(ctx, runID, always(decide))
}

// always is a decision that never fails.
func always(decide decision) kernel.Decide[run.State] {
	return func(s run.State, now time.Time) ([]events.Payload, error) { return decide(s, now), nil }
}
