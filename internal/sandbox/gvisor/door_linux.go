package gvisor

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// firstExtra is the descriptor of the first extra file of a process.
const firstExtra = 3

// hostNetwork reports whether gVisor's kernel passes sockets on to the network that its runsc is in: the machine's, or,
// where there is a door, one that has nothing but a loopback with the door in it.
func hostNetwork(cfg sandbox.Config) bool { return cfg.Network || cfg.Door != nil }

// start runs runsc, where the sandbox has a door in a network of its own. closed says why the door did not open.
func (b *box) start(ctx context.Context, p local.Process, join func(command []string) []string) (exit sandbox.Exit, closed, err error) {
	door := b.Config().Door
	if door == nil {
		p.Args = join(p.Args)
		p.Path = p.Args[0]
		exit, err = local.Run(ctx, p)
		return exit, nil, err
	}
	// The helper listens in that network and becomes runsc: it is a program outside of the sandbox, and nothing of it is
	// inside.
	pass, err := door.Pass(p.Args, firstExtra)
	if err != nil {
		return exit, nil, err
	}
	p.Args, p.Extra = join(pass.Args), pass.Files
	p.Path = p.Args[0]
	started := p.Started
	p.Started = func(pid int) {
		pass.Started()
		started(pid)
	}
	failed := apart(func() { exit, err = local.Run(ctx, p) })
	closed = pass.Close()
	if failed != nil {
		return exit, nil, failed
	}
	return exit, closed, err
}

// apart calls a function on a thread that has a network namespace of its own, with its loopback up. What the function
// starts is in that namespace. The thread ends with the call.
func apart(fn func()) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never let go: the thread is good for nothing else
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("make a network namespace: %w", err)
			return
		}
		if err = loopback(); err != nil {
			err = fmt.Errorf("raise the loopback of a network namespace: %w", err)
			return
		}
		fn()
	}()
	<-done
	return err
}

// loopback raises the loopback of the thread's network namespace.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
