package toolrunner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// verify asks a reconcilable tool whether the lost attempt took effect: then that is the result, else it is made again.
// A tool that cannot tell leaves the outcome unknown.
func (r *Role) verify(ctx context.Context, at acquired) (runlog.Written, error) {
	st, err := r.start.again(ctx, at)
	var x executed
	var done bool
	if err == nil {
		x, done, err = r.execute.verify(ctx, st)
	}
	switch {
	case ctx.Err() != nil:
		return runlog.Written{}, ctx.Err()
	case err != nil:
		at.duty.Why = call.ClipError(tool.Visible(err.Error()))
		return r.lost(ctx, at)
	case !done && at.duty.Last:
		return r.giveUp(ctx, at.admitted)
	case !done:
		w, err := r.again(ctx, at.admitted)
		if err != nil || len(w.Events) > 0 {
			return w, err
		}
		return r.begin(ctx, at)
	}
	result, err := r.capture.results.Store(ctx, x.result, x.took)
	if err != nil {
		return runlog.Written{}, err
	}
	result.Reconciled = true
	return r.finish.finish(ctx, r.capture.judge(ctx, x, result))
}

// again puts off the next attempt of a call that was lost more than once, and sets the timer of that.
func (r *Role) again(ctx context.Context, a admitted) (runlog.Written, error) {
	w, err := write(ctx, r.cfg.Ledger, a.state.HarnessID, func(s run.State, now time.Time) []events.Payload {
		return call.Again(s, a.duty, now)
	})
	if c := w.State.Open[a.duty.Call.ID]; err == nil && len(w.Events) > 0 && c != nil {
		err = r.cfg.Timers.Set(ctx, a.state.HarnessID, "call."+c.ID, c.NotBefore, w.State.Sequence)
	}
	return w, err
}

// lost records that it is not known what came of an attempt.
func (r *Role) lost(ctx context.Context, at acquired) (runlog.Written, error) {
	return r.finish.finish(ctx, r.capture.lost(ctx, at))
}

// giveUp records that no more attempts are made.
func (r *Role) giveUp(ctx context.Context, a admitted) (runlog.Written, error) {
	return write(ctx, r.cfg.Ledger, a.state.HarnessID, func(s run.State, _ time.Time) []events.Payload {
		return call.GiveUp(s, a.duty)
	})
}
