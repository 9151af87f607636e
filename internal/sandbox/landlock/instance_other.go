//go:build !linux

package landlock

import (
	"context"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/local"
)

type instance struct {
	*local.Sandbox
	launcher, read, write, own []string
	env                        map[string]string
}

type rulesets struct{}

func (*instance) programs(*rulesets, []string, finder) error { return nil }

func (*instance) bound(*cgroup.Driver) error { return nil }

// run always fails: Landlock needs Linux.
func (*instance) run(context.Context, local.Process, func(pid int)) (sandbox.Exit, error) {
	return sandbox.Exit{}, launch.Supported()
}
