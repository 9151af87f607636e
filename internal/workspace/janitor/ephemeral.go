package janitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
)

// removeEphemeral looks at all workspaces of ephemeral runs, or at those of some runs that may have ended: it puts into
// found those of them that are not done. With all of them it removes the mirrors that were unused for the time after.
func (j *Janitor) removeEphemeral(ctx context.Context, after time.Duration, ids map[string]int, all bool,
	found map[string]outcome, kept func(string, gitwork.Published)) error {
	if j.cfg.Git == nil {
		return nil
	}
	clones, err := j.cfg.Git.Clones()
	errs := []error{err}
	for _, l := range clones {
		hinted := slices.DeleteFunc(slices.Clone(l.Runs), func(id string) bool { return ids[id] == 0 })
		if !l.Passing() || !all && len(hinted) == 0 {
			continue
		}
		gone, err := j.reclaim(ctx, l, after, ids, kept)
		errs = append(errs, err)
		for _, id := range hinted {
			switch {
			case gone || err != nil: // an error is met again by the look at all
			case j.cfg.Working(id):
				found[id] = unfinished
			default:
				found[id] = max(found[id], undecided)
			}
		}
	}
	if all && ctx.Err() == nil {
		if _, err := j.cfg.Git.TidyMirrors(ctx, after, j.cfg.Now()); err != nil {
			errs = append(errs, fmt.Errorf("mirrors of remotes: %w", err))
		}
	}
	return errors.Join(errs...)
}

// reclaim removes one workspace; over is false where it is to be looked at again soon.
func (j *Janitor) reclaim(ctx context.Context, l gitwork.Clone, after time.Duration, ids map[string]int,
	kept func(string, gitwork.Published)) (over bool, err error) {
	limited, cancel := context.WithTimeout(ctx, workspaceTime)
	defer cancel()
	if j.cfg.Trees != nil {
		if over, err := j.cloneOver(limited, l, after, ids); err != nil || !over {
			return false, err // the run that works in it has it
		}
		v, err := j.cfg.Trees.Enter(limited, l.Path, "sweep")
		if _, busy := errors.AsType[*workspace.BusyError](err); busy {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("workspace %s: %w", l.Path, err)
		}
		gone := false
		defer func() { err = errors.Join(err, j.surrender(limited, v, l.Path, gone)) }()
		over, gone, err = j.reclaimHeld(limited, l, after, ids, kept)
		return over, err
	}
	over, _, err = j.reclaimHeld(limited, l, after, ids, kept)
	return over, err
}

// reclaimHeld is reclaim of a workspace that no other machine has.
func (j *Janitor) reclaimHeld(ctx context.Context, l gitwork.Clone, after time.Duration, ids map[string]int,
	kept func(string, gitwork.Published)) (over, gone bool, err error) {
	all, gone, err := j.cfg.Git.Reclaim(ctx, l.Path, func(ctx context.Context, l gitwork.Clone) (bool, error) {
		var err error
		if over, err = j.cloneOver(ctx, l, after, ids); err != nil || !over {
			return false, err
		}
		for _, id := range l.Runs {
			j.cfg.EndJobs(ctx, id)
		}
		j.cfg.DropSandboxes(l.Path)
		return true, nil
	}, func() error { return j.remove(workdir.Dir{Workspace: l.Path, Path: l.Path}) })
	for _, k := range all {
		kept(l.Path, k)
	}
	switch {
	case errors.Is(err, gitwork.ErrBusy):
		return false, gone, nil
	case err != nil:
		return false, gone, fmt.Errorf("workspace %s of an ephemeral run: %w", l.Path, err)
	case over && !gone:
		return true, false, fmt.Errorf("workspace %s of an ephemeral run stays, because not all of its work can be kept elsewhere: look at it and remove it", l.Path)
	}
	return over, gone, nil
}

// cloneOver is over for the workspace of ephemeral runs: that of one run goes at its end, those of workflows stay for
// the time after.
func (j *Janitor) cloneOver(ctx context.Context, l gitwork.Clone, after time.Duration, ids map[string]int) (bool,
	error) {
	noted := map[string]time.Time{}
	for _, id := range l.Runs {
		noted[id] = l.At
	}
	return j.over(ctx, noted, func(created bool) time.Duration {
		switch {
		case !created:
			return allEvery // the log is gone, or not yet there
		case passing(l.Path):
			return 0
		}
		return after
	}, ids)
}

// surrender gives a tree back that was held to remove it, and forgets one that is gone.
func (j *Janitor) surrender(ctx context.Context, v *workspace.Visit, at string, gone bool) error {
	v.Leave()
	if gone {
		return j.cfg.Trees.Cleanup().Forget(ctx, at)
	}
	_, err := j.cfg.Trees.Ended(ctx, at, "sweep")
	return err
}
