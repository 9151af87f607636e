package landlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/broker"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/local"
)

type instance struct {
	*local.Sandbox
	launcher    []string
	read, write []string
	// env is added to the environment of commands that do not set it otherwise.
	env map[string]string
	// without is the ruleset that closes programs, nil for none. The backend's, and closed by no one: others may use
	// it.
	without *os.File
	// own are the real paths of what commands may change.
	own []string
	// group bounds all that runs here; nil where this machine has no groups to write.
	group *cgroup.Group
}

var _ sandbox.Sandbox = (*instance)(nil)

func (b *instance) bound(d *cgroup.Driver) (err error) {
	b.group, err = d.New(b.Name(), b.Config().Limits)
	b.OnDestroy(func(context.Context) error { return b.group.Remove() })
	return err
}

// order is what the launcher of a command is to do, and the ruleset that closes programs to it, nil for none.
func (b *instance) order(path string, p local.Process) (launch.Order, *os.File) {
	for name, value := range b.env {
		if _, set := p.Env[name]; !set {
			p.Env[name] = value
		}
	}
	without := b.without
	if p.AnyProgram {
		without = nil
	}
	return launch.Order{Path: path, Args: p.Args, Dir: p.Dir, Env: append(p.Env.List(), local.MarkerName+"="+p.Marker),
		Read: b.read, Write: b.write,
		Network: b.Config().Network, Programs: without != nil, FileSize: b.Config().Limits.Disk}, without
}

// run carries out one command: the launcher becomes it.
func (b *instance) run(ctx context.Context, p local.Process, started func(pid int)) (sandbox.Exit, error) {
	program := p.Args[0]
	fail := func(err error) (sandbox.Exit, error) {
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w", program, err)
	}
	path, err := p.Env.Look(program, p.Dir)
	if err != nil {
		return sandbox.Exit{}, err
	}
	order, without := b.order(path, p)
	group, err := b.group.Child()
	if err != nil {
		return fail(err)
	}
	order.Groups = group.Files()
	text, err := json.Marshal(order)
	if err != nil {
		return fail(err)
	}
	given, err := local.Memory("launch-order", string(text))
	if err != nil {
		return fail(err)
	}
	hand, err := launch.Prepare(given, without)
	if err != nil {
		return fail(errors.Join(err, given.Close()))
	}
	defer hand.Close()

	p.Path, p.Args, p.Env, p.Dir = b.launcher[0], b.launcher, local.Env{}, "/"
	p.Extra = hand.Files
	var reason string
	var answers *broker.Broker
	var unanswered error
	p.Started = func(pid int) {
		// Until its end of the socket closes, the process is not the command's.
		reason = hand.Started(func(listener int) {
			answers, unanswered = broker.Start(listener, broker.Rules{Writable: b.own, Closed: broker.OwnOr(b.Config().Closed)})
		})
		if started != nil && reason == "" {
			started(pid)
		}
	}
	var used cgroup.Usage
	var left error
	p.After = func() {
		if answers != nil {
			answers.Close()
		}
		used = group.Usage()
		left = group.Remove()
	}
	exit, err := local.Run(ctx, p)
	switch {
	case err != nil:
		return exit, errors.Join(err, left)
	case left != nil:
		return fail(left)
	case unanswered != nil:
		return fail(unanswered)
	case reason != "":
		return sandbox.Exit{}, fmt.Errorf("exec %q: %w: %s", program, sandbox.ErrNotStarted, reason)
	}
	if group != nil {
		used.Fill(&exit)
	}
	return exit, nil
}
