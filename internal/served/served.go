// Package served is the toolrunner's side of tools that programs of others serve over NATS.
//
// Promises: a server is a stranger. What a model is shown of a tool is what an operator pinned, and a server with
// another specification is not let begin. A call that no server was let begin failed for nothing and is tried again,
// whatever its effect class. A call whose server was lost after that is never said to have failed where it may have
// taken effect: of class once its outcome is unknown, an idempotent one is made again with the same key, and of a
// reconcilable one the servers that are left are asked whether it took effect. What a server sends is data, bounded in
// bytes and in time. No secret of the station is sent.
package served

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// ErrNoServer means that no program serves a tool now.
var ErrNoServer = errors.New("no program serves the tool")

// Caller reaches the servers of tools; internal/jet has it over NATS.
type Caller interface {
	// CallTool sends a request to one of the servers of a tool. The exchange must be closed.
	CallTool(ctx context.Context, name string, request []byte) (Exchange, error)
}

// Exchange is one request and what came of it.
type Exchange interface {
	// Receive waits for the next reply. It returns ErrNoServer where the request reached no one.
	Receive(ctx context.Context) ([]byte, error)
	// Send sends a control to the server.
	Send(control []byte) error
	Close()
}

// Times of an exchange. The zero value of each means its default.
type Times struct {
	// Accept is how long a server may take to accept a request.
	Accept time.Duration
	// Heartbeat is how often it then says that it works, Lost the silence after which it is taken for lost.
	Heartbeat, Lost time.Duration
	// Verify is how long servers are asked whether a lost call took effect.
	Verify time.Duration
}

// Defaults of Times.
const (
	acceptWait = 5 * time.Second
	lostAfter  = 5 * wire.Heartbeat
	verifyWait = 30 * time.Second
	// cancelWait is how long a server may take to end a call that was cancelled; cancelAgain is when it is told so
	// again.
	cancelWait, cancelAgain = 2 * time.Second, 250 * time.Millisecond
	// verifyAgain is the time between two attempts to ask whether a lost call took effect.
	verifyAgain = time.Second
	// maxReceived is the most bytes that a server may send in one exchange.
	maxReceived = 32 << 20
)

func (t Times) defaults() Times {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&t.Accept, acceptWait)
	set(&t.Heartbeat, wire.Heartbeat)
	set(&t.Lost, lostAfter)
	set(&t.Verify, verifyWait)
	return t
}

// Tools makes pinned tools that can be run. A nil caller is a station without NATS: calls of such tools fail.
func Tools(caller Caller, times Times) func(events.ServedTool) tool.Tool {
	times = times.defaults()
	return func(pin events.ServedTool) tool.Tool { return &remote{pin: pin, caller: caller, times: times} }
}

// remote is one pinned tool.
type remote struct {
	pin    events.ServedTool
	caller Caller
	times  Times
}

var _ tool.Verifier = (*remote)(nil)

// Spec implements tool.Tool.
func (t *remote) Spec() tool.Spec { return toolbox.SpecOfServed(t.pin) }

// Run implements tool.Tool.
func (t *remote) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	a, err := t.ask(ctx, wire.AskRun, c)
	gone, lost := errors.AsType[*lostError](err)
	if !lost {
		return a.result, err
	}
	switch tool.Effect(t.pin.Effect) {
	case tool.Read, tool.Idempotent:
		return tool.Result{}, tool.Fail(tool.Transient, "use another tool if it stays so", gone)
	case tool.Reconcilable:
		return t.reconcile(ctx, c, gone)
	case tool.Once:
	}
	return tool.Result{}, unknown(gone)
}

// Verify implements tool.Verifier: it asks a server whether an earlier attempt took effect.
func (t *remote) Verify(ctx context.Context, c tool.Call) (done bool, r tool.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.times.Verify)
	defer cancel()
	for {
		a, err := t.ask(ctx, wire.AskVerify, c)
		_, lost := errors.AsType[*lostError](err)
		if err == nil || !lost && tool.ClassOf(err) != tool.Transient {
			return a.done, a.result, err
		}
		again := time.NewTimer(verifyAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return false, tool.Result{}, fmt.Errorf("no server of the tool %s says whether the call took effect: %w",
				t.pin.Name, err)
		case <-again.C:
		}
	}
}

// reconcile settles a lost call by asking the servers that are left. Nothing is begun again before one of them has said
// that the call took no effect.
func (t *remote) reconcile(ctx context.Context, c tool.Call, gone *lostError) (tool.Result, error) {
	done, r, err := t.Verify(ctx, c)
	switch {
	case err != nil:
		return tool.Result{}, unknown(fmt.Errorf("%w; %w", gone, err))
	case done:
		return r, nil
	}
	return tool.Result{}, tool.Fail(tool.Transient, "use another tool if it stays so", fmt.Errorf("%w; it took no effect",
		gone))
}

func unknown(err error) error { return tool.Fail(tool.Unknown, events.OutcomeUnknownHint, err) }

// lostError means that a server was lost after it was let begin.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// request is what a server is sent.
func (t *remote) request(ctx context.Context, ask string, c tool.Call) ([]byte, error) {
	left := t.Spec().TimeoutOf()
	if at, ok := ctx.Deadline(); ok {
		left = time.Until(at)
	}
	b, err := json.Marshal(wire.Request{V: wire.Version, Ask: ask, Tool: t.pin.Name, Digest: t.pin.Digest, Run: c.Run,
		Call: c.ID, Key: c.Key, Input: c.Input,
		TimeoutMS: max(1, left.Milliseconds()), HeartbeatMS: t.times.Heartbeat.Milliseconds(), MaxOutput: c.Env.MaxOutput})
	if err != nil {
		return nil, tool.Fail(tool.Invalid, "send a JSON object", err)
	}
	if len(b) > wire.MaxMessage {
		return nil, tool.Fail(tool.Invalid, "send less",
			fmt.Errorf("the arguments make a request of %d bytes, the limit of one to a tool server is %d", len(b),
				wire.MaxMessage))
	}
	return b, nil
}
