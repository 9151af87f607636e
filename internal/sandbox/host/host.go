// Package host runs commands straight on this machine: no isolation and no overhead (SBX-3).
//
// Promises: the working directory is in the workspace, file operations cannot leave it, nothing of the service's
// environment is passed on, and all that a command starts ends with it. It does not promise more: a command sees and
// may change what the service's user may, Config.ReadOnly and Config.Writable are granted because everything is, and a
// process that on purpose clears its environment, leaves its session and loses its parent is not found again. It may
// set the limits of the service's process, change modes and owners of its files, connect to what it listens on, and
// leave System V objects behind: where the station's gates are to hold, host is refused unless an operator accepts it.
// Where that matters, use bwrap.
package host

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// Backend opens host sandboxes.
type Backend struct{ base string }

var _ sandbox.Backend = (*Backend)(nil)

// New returns the backend. base is where the private directories of sandboxes are made; empty means the system's
// place for temporary files.
func New(base string) *Backend { return &Backend{base} }

// Mode returns sandbox.Host.
func (*Backend) Mode() sandbox.Mode { return sandbox.Host }

// Probe runs /bin/sh once.
func (b *Backend) Probe(ctx context.Context) error {
	env := local.FixedEnv("/", "/tmp")
	path, err := env.Look("sh", "/")
	if err != nil {
		return fmt.Errorf("%w: a shell is missing: install one as /bin/sh: %w", sandbox.ErrUnavailable, err)
	}
	exit, err := local.Run(ctx, local.Process{Path: path, Args: []string{"sh", "-c", "exit 0"}, Env: env, Dir: "/",
		Marker: rand.Text()})
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	if exit.Code != 0 {
		return fmt.Errorf("%w: /bin/sh ended with status %d", sandbox.ErrUnavailable, exit.Code)
	}
	return nil
}

// Open binds a sandbox to a workspace. It refuses a Config that asks for a closed network.
func (b *Backend) Open(_ context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	if err := sandbox.Require(sandbox.Host, cfg, b.Capabilities()); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", cfg.ID, err)
	}
	if cfg.Egress != nil {
		return nil, fmt.Errorf("sandbox %s: %w: host cannot restrict commands to allowed hosts: use bwrap, or remove allowed_hosts", cfg.ID, sandbox.ErrUnavailable)
	}
	inner, err := local.OpenSandbox(cfg, sandbox.Host, b.base, "", "")
	if err != nil {
		return nil, err
	}
	inner.Serve(run, nil)
	return inner, nil
}

func run(ctx context.Context, p local.Process, started func(pid int)) (exit sandbox.Exit, err error) {
	if p.Path, err = p.Env.Look(p.Args[0], p.Dir); err != nil {
		return sandbox.Exit{}, err
	}
	p.Started = started
	return local.Run(ctx, p)
}

// Capabilities implements sandbox.Backend.
func (*Backend) Capabilities() []sandbox.Capability {
	why := map[sandbox.Isolation]string{}
	for _, isolation := range sandbox.Isolations() {
		why[isolation] = "host does not isolate: use bwrap"
	}
	why[sandbox.IsolationStation] = "host does not isolate the network: use bwrap or landlock"
	why[sandbox.IsolationTree] = "a process that clears its environment, leaves its session and loses its parent is not found again: use bwrap"
	return sandbox.Report(map[sandbox.Isolation]string{sandbox.LimitWallTime: "the processes of the sandbox are ended"},
		why,
		local.DiskCapability())
}
