package mirror

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// Probe really opens a sandbox of a backend, with an open network or without, runs a command in it and ends it.
// Whatever goes wrong is sandbox.ErrUnavailable.
func Probe(ctx context.Context, b sandbox.Backend, network bool) error {
	t, err := local.Try(ctx, "", sandbox.Config{Network: network}, b.Open, "true")
	if err == nil && t.Exit.Code != 0 {
		err = fmt.Errorf("true ended with status %d", t.Exit.Code)
	}
	if err != nil && t.Opened {
		return fmt.Errorf("%w: probe: %w", sandbox.ErrUnavailable, err)
	}
	return err
}
