package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// Cleanup says when the workspaces of this machine go (WS-5): After the end of their last run, those of single runs AtEnd.
type Cleanup struct {
	After time.Duration
	AtEnd bool
}

// CleanUp takes the workspaces of runs that have ended away until ctx ends, where workspaces stay on this machine. Those of
// sessions stay, and those with a git repository whose work cannot all be kept elsewhere. What goes wrong is reported and
// tried again.
func (r *Role) CleanUp(ctx context.Context, when Cleanup, report func(error)) {
	if r.cfg.Uses == nil {
		return
	}
	all := time.NewTicker(tidyEvery)
	defer all.Stop()
	again := time.NewTicker(endAgain)
	defer again.Stop()
	waiting := map[string]int{}
	look := func(whole bool) {
		if err := r.cleanUp(ctx, when, whole, waiting); err != nil && ctx.Err() == nil {
			report(err)
		}
	}
	look(true)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case runID := <-r.overs:
			if when.AtEnd {
				waiting[runID] = endTries
				look(false)
			}
		case <-again.C:
			if err := r.note(); err != nil {
				report(err)
			}
			if len(waiting) > 0 {
				look(false)
			}
		case <-all.C:
			look(true)
		}
	}
}

// user is a run and the workspace that it is to work in.
type user struct{ run, workspace string }

// mayUse notes a run that begins in a workspace that other runs made, before its first call there.
func (r *Role) mayUse(runID string, stored []byte) {
	if r.cfg.Uses == nil {
		return
	}
	_, p, err := events.Read(stored)
	if err != nil {
		return // its messages will be judged
	}
	d, ok := p.(*events.RunCreatedData)
	if !ok || d.Workspace == "run/"+runID {
		return
	}
	select {
	case r.users <- user{runID, d.Workspace}:
	default: // it is noted with its first call
	}
}

// note writes down the runs that were received.
func (r *Role) note() error {
	var errs []error
	for {
		select {
		case u := <-r.users:
			leave, err := r.cfg.Uses.Enter(u.workspace, u.run)
			if errs = append(errs, err); err == nil {
				leave()
			}
		default:
			return errors.Join(errs...)
		}
	}
}

// MayCleanUp notes a run that may have ended, for CleanUp.
func (r *Role) MayCleanUp(runID string) {
	select {
	case r.overs <- runID:
	default: // it is found when the workspaces are looked through
	}
}

// cleanUp looks at all workspaces, or at those of the runs that wait. A run that has not ended after some tries is let go: a
// hint may be wrong.
func (r *Role) cleanUp(ctx context.Context, when Cleanup, whole bool, waiting map[string]int) error {
	uses, err := r.cfg.Uses.All()
	if err != nil {
		return err
	}
	var errs []error
	stays := map[string]bool{}
	for _, u := range uses {
		hinted := slices.DeleteFunc(runsOf(u), func(id string) bool { return waiting[id] == 0 })
		if !whole && len(hinted) == 0 || ctx.Err() != nil {
			continue
		}
		gone, err := r.cleanUpOne(ctx, u.Path, when, len(hinted) > 0)
		errs = append(errs, err)
		for _, id := range hinted {
			stays[id] = stays[id] || !gone
		}
	}
	for id := range waiting {
		if waiting[id]--; !stays[id] || waiting[id] <= 0 {
			delete(waiting, id)
		}
	}
	return errors.Join(errs...)
}

func runsOf(u workspace.Use) (ids []string) {
	for id := range u.Runs {
		ids = append(ids, id)
	}
	return ids
}

func (r *Role) cleanUpOne(ctx context.Context, path string, when Cleanup, hinted bool) (gone bool, err error) {
	limited, cancel := context.WithTimeout(ctx, reclaimTime)
	defer cancel()
	if err := r.note(); err != nil {
		return false, err
	}
	if is, err := gitwork.Ephemeral(r.cfg.Sandboxes.Root(), path); err != nil || is {
		return false, err // Reclaim takes it away
	}
	return r.cfg.Uses.Remove(path, func(u workspace.Use) (bool, error) {
		over, err := r.usesOver(limited, u, when, hinted)
		if err != nil || !over {
			return false, err
		}
		for _, id := range runsOf(u) {
			r.jobs.End(limited, id) // they work in the tree
		}
		r.pool.DropWorkspace(path)
		return r.workKept(limited, path)
	}, func() error { return sweep(r.cfg.Sandboxes, workdir.Dir{Workspace: path, Path: path}) })
}

// usesOver reports whether all runs of a workspace have ended long enough ago, and no instance works for one of them.
func (r *Role) usesOver(ctx context.Context, u workspace.Use, when Cleanup, hinted bool) (bool, error) {
	for id, noted := range u.Runs {
		if r.working(id) {
			return false, nil
		}
		s, err := r.cfg.Ledger.Fresh(ctx, id)
		if err != nil {
			return false, fmt.Errorf("run %s: %w", id, err)
		}
		ended, after := noted, when.After
		switch {
		case s.Created == nil: // its log is no longer here
		case !s.Status.Ended():
			return false, nil
		case s.EndedAt != nil:
			ended = *s.EndedAt
		}
		if when.AtEnd && s.Created != nil && strings.HasPrefix(u.Path, "run/") {
			after = 0 // what the runs of a workflow share outlives each of them
		}
		if after > 0 && r.cfg.Now().Sub(ended) <= after {
			return false, nil
		}
		if idle, err := r.idle(ctx, s, hinted); err != nil || !idle {
			return false, err
		}
	}
	return true, nil
}

// workKept reports whether nothing is lost with a workspace: it has no git repository, or all of its work is kept elsewhere.
func (r *Role) workKept(ctx context.Context, path string) (bool, error) {
	dir := filepath.Join(r.cfg.Sandboxes.Root(), filepath.FromSlash(path))
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if r.cfg.Rescue == nil {
		return false, nil
	}
	whole, err := r.cfg.Rescue(ctx, path, dir)
	if err != nil {
		return false, fmt.Errorf("keep the work in %s: %w", path, err)
	}
	return whole, nil
}
