package toolrunner

import (
	"context"
	"errors"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// delegator answers calls that wait for child runs or for a planner. No worker is held while they wait: a call is
// looked at when it is permitted, and when something became of a child.
type delegator struct {
	blobs  kernel.Blobs
	hooks  *hooks.Asker
	ledger *runlog.Ledger
}

// serve does what is owed to one call.
func (d delegator) serve(ctx context.Context, runID, callID string, s run.State) error {
	c := s.Open[callID]
	if c == nil {
		return nil
	}
	input, err := runlog.Input(ctx, d.blobs, *c)
	if err != nil {
		return err
	}
	if c.Phase == run.CallAllowed && call.Asks(c.Tool) {
		_, err := insist(ctx, d.ledger, runID, func(s run.State, _ time.Time) []events.Payload {
			return call.Ask(s, callID, input)
		})
		return err
	}
	r, ok := call.Answer(s, callID, input, time.Now())
	if !ok {
		return nil
	}
	r = call.Judged(r, d.hooks.AfterCall(ctx, s, *c, input,
		hooks.Outcome{Output: r.Output, Success: r.Success, Took: r.Took}))
	_, err = insist(ctx, d.ledger, runID, func(s run.State, now time.Time) []events.Payload {
		return call.Answered(s, callID, input, r, now)
	})
	return err
}

// broken tells an error that makes a workspace useless from one after which the call is delivered again.
func broken(ctx context.Context, err error) (why, again error) {
	if _, later := errors.AsType[*kernel.RetryAfter](err); later || ctx.Err() != nil {
		return nil, err
	}
	return err, nil
}

// child does what follows from the beginning or the end of a child: calls that wait for it are answered, and checks are
// made that it kept from being made.
func (r *Role) child(ctx context.Context, h runlog.ReceivedEvent) error {
	for _, id := range call.Waiting(h.State) {
		if id != h.Call && (h.Kind == events.ChildSpawned || h.State.Open[id].Phase == run.CallDelegated) {
			continue // it waits for a child of its own, and nothing else for a beginning
		}
		if err := r.delegate.serve(ctx, h.Run, id, h.State); err != nil {
			return err
		}
	}
	if h.Kind == events.ChildFinished && h.Call != "" {
		return r.cfg.Checks.Step(ctx, h.State, h.Step)
	}
	return nil
}
