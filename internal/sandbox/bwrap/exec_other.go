//go:build !linux

package bwrap

import (
	"context"
	"fmt"
	"runtime"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/local"
)

type instance struct {
	*local.Sandbox
	bwrap  install
	mounts []string
	masks  []string
	given  []gift
	groups *cgroup.Driver
}

func (*instance) isolation() error { return nil }

func findNsenter(context.Context, string) string { return "" }

// run always fails: bubblewrap needs Linux.
func (*instance) run(context.Context, local.Process, func(pid int)) (sandbox.Exit, error) {
	return sandbox.Exit{}, fmt.Errorf("%w: bubblewrap needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}
