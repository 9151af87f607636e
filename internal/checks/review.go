package checks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// reviewed reports with an error that the reviewer did not pass the work, or gave no verdict.
func reviewed(d acceptance.Duty, e *acceptance.Evidence) error {
	c := d.Child
	switch c.Outcome {
	case events.ChildIsCompleted:
	case events.ChildIsRefused:
		return fmt.Errorf("no reviewer could begin (%s): %s", c.FinishReason, c.Error)
	default:
		return fmt.Errorf("reviewer %s failed (%s): %s", c.Agent, c.FinishReason, c.Error)
	}
	v, err := events.ReadVerdict(d.Answer)
	if err != nil {
		return err
	}
	if v.Verdict != events.VerdictPass {
		return fmt.Errorf("reviewer %s: %s", c.Agent, v.Text())
	}
	e.Output = acceptance.Tail(v.Text())
	return nil
}

// expression reports with an error that the output of a step does not make an expression true.
func (c *Checker) expression(s run.State, d acceptance.Duty, e *acceptance.Evidence) error {
	text := s.Said(d.Step)
	sum := sha256.Sum256([]byte(text))
	e.Judged = hex.EncodeToString(sum[:])
	if text == "" {
		return errors.New("there is no output, or more than an event has room for")
	}
	if c.cfg.Eval == nil {
		return errors.New("this toolrunner evaluates no expressions")
	}
	v, err := c.cfg.Eval(d.Check.Expr, acceptance.ExprValues(text))
	if err != nil {
		return fmt.Errorf("the expression has no value: %w", err)
	}
	holds, ok := v.(bool)
	switch {
	case !ok:
		return fmt.Errorf("the expression gives %.80q, want True or False", fmt.Sprint(v))
	case !holds:
		return errors.New("the expression is False for the output")
	}
	return nil
}

// Fill makes the workspace of a reviewer a copy of what it reviews, once. Files that are not those that were claimed
// are an error: a reviewer never sees others.
func (c *Checker) Fill(ctx context.Context, s run.State, at string) (err error) {
	c.filling.Lock()
	defer c.filling.Unlock()
	root, of := c.cfg.Sandboxes.Root(), s.Created.Review
	marks, err := workdir.Open(root, copies)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, marks.Close()) }()
	mark := "filled-" + s.HarnessID
	if _, err := marks.Stat(mark); err == nil {
		return nil
	}
	parent, _, err := c.cfg.Ledger.State(ctx, of.Run)
	if err != nil {
		return fmt.Errorf("%w: %w", err, &kernel.RetryAfter{After: busyEvery})
	}
	from, err := c.cfg.Workspaces.Acquire(ctx, of.Workspace, of.Run, of.Step, func(runID, step string) bool {
		return runID == of.Run && call.StepEnded(parent, step)
	})
	if _, busy := errors.AsType[*workspace.BusyError](err); busy || errors.Is(err, workspace.ErrTaken) {
		return fmt.Errorf("%w: %w", err, &kernel.RetryAfter{After: busyEvery})
	}
	if err != nil {
		return err
	}
	defer from.Release()
	if from.Broken != nil {
		return from.Broken
	}
	t, err := copyTree(ctx, root, from.Path)
	defer func() { dropTree(root, t.dir, time.Now()) }()
	if err == nil && t.digest != of.Tree {
		err = fmt.Errorf("%w: they are not those that were claimed", ErrTree)
	}
	if err == nil {
		err = move(root, t.dir, at)
	}
	if err != nil {
		return err
	}
	done, err := marks.Create(mark)
	if err != nil {
		return err
	}
	return done.Close()
}

// move moves what is in one directory below the root into another, in place of what is there by the same name.
func move(root, from, to string) (err error) {
	all, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	entries, err := fs.ReadDir(all.FS(), from)
	if err != nil {
		return err
	}
	into, err := workdir.Open(root, to)
	if err != nil {
		return err
	}
	if err := into.Close(); err != nil {
		return err
	}
	for _, e := range entries {
		old, name := filepath.FromSlash(path.Join(from, e.Name())), filepath.FromSlash(path.Join(to, e.Name()))
		if err := errors.Join(all.RemoveAll(name), all.Rename(old, name)); err != nil {
			return err
		}
	}
	return nil
}
