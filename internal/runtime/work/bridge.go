package work

import (
	"context"
	"sync"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

// bridge is who a program works for: it puts what the program asks to the gatekeeper, and what it tells into the log
// and the live stream.
type bridge struct {
	// ctx is that of the call; it ends as well when the log does not take what the program does.
	ctx    context.Context
	cancel context.CancelCauseFunc
	env    tool.Env
	inside string

	mu sync.Mutex
	// Guarded by mu: the session of the program, whether it was given work, and the calls of the log by what the
	// program calls them.
	session string
	given   bool
	calls   map[string]string
}

var _ runtime.Host = (*bridge)(nil)

func newBridge(ctx context.Context, c tool.Call) *bridge {
	b := &bridge{env: c.Env, inside: sandbox.Seen(c.Env.Sandbox), calls: map[string]string{}}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	return b
}

func (b *bridge) name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

func (b *bridge) begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given
}

// prompted records that the program is about to be given work.
func (b *bridge) prompted() error {
	if err := b.env.Inner.Begin(b.ctx, b.name()); err != nil {
		b.cancel(err)
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given = true
	return nil
}

// Session implements runtime.Host. What was given no work yet is recorded when it is.
func (b *bridge) Session(_ context.Context, id string) error {
	b.mu.Lock()
	b.session = id
	given := b.given
	b.mu.Unlock()
	if !given {
		return nil
	}
	return b.prompted()
}

// Update implements runtime.Host.
func (b *bridge) Update(u runtime.Update) {
	switch u.Kind {
	case runtime.Text:
		b.env.Progress("stdout", []byte(u.Text))
	case runtime.Thought:
		b.env.Progress("thinking", []byte(u.Text))
	case runtime.ToolCall:
		b.mu.Lock()
		id := b.calls[u.Tool.ID]
		if u.Tool.Ended {
			delete(b.calls, u.Tool.ID)
		}
		b.mu.Unlock()
		if id == "" || !u.Tool.Ended {
			return
		}
		r := tool.Show(b.env, u.Tool.Output)
		r.Failed = u.Tool.Failed
		if err := b.env.Inner.Done(b.ctx, id, r); err != nil {
			b.cancel(err)
		}
	case runtime.Tokens: // the end of the prompt has them
	}
}

// Permit implements runtime.Host.
func (b *bridge) Permit(ctx context.Context, t runtime.Tool) (runtime.Permission, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	name, input := runtime.Judged(t, b.inside)
	v, err := b.env.Inner.Ask(ctx, tool.InnerCall{Tool: name, Program: t.ID, Title: t.Title, Input: input})
	if err != nil {
		if ctx.Err() == nil {
			b.cancel(err)
		}
		return runtime.Permission{}, err
	}
	if v.Allowed {
		b.mu.Lock()
		b.calls[t.ID] = v.ID
		b.mu.Unlock()
	}
	return runtime.Permission{Allowed: v.Allowed, Reason: v.Reason}, nil
}
