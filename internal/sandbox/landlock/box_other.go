//go:build !linux

package landlock

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/local"
)

type box struct {
	*local.Box
	launcher, read, write, own []string
	env                        map[string]string
}

type rulesets struct{}

func (*box) programs(*rulesets, []string, finder) error { return nil }

func (*box) bound(*cgroup.Driver) error { return nil }

// Exec always fails: Landlock needs Linux.
func (*box) Exec(context.Context, sandbox.Cmd) (sandbox.Exit, error) {
	return sandbox.Exit{}, launch.Supported()
}

// Start always fails: Landlock needs Linux.
func (*box) Start(context.Context, sandbox.Cmd) (sandbox.Process, error) {
	return nil, launch.Supported()
}
