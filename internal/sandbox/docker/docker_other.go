//go:build !linux

package docker

import (
	"context"
	"fmt"
	"runtime"

	"github.com/inspan/inspan/internal/sandbox"
)

// Backend opens no sandboxes here.
type Backend struct{}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend that refuses everything.
func New(Config) *Backend { return &Backend{} }

// Mode returns sandbox.Docker.
func (*Backend) Mode() sandbox.Mode { return sandbox.Docker }

func refusal() error {
	return fmt.Errorf("%w: sandboxes share the files and the kernel of the engine's machine, which needs Linux, this is %s", sandbox.ErrUnavailable, runtime.GOOS)
}

// Probe always fails.
func (*Backend) Probe(context.Context) error { return refusal() }

// Open always fails.
func (*Backend) Open(context.Context, sandbox.Config) (sandbox.Sandbox, error) {
	return nil, refusal()
}

// Capabilities has none.
func (*Backend) Capabilities() []sandbox.Capability {
	var list []sandbox.Capability
	for _, isolation := range sandbox.Isolations() {
		list = append(list, sandbox.Capability{Isolation: isolation, Why: refusal().Error()})
	}
	return list
}

// Reap removes nothing.
func (*Backend) Reap(context.Context) (int, error) { return 0, nil }
