package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// signalWait bounds how long a signal may take to be passed on.
const signalWait = 10 * time.Second

// Exec implements sandbox.Sandbox.
func (b *box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	return b.Execute(ctx, cmd, func(ctx context.Context, p local.Process, _ func(pid int)) (sandbox.Exit, error) {
		return b.run(ctx, p, func(*command, int) {})
	})
}

// Start implements sandbox.Sandbox.
func (b *box) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	h := &handle{}
	var err error
	h.Process, err = b.Launch(ctx, cmd, func(ctx context.Context, p local.Process, started func(pid int)) (sandbox.Exit, error) {
		return b.run(ctx, p, func(c *command, pid int) {
			h.command = c
			started(pid)
		})
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// handle is a command that Start started. Its PID is the number in the container.
type handle struct {
	sandbox.Process
	command *command
}

// Signal implements sandbox.Process.
func (h *handle) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: %w", sig, errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalWait)
	defer cancel()
	a, err := h.command.ask(ctx, within.Question{PID: h.PID(), Signal: int(s)})
	if err == nil && !a.Found {
		err = sandbox.ErrNoProcess
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", h.PID(), err)
	}
	return nil
}

// commands are those that run.
func (b *box) commands() []*command {
	b.list.Lock()
	defer b.list.Unlock()
	list := make([]*command, 0, len(b.running))
	for c := range b.running {
		list = append(list, c)
	}
	return list
}

// Processes implements sandbox.Sandbox. The numbers are those in the container.
func (b *box) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
	ctx, leave, err := b.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var list []sandbox.ProcessInfo
	for _, c := range b.commands() {
		a, err := c.ask(ctx, within.Question{})
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		for _, p := range a.List {
			list = append(list, sandbox.ProcessInfo{PID: p.PID, Parent: p.Parent, Args: p.Args, RSS: p.RSS,
				User: time.Duration(p.UserMS) * time.Millisecond, System: time.Duration(p.SystemMS) * time.Millisecond})
		}
	}
	slices.SortFunc(list, func(x, y sandbox.ProcessInfo) int { return cmp.Compare(x.PID, y.PID) })
	return list, nil
}

// Kill implements sandbox.Sandbox.
func (b *box) Kill(ctx context.Context, pid int) error {
	ctx, leave, err := b.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if pid > 1 {
		for _, c := range b.commands() {
			a, err := c.ask(ctx, within.Question{PID: pid, Signal: int(syscall.SIGKILL), Wait: true})
			switch {
			case err != nil:
				return fmt.Errorf("kill %d: %w", pid, err)
			case a.Found && !a.Gone:
				return fmt.Errorf("kill %d: it was sent the signal and does not end: destroy the sandbox", pid)
			case a.Found:
				return nil
			}
		}
	}
	return fmt.Errorf("process %d: %w: list them anew", pid, sandbox.ErrNoProcess)
}
