package service

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/services/toolrunner"
)

// Boxes picks the sandboxes of this machine: the configured default, which must work, and whatever else does, for
// agents that ask for it by name. It returns the mode that the default came to.
func Boxes(ctx context.Context, cfg Config) (*toolrunner.Boxes, sandbox.Mode, error) {
	set := backends.Local("")
	picked, err := set.Pick(ctx, sandbox.Mode(cfg.Sandbox))
	if err != nil {
		return nil, "", fmt.Errorf("INSPAN_SANDBOX: %w", err)
	}
	box := toolrunner.BoxConfig{Root: cfg.Workspace, Default: picked.Mode(), ReadOnly: cfg.SandboxReadOnly, Env: cfg.SandboxEnv,
		Cache:    filepath.Join(cfg.Workspace, ".cache"),
		Backends: map[sandbox.Mode]sandbox.Backend{picked.Mode(): picked}, Missing: map[sandbox.Mode]error{}}
	for _, name := range set.Modes() {
		mode := sandbox.Mode(name)
		if mode == sandbox.Auto || mode == picked.Mode() {
			continue
		}
		b, err := set.Pick(ctx, mode)
		switch {
		case errors.Is(err, sandbox.ErrUnavailable):
			box.Missing[mode] = err
		case err != nil:
			return nil, "", err
		default:
			box.Backends[mode] = b
		}
	}
	boxes, err := toolrunner.NewBoxes(box)
	return boxes, picked.Mode(), err
}
