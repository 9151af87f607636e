package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
)

// faraway is a backend that counts, over the host, under the name of one that is slow to start.
type faraway struct {
	sandbox.Backend
	mode sandbox.Mode

	mu sync.Mutex
	// Guarded by mu: all that were opened, and what the next Open fails with.
	sandboxes []*faraSandbox
	fail      error
}

func newFaraway(mode sandbox.Mode) *faraway { return &faraway{Backend: host.New(""), mode: mode} }

func (f *faraway) Mode() sandbox.Mode { return f.mode }

func (f *faraway) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail; err != nil {
		f.fail = nil
		return nil, err
	}
	cfg.Network, cfg.Denied = true, nil
	inner, err := f.Backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b := &faraSandbox{Sandbox: inner, of: f}
	f.sandboxes = append(f.sandboxes, b)
	return b, nil
}

// count tells how many were opened and how many of them were destroyed.
func (f *faraway) count() (opened, destroyed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.sandboxes {
		if b.destroyed > 0 {
			destroyed++
		}
	}
	return len(f.sandboxes), destroyed
}

// faraBox is one of its sandboxes; what happens to it is guarded by of.mu.
type faraSandbox struct {
	sandbox.Sandbox
	of        *faraway
	destroyed int
	// dead says that it answers nothing; next is what the next command comes to.
	dead bool
	next error
}

func (b *faraSandbox) Mode() sandbox.Mode { return b.of.mode }

func (b *faraSandbox) state() (dead bool, next error) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	dead, next, b.next = b.dead, b.next, nil
	return dead, next
}

func (b *faraSandbox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	switch dead, next := b.state(); {
	case next != nil:
		return sandbox.Exit{}, next
	case dead:
		return sandbox.Exit{}, fmt.Errorf("%w: no answer", sandbox.ErrNotStarted)
	}
	return b.Sandbox.Exec(ctx, cmd)
}

func (b *faraSandbox) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	if dead, _ := b.state(); dead {
		return nil, errors.New("no answer")
	}
	return b.Sandbox.Processes(ctx)
}

func (b *faraSandbox) Destroy(ctx context.Context) error {
	b.of.mu.Lock()
	b.destroyed++
	b.of.mu.Unlock()
	return b.Sandbox.Destroy(ctx)
}
