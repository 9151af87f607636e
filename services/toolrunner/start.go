package toolrunner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// started is a call that this delivery may carry out: the attempt has the fence under which its result counts.
type started struct {
	acquired
	attempt call.Attempt
	input   []byte
	// key makes its idempotency key.
	key []byte
}

// starter announces attempts.
type starter struct {
	ledger    *runlog.Ledger
	blobs     kernel.Blobs
	sandboxes *pool.Opener
	instance  string
	keys      Keyring
}

// start announces an attempt, unless the effect class of the tool needs none. Only the write that stored call.started
// gives the right to act: st is nil where another delivery announced it, and w is what was found.
func (b starter) start(ctx context.Context, a acquired) (st *started, w runlog.Written, err error) {
	s, d := a.state, a.duty
	st = &started{acquired: a, attempt: b.attempt(s, d.Call, d.Attempt)}
	if st.input, err = runlog.Input(ctx, b.blobs, d.Call); err != nil {
		return nil, w, err
	}
	if d.Key = d.Call.Key; d.Call.Fence == 0 {
		d.Key = b.keys.Newest() // a call that was begun goes on with the key that it has
	}
	if st.key, err = b.keys.Key(ctx, d.Key); err != nil {
		return nil, w, err
	}
	if call.NeedsStart(d.Call.Effect) {
		w, err := write(ctx, b.ledger, s.HarnessID, func(s run.State, _ time.Time) []events.Payload {
			return call.Start(s, d, b.instance, st.attempt.Sandbox, events.Preview(st.input))
		})
		said, mine := w.Wrote(events.CallStarted)
		if err != nil || !mine {
			return nil, w, err
		}
		st.attempt.Fence = said.Sequence
	}
	return st, w, nil
}

// again is the attempt that was announced before and got lost, for a tool that says whether it took effect.
func (b starter) again(ctx context.Context, a acquired) (*started, error) {
	c := a.duty.Call
	input, err := runlog.Input(ctx, b.blobs, c)
	if err != nil {
		return nil, err
	}
	key, err := b.keys.Key(ctx, c.Key)
	return &started{acquired: a, input: input, attempt: b.attempt(a.state, c, c.Attempt), key: key}, err
}

// attempt of a call under the fence that it has.
func (b starter) attempt(s run.State, c run.Call, number int) call.Attempt {
	return call.Attempt{Call: c, Number: number, Fence: c.Fence, Sandbox: string(b.sandboxes.ModeFor(s, c.Step))}
}
