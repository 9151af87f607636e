package landlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/local"
)

const (
	// faultMax is the most that is read of a launcher's reason.
	faultMax = 2 << 10
	// startWait is how long the launcher may take to become the command.
	startWait = 20 * time.Second
)

type box struct {
	*local.Box
	launcher    []string
	read, write []string
	// env is added to the environment of commands that do not set it otherwise.
	env map[string]string
	// group bounds all that runs here; nil where this machine has no groups to write.
	group *cgroup.Group
}

var _ sandbox.Sandbox = (*box)(nil)

// Exec implements sandbox.Sandbox.
func (b *box) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	return b.Execute(ctx, cmd, b.run)
}

// Start implements sandbox.Sandbox.
func (b *box) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	return b.Launch(ctx, cmd, b.run)
}

// Destroy implements sandbox.Sandbox.
func (b *box) Destroy(ctx context.Context) error {
	if err := b.End(ctx); err != nil {
		return fmt.Errorf("destroy sandbox %s: %w", b.ID(), err)
	}
	var left error
	if b.group != nil {
		left = b.group.Remove()
	}
	return errors.Join(left, b.Box.Destroy(ctx))
}

func (b *box) bound(d *cgroup.Driver) (err error) {
	b.group, err = d.New(b.Name(), b.Config().Limits)
	return err
}

// run carries out one command: the launcher becomes it.
func (b *box) run(ctx context.Context, p local.Process, started func(pid int)) (sandbox.Exit, error) {
	program := p.Args[0]
	fail := func(err error) (sandbox.Exit, error) {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", program, err)
	}
	path, err := p.Env.Look(program, p.Dir)
	if err != nil {
		return sandbox.Exit{}, err
	}
	for name, value := range b.env {
		if _, set := p.Env[name]; !set {
			p.Env[name] = value
		}
	}
	order := launch.Order{Path: path, Args: p.Args, Dir: p.Dir, Env: append(p.Env.List(), local.MarkerName+"="+p.Marker),
		Read: b.read, Write: b.write, Network: b.Config().Network, FileSize: b.Config().Limits.Disk}
	var group *cgroup.Group
	if b.group != nil {
		if group, err = b.group.Child(); err != nil {
			return fail(err)
		}
		order.Groups = group.Files()
	}
	text, err := json.Marshal(order)
	if err != nil {
		return fail(err)
	}
	given, err := local.Memory("launch-order", string(text))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = given.Close() }()
	fault, faultIn, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer func() { _, _ = fault.Close(), faultIn.Close() }()

	p.Path, p.Args, p.Env, p.Dir = b.launcher[0], b.launcher, local.Env{}, "/"
	p.Extra = []*os.File{given, faultIn}
	var reason []byte
	p.Started = func(pid int) {
		_ = faultIn.Close()
		// The launcher's end of the pipe closes when it becomes the command; until then it is not the command's process.
		_ = fault.SetReadDeadline(time.Now().Add(startWait))
		reason, _ = io.ReadAll(io.LimitReader(fault, faultMax))
		if started != nil && len(reason) == 0 {
			started(pid)
		}
	}
	var used cgroup.Usage
	var left error
	p.After = func() {
		if group != nil {
			used = group.Usage()
			left = group.Remove()
		}
	}
	exit, err := local.Run(ctx, p)
	switch {
	case err != nil:
		return exit, errors.Join(err, left)
	case left != nil:
		return fail(left)
	case len(reason) > 0:
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: %s", program, sandbox.ErrNotStarted, reason)
	}
	if group != nil {
		exit.User, exit.System, exit.MaxRSS = used.User, used.System, used.MaxMemory
		exit.ReadBytes, exit.WriteBytes = used.ReadBytes, used.WriteBytes
	}
	return exit, nil
}
