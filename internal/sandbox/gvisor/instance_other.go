//go:build !linux

package gvisor

import (
	"context"
	"fmt"
	"runtime"

	"github.com/inspan/inspan/internal/sandbox"
)

// open always fails: gVisor needs Linux.
func (b *Backend) open(_ context.Context, cfg sandbox.Config, _ install) (sandbox.Sandbox, error) {
	return nil, fmt.Errorf("sandbox %s: %w: gVisor needs Linux, this is %s", cfg.ID, sandbox.ErrUnavailable, runtime.GOOS)
}
