package gvisor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// firstExtra is the descriptor of the first extra file of a process.
const firstExtra = 3

// hostNetwork reports whether gVisor's kernel passes sockets on to the network that its runsc is in: the machine's, or,
// where there is a door, one that has nothing but a loopback with the door in it.
func hostNetwork(cfg sandbox.Config) bool { return cfg.Network || cfg.Egress != nil }

// start runs runsc, where the sandbox has a door in a network of its own. closed says why the door did not open.
func (b *instance) start(ctx context.Context, p local.Process, join func(command []string) []string) (exit sandbox.Exit,
	closed, err error) {
	var pass sandbox.EgressSession
	egress := b.Config().Egress
	if egress != nil {
		// The helper listens in that network and becomes runsc: it is a program outside of the sandbox, and nothing of
		// it is inside.
		if pass, err = egress.Pass(p.Args, firstExtra); err != nil {
			return exit, nil, err
		}
		p.Args, p.Extra = pass.Args, pass.Files
		started := p.Started
		p.Started = func(pid int) {
			pass.Started()
			started(pid)
		}
	}
	p.Args = join(p.Args)
	p.Path, p.Args[0] = p.Args[0], "gvisor" // the name by which errors tell of it
	if egress == nil && len(b.held) == 0 {
		exit, err = local.Run(ctx, p)
		return exit, nil, err
	}
	var failed error
	local.Apart(func() {
		if failed = b.prepare(egress != nil); failed == nil {
			exit, err = local.Run(ctx, p)
		}
	})
	if egress != nil {
		closed = pass.Close()
	}
	if failed != nil {
		return exit, nil, failed
	}
	return exit, closed, err
}

// prepare gives the thread a network of its own, if that is wanted, and mounts of its own, if there are held places.
func (b *instance) prepare(network bool) error {
	if network {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if err := local.Loopback(); err != nil {
			return fmt.Errorf("bring up the loopback of a network namespace: %w", err)
		}
	}
	if len(b.held) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Only what was opened in this namespace can be mounted in it.
	var handles bwrap.Handles
	defer handles.Close()
	for path, at := range b.held {
		file, err := handles.Hold(path, b.open())
		if err == nil {
			err = unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", file.Fd()), at, "", unix.MS_BIND|unix.MS_REC, "")
		}
		if err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	return nil
}
