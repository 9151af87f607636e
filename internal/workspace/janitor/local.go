package janitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// user is a run and the workspace that it is to work in.
type user struct{ run, workspace string }

// created notes a run that begins in a workspace that other runs made, before its first call there.
func (j *Janitor) created(runID string, stored []byte) {
	if j.cfg.Uses == nil {
		return
	}
	_, p, err := events.Read(stored)
	if err != nil {
		return // its messages will be judged
	}
	if d, ok := p.(*events.RunCreatedData); ok && d.Workspace != "run/"+runID {
		hint(j.users, user{runID, d.Workspace}) // if it is let go, the run is noted with its first call
	}
}

// noteUsers writes down the runs that were received.
func (j *Janitor) noteUsers(ctx context.Context) error {
	var errs []error
	for {
		select {
		case u := <-j.users:
			leave, err := j.cfg.Uses.Enter(ctx, u.workspace, u.run)
			if errs = append(errs, err); err == nil {
				leave()
			}
		default:
			return errors.Join(errs...)
		}
	}
}

// removeLocal looks at all workspaces of this machine, or at those of some runs that may have ended: it puts into found
// those of them that are not done.
func (j *Janitor) removeLocal(ctx context.Context, p Policy, ids map[string]int, all bool,
	found map[string]outcome) error {
	if j.cfg.Uses == nil || !all && !p.AtEnd {
		return nil
	}
	uses, err := j.cfg.Uses.All()
	if err != nil {
		return err
	}
	var errs []error
	for _, u := range uses {
		hinted := slices.DeleteFunc(slices.Collect(maps.Keys(u.Runs)), func(id string) bool { return ids[id] == 0 })
		if !all && len(hinted) == 0 || ctx.Err() != nil {
			continue
		}
		gone, err := j.removeOne(ctx, u.Path, p, ids)
		errs = append(errs, err)
		for _, id := range hinted {
			if !gone {
				found[id] = undecided
			}
		}
	}
	return errors.Join(errs...)
}

func (j *Janitor) removeOne(ctx context.Context, path string, p Policy, ids map[string]int) (gone bool, err error) {
	limited, cancel := context.WithTimeout(ctx, workspaceTime)
	defer cancel()
	if err := j.noteUsers(limited); err != nil {
		return false, err
	}
	if is, err := gitwork.Ephemeral(j.cfg.Root, path); err != nil || is {
		return false, err // removeEphemeral removes it
	}
	wait := func(created bool) time.Duration {
		if p.AtEnd && created && passing(path) {
			return 0
		}
		return p.After
	}
	return j.cfg.Uses.Remove(path, func(u workspace.Use) (bool, error) {
		over, err := j.over(limited, u.Runs, wait, ids)
		if err != nil || !over {
			return false, err
		}
		for id := range u.Runs {
			j.cfg.EndJobs(limited, id)
		}
		j.cfg.DropSandboxes(path)
		return j.workSaved(limited, path, path)
	}, func() error { return j.remove(workdir.Dir{Workspace: path, Path: path}) })
}

// workSaved reports whether nothing is lost with the directory at a path: it has no git repository, or all of its work
// is kept elsewhere, in a scope.
func (j *Janitor) workSaved(ctx context.Context, path, scope string) (bool, error) {
	dir := filepath.Join(j.cfg.Root, filepath.FromSlash(path))
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if j.cfg.Rescue == nil {
		return false, nil
	}
	whole, err := j.cfg.Rescue(ctx, scope, dir)
	if err != nil {
		return false, fmt.Errorf("keep the work in %s: %w", path, err)
	}
	return whole, nil
}

// remove removes a workspace, its cache, and what is known of it.
func (j *Janitor) remove(at workdir.Dir) error {
	for dir, path := range map[string]string{j.cfg.Root: at.Path, j.cfg.Cache: at.Workspace} {
		if dir == "" {
			continue
		}
		root, err := os.OpenRoot(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", at.Workspace, err)
		}
		err = root.RemoveAll(path)
		if err = errors.Join(err, root.Close()); err != nil {
			return fmt.Errorf("remove %s: %w", at.Workspace, err)
		}
	}
	return gitwork.Forget(j.cfg.Root, at.Path)
}
