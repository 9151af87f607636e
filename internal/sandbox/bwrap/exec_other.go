//go:build !linux

package bwrap

import (
	"context"
	"fmt"
	"runtime"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

type box struct {
	*local.Box
	bwrap  install
	mounts []string
}

// Exec always fails: bubblewrap needs Linux.
func (*box) Exec(context.Context, sandbox.Cmd) (sandbox.Exit, error) {
	return sandbox.Exit{}, fmt.Errorf("%w: bubblewrap needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}
