package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/inspan/inspan/internal/sandbox"
)

// Probe really opens a sandbox of a backend, with an open network or without, runs a command in it and ends it. Whatever goes
// wrong is sandbox.ErrUnavailable.
func Probe(ctx context.Context, b sandbox.Backend, network bool) error {
	dir, err := os.MkdirTemp("", "inspan-probe-")
	if err != nil {
		return fmt.Errorf("%w: probe: %w", sandbox.ErrUnavailable, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	box, err := b.Open(ctx, sandbox.Config{ID: "probe", Workspace: dir, Network: network})
	if err != nil {
		if !errors.Is(err, sandbox.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
		return err
	}
	exit, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"true"}})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("true ended with status %d", exit.Code)
	}
	if err = errors.Join(err, box.Destroy(context.WithoutCancel(ctx))); err != nil {
		return fmt.Errorf("%w: probe: %w", sandbox.ErrUnavailable, err)
	}
	return nil
}
