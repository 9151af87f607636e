package microvm

import (
	"context"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// box is a sandbox in a machine.
type instance struct {
	*mirror.Sandbox
	machine *machine
	disk    bool // its disk is limited
	watches sync.WaitGroup
}

var _ sandbox.Sandbox = (*instance)(nil)

// Exec implements sandbox.Sandbox.
func (b *instance) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	ctx, stop := b.watched(ctx)
	defer stop()
	exit, err := b.Sandbox.Exec(ctx, cmd)
	return exit, b.machine.lost(err)
}

// Start implements sandbox.Sandbox.
func (b *instance) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	ctx, stop := b.watched(ctx)
	p, err := b.Sandbox.Start(ctx, cmd)
	if err != nil {
		stop()
		return nil, b.machine.lost(err)
	}
	b.watches.Go(func() {
		_, _ = p.Wait() // who started it is told
		stop()
	})
	return started{p, b.machine}, nil
}

// started is a command that Start started.
type started struct {
	sandbox.Process
	machine *machine
}

// Wait implements sandbox.Process.
func (s started) Wait() (sandbox.Exit, error) {
	exit, err := s.Process.Wait()
	return exit, s.machine.lost(err)
}

// watched ends a command that fills the disk. One that began on a full disk may run, to make room.
func (b *instance) watched(ctx context.Context) (watched context.Context, stop func()) {
	if !b.disk {
		return ctx, func() {}
	}
	watched, cancel := context.WithCancelCause(ctx)
	b.watches.Go(func() {
		if b.machine.Full(watched) == nil {
			cancel(fmt.Errorf("%w: %d bytes", sandbox.ErrDisk, b.Config().Limits.Disk))
		}
	})
	return watched, func() { cancel(nil) }
}

// Destroy implements sandbox.Sandbox.
func (b *instance) Destroy(ctx context.Context) error {
	err := b.Sandbox.Destroy(ctx)
	b.watches.Wait()
	return err
}
