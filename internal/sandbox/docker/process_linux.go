package docker

import (
	"context"
	"fmt"
	"sort"
	"syscall"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
)

// signalWait bounds how long a signal may take to be passed on.
const signalWait = 10 * time.Second

// send signals one process of the container.
func (b *instance) send(ctx context.Context, pid int, sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	a, err := b.ask(ctx, within.Question{PID: pid, Signal: int(sig)})
	if err == nil && !a.Found {
		err = sandbox.ErrNoProcess
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// ask asks the parents of all commands about one process, until one knows it.
func (b *instance) ask(ctx context.Context, q within.Question) (a within.Answer, err error) {
	for _, c := range b.commands() {
		if a, err = c.ask(ctx, q); err != nil || a.Found {
			break
		}
	}
	return a, err
}

// commands are those that run.
func (b *instance) commands() []*command {
	b.list.Lock()
	defer b.list.Unlock()
	list := make([]*command, 0, len(b.running))
	for c := range b.running {
		list = append(list, c)
	}
	return list
}

// Processes implements sandbox.Sandbox. The numbers are those in the container.
func (b *instance) Processes(ctx context.Context) ([]sandbox.ProcessInfo, error) {
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
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return list, nil
}

// Kill implements sandbox.Sandbox.
func (b *instance) Kill(ctx context.Context, pid int) error {
	ctx, leave, err := b.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if pid <= 1 {
		return fmt.Errorf("process %d: %w: list the processes again", pid, sandbox.ErrNoProcess)
	}
	a, err := b.ask(ctx, within.Question{PID: pid, Signal: int(syscall.SIGKILL), Wait: true})
	switch {
	case err != nil:
		return fmt.Errorf("kill %d: %w", pid, err)
	case !a.Found:
		return fmt.Errorf("process %d: %w: list the processes again", pid, sandbox.ErrNoProcess)
	case !a.Exited:
		return fmt.Errorf("kill %d: the process was signalled and does not end: destroy the sandbox", pid)
	}
	return nil
}
