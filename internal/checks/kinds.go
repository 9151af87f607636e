package checks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
func (c *Checker) repository(ctx context.Context, s run.State, d acceptance.Duty, at string,
	e *acceptance.Evidence) error {
	if c.cfg.Git == nil {
		return errors.New("this toolrunner has no git")
	}
	dir, base := filepath.Join(c.cfg.Sandboxes.Root(), filepath.FromSlash(at)), delivery.Base(s)
	now, err := c.cfg.Git.Standing(ctx, dir, delivery.Began(s))
	if err != nil {
		return err
	}
	e.Commit, e.Base = now.Commit, base
	switch {
	case slices.Contains(d.Check.Require, events.RequireCommit) && !now.Ahead:
		return fmt.Errorf("the commit that is checked out, %.12s, adds none to %.12s, with which the run began", now.Commit,
			delivery.Began(s))
	case slices.Contains(d.Check.Require, events.RequireClean) && !now.Clean:
		return errors.New("the working tree has changes that are not committed")
	case !slices.Contains(d.Check.Require, events.RequireAhead):
		return nil
	case now.Branch == "":
		return fmt.Errorf("the commit %.12s is checked out, and no branch", now.Commit)
	}
	if base != delivery.Began(s) {
		if now, err = c.cfg.Git.Standing(ctx, dir, base); err != nil {
			return err
		}
	}
	if !now.Ahead {
		return fmt.Errorf("the branch %s is at %.12s, which has no commit after %.12s, its base", now.Branch, now.Commit,
			base)
	}
	return nil
}

// document reports with an error that the output of a step does not fit the schema of a check.
func (c *Checker) document(s run.State, d acceptance.Duty, e *acceptance.Evidence) error {
	text := acceptance.Document(s.Said(d.Step))
	sum := sha256.Sum256([]byte(text))
	e.Judged = hex.EncodeToString(sum[:])
	if text == "" {
		return errors.New("there is no output, or more than an event has room for: give the document alone")
	}
	if c.cfg.Fits == nil {
		return errors.New("this toolrunner checks no schemas")
	}
	if err := c.cfg.Fits(d.Check.Schema, []byte(text)); err != nil {
		return fmt.Errorf("the output does not fit the schema: %w", err)
	}
	return nil
}

// answered reports with an error that a person did not say yes.
func answered(g *run.Gate) error {
	switch {
	case g.Status == run.GateApproved:
		return nil
	case g.Status == run.GateExpired:
		return fmt.Errorf("no person decided: %s", g.Reason)
	case g.Reason == "":
		return fmt.Errorf("%s rejected it, without a reason", cmp.Or(g.By, "a person"))
	}
	return fmt.Errorf("%s rejected it: %s", cmp.Or(g.By, "a person"), g.Reason)
}
