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

// run always fails: Landlock needs Linux.
func (*box) run(context.Context, local.Process, func(pid int)) (sandbox.Exit, error) {
	return sandbox.Exit{}, launch.Supported()
}
