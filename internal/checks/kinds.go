package checks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// artifact reports with an error that a copy does not have what a check requires. A link is followed within the copy.
func artifact(root, dir string, c events.Check) (err error) {
	at, err := workdir.Open(root, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	info, err := at.Stat(filepath.FromSlash(c.Path))
	switch {
	case err != nil:
		return fmt.Errorf("there is no %q: %w", c.Path, err)
	case c.Type == events.CheckedDir && !info.IsDir():
		return fmt.Errorf("%q is not a directory", c.Path)
	case c.Type != events.CheckedDir && !info.Mode().IsRegular():
		return fmt.Errorf("%q is not a file", c.Path)
	case info.Size() < c.MinBytes:
		return fmt.Errorf("%q has %d bytes, want at least %d", c.Path, info.Size(), c.MinBytes)
	}
	return nil
}

// repository reports with an error that the repository of a workspace does not have what a check requires.
func (c *Checker) repository(ctx context.Context, s run.State, d acceptance.Duty, at string, e *acceptance.Evidence) error {
	if c.cfg.Git == nil {
		return errors.New("this toolrunner has no git")
	}
	base := delivery.Base(s)
	now, err := c.cfg.Git.Standing(ctx, filepath.Join(c.cfg.Sandboxes.Root(), filepath.FromSlash(at)), base)
	if err != nil {
		return err
	}
	e.Commit, e.Base = now.Commit, base
	switch {
	case slices.Contains(d.Check.Require, events.RequireCommit) && !now.Ahead:
		return fmt.Errorf("the commit that is checked out, %.12s, adds none to %.12s, with which the run began", now.Commit, base)
	case slices.Contains(d.Check.Require, events.RequireClean) && !now.Clean:
		return errors.New("the working tree has changes that are not committed")
	}
	return nil
}
