package work

import (
	"context"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/transcript"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
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
	// runtime says which files a session is gone on with by.
	runtime events.Runtime

	pulse pulse

	keeping sync.Mutex
	kept    string // the digest of the files that were stored last, guarded by keeping

	mu sync.Mutex
	// Guarded by mu: the session of the program, whether it was given work, whether it said anything, and the calls of
	// the log by what the program calls them: it may ask several questions about one.
	session string
	given   bool
	spoke   bool
	calls   map[string][]string
}

var _ runtime.Host = (*bridge)(nil)

func newBridge(ctx context.Context, r events.Runtime, c tool.Call) *bridge {
	b := &bridge{env: c.Env, runtime: r, inside: sandbox.Seen(c.Env.Sandbox), calls: map[string][]string{}}
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

// again records that the program has ended and is about to be started again.
func (b *bridge) again() error {
	b.mu.Lock()
	clear(b.calls)
	b.mu.Unlock()
	return b.env.Inner.Again(b.ctx)
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

// keep stores the files of the session as they are now. Without them the call is as it was: where it is lost it is gone
// on with by those that were stored before.
func (b *bridge) keep() {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	files, err := transcript.Take(b.ctx, b.env.Sandbox, b.runtime, b.name())
	if err == nil && len(files) > 0 {
		digest := transcript.Digest(files)
		if digest == b.kept {
			return
		}
		if err = b.env.Inner.Keep(b.ctx, files); err == nil {
			b.kept = digest
		}
	}
	if err != nil && b.ctx.Err() == nil {
		b.env.Progress("stderr", []byte("the transcript of the session was not stored: "+err.Error()+"\n"))
	}
}

// keepFirst and keepLast are how long it takes until the files of a session are stored again while the program says
// nothing: a model may think for long.
const (
	keepFirst = time.Second
	keepLast  = 32 * time.Second
)

// keepWhile stores the files of the session again and again until stop is called.
func (b *bridge) keepWhile() (stop func()) {
	if len(b.runtime.Transcripts) == 0 {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { // stop waits for it
		defer close(ended)
		for wait := keepFirst; ; wait = min(2*wait, keepLast) {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
				b.keep()
			case <-over:
				t.Stop()
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// speaks reports whether this is the first thing that the program says.
func (b *bridge) speaks() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.spoke
	b.spoke = true
	return first
}

// Update implements runtime.Host.
func (b *bridge) Update(u runtime.Update) {
	if b.speaks() {
		defer b.keep() // it has taken its work
	}
	if u.Kind == runtime.ToolCall {
		b.pulse.tool(u.Tool)
	} else {
		b.pulse.beat()
	}
	switch u.Kind {
	case runtime.Text:
		b.env.Progress("stdout", []byte(u.Text))
	case runtime.Thought:
		b.env.Progress("thinking", []byte(u.Text))
	case runtime.ToolCall:
		b.mu.Lock()
		ids := b.calls[u.Tool.ID]
		if u.Tool.Ended {
			delete(b.calls, u.Tool.ID)
		}
		b.mu.Unlock()
		if len(ids) == 0 || !u.Tool.Ended {
			return
		}
		r := tool.Show(b.env, u.Tool.Output)
		r.Failed = u.Tool.Failed
		for _, id := range ids {
			if err := b.env.Inner.Done(b.ctx, id, r); err != nil {
				b.cancel(err)
				return
			}
		}
		b.keep()
	case runtime.Tokens: // the end of the prompt has them
	}
}

// Permit implements runtime.Host.
func (b *bridge) Permit(ctx context.Context, t runtime.Tool) (runtime.Permission, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	defer b.pulse.waits()()
	b.keep()
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
		b.calls[t.ID] = append(b.calls[t.ID], v.ID)
		b.mu.Unlock()
	}
	return runtime.Permission{Allowed: v.Allowed, Reason: v.Reason}, nil
}
