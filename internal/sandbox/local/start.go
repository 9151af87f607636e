package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox"
)

// Runner carries out one command of a box. Where started is not nil, it is called with the command's process id once
// that is known.
type Runner func(ctx context.Context, p Process, started func(pid int)) (sandbox.Exit, error)

// Signaler sends a signal to one process that a Runner reported.
type Signaler func(ctx context.Context, pid int, sig syscall.Signal) error

// Serve sets how commands run, and how signals reach them where they are not processes of this machine.
func (b *Sandbox) Serve(run Runner, signal Signaler) { b.run, b.signal = run, signal }

// Exec implements sandbox.Sandbox.
func (b *Sandbox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	inner, p, leave, err := b.begin(ctx, cmd)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer leave()
	return b.run(inner, p, nil)
}

// begin readies a command. It counts as running, bounded by the sandbox's lifetime and disk limit, until leave is
// called; the context ends with ctx and with the sandbox.
func (b *Sandbox) begin(ctx context.Context, cmd sandbox.Cmd) (inner context.Context, p Process, leave func(),
	err error) {
	inner, out, err := b.Enter(ctx)
	if err != nil {
		return nil, Process{}, nil, err
	}
	var stop func()
	if p, err = b.Command(cmd); err == nil {
		inner, stop, err = b.limited(inner)
	}
	if err != nil {
		out()
		return nil, Process{}, nil, err
	}
	return inner, p, func() { stop(); out() }, nil
}

// Start implements sandbox.Sandbox. Destroy waits for the command.
func (b *Sandbox) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	inner, p, leave, err := b.begin(ctx, cmd)
	if err != nil {
		return nil, err
	}
	h := &handle{sandbox: b, done: make(chan struct{})}
	begun := make(chan int, 1) // the runner says one number at most, and does not wait
	go func() {
		defer leave()
		defer close(h.done)
		h.exit, h.err = b.run(inner, p, func(pid int) { begun <- pid })
	}()
	select {
	case h.pid = <-begun:
	case <-h.done:
		select {
		case h.pid = <-begun:
		default: // it never ran
			if h.err == nil {
				h.err = fmt.Errorf("exec %q: %w", cmd.Args[0], sandbox.ErrNotStarted)
			}
			return nil, h.err
		}
	}
	return h, nil
}

// handle is a command that Start started.
type handle struct {
	sandbox *Sandbox
	pid     int
	done    chan struct{} // closed when the command and all it started are gone; exit and err are set before
	exit    sandbox.Exit
	err     error
}

// PID implements sandbox.Process.
func (h *handle) PID() int { return h.pid }

// Wait implements sandbox.Process.
func (h *handle) Wait() (sandbox.Exit, error) {
	<-h.done
	return h.exit, h.err
}

// Signal implements sandbox.Process.
func (h *handle) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: %w", sig, errors.ErrUnsupported)
	}
	if h.sandbox.signal != nil {
		return h.sandbox.signal(context.Background(), h.pid, s)
	}
	_, err := h.sandbox.send(h.pid, s, false)
	return err
}

// trees are those of the commands that run. The zero value is ready to use.
type trees struct {
	mu  sync.Mutex
	set map[*tree]struct{} // guarded by mu
}

// track remembers the tree of a running command until the returned function is called.
func (ts *trees) track(t *tree) func() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.set == nil {
		ts.set = make(map[*tree]struct{})
	}
	ts.set[t] = struct{}{}
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		delete(ts.set, t)
	}
}

// running returns the trees of the commands that run.
func (ts *trees) running() []*tree {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.Collect(maps.Keys(ts.set))
}
