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

type box struct {
	*local.Box
	bwrap  install
	mounts []string
	masks  []string
	given  []gift
	groups *cgroup.Driver
}

func (*box) wall() error { return nil }

func findNsenter(context.Context, string) string { return "" }

// Start always fails: bubblewrap needs Linux.
func (*box) Start(context.Context, sandbox.Cmd) (sandbox.Process, error) {
	return nil, fmt.Errorf("%w: bubblewrap needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}

// Exec always fails: bubblewrap needs Linux.
func (*box) Exec(context.Context, sandbox.Cmd) (sandbox.Exit, error) {
	return sandbox.Exit{}, fmt.Errorf("%w: bubblewrap needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}
