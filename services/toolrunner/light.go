package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// light reports whether a run asks for an ephemeral workspace.
func light(s run.State) bool {
	return s.Created != nil && s.Created.Git != nil && s.Created.Git.Workspace == events.WorkspaceEphemeral
}

// barred says why no workspace can borrow objects here for a run; nil where it can. It is never made a full copy in silence.
func (r *Role) barred(s run.State) error {
	if r.cfg.Trees != nil && r.cfg.Trees.Follow() {
		return errors.New("workspaces follow their runs to other machines here (INSPAN_WORKSPACE_MODE=follow), and mirrors do not: ask for workspace: persistent")
	}
	for _, st := range s.Plan.Steps {
		mode := r.cfg.Sandboxes.Mode(s.Agents[st.AssignedAgent].Sandbox)
		if r.cfg.Sandboxes.Away(mode) && st.Kind == "" {
			return fmt.Errorf("%w, which the sandbox %s of agent %s can not show: ask for workspace: persistent, or for another sandbox", pool.ErrAlternates, mode, st.AssignedAgent)
		}
	}
	return nil
}

// MayReclaim notes a run that may have ended, for Reclaim.
func (r *Role) MayReclaim(runID string) {
	if _, err := os.Lstat(filepath.Join(r.cfg.Sandboxes.Root(), gitwork.MirrorsDir)); err != nil || r.cfg.Git == nil {
		return // there is no ephemeral workspace
	}
	select {
	case r.lights <- runID:
	default: // it is found when the workspaces are looked through
	}
}

// Reclaim takes the workspaces of ephemeral runs away when their run has ended, those of workflows the time after that, and mirrors that
// nobody used for so long, until ctx ends. What was kept elsewhere is told to kept, what goes wrong to report, and tried again.
func (r *Role) Reclaim(ctx context.Context, after time.Duration, kept func(workspace string, p gitwork.Published), report func(error)) {
	if r.cfg.Git == nil {
		return
	}
	all := time.NewTicker(tidyEvery)
	defer all.Stop()
	again := time.NewTicker(endAgain)
	defer again.Stop()
	waiting := map[string]int{}
	look := func(whole bool) {
		if err := r.reclaimAll(ctx, waiting, whole, after, kept); err != nil && ctx.Err() == nil {
			report(err)
		}
		if !whole || ctx.Err() != nil {
			return
		}
		if _, err := r.cfg.Git.TidyMirrors(ctx, after, r.cfg.Now()); err != nil && ctx.Err() == nil {
			report(fmt.Errorf("mirrors of remotes: %w", err))
		}
	}
	look(true)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case runID := <-r.lights:
			waiting[runID] = endTries
			look(false)
		case <-again.C:
			if len(waiting) > 0 {
				look(false)
			}
		case <-all.C:
			look(true)
		}
	}
}

// reclaimAll looks at the workspaces of runs that wait, or at all. A run that has not ended as far as is known is let go after some
// time: a hint may be wrong.
func (r *Role) reclaimAll(ctx context.Context, waiting map[string]int, whole bool, after time.Duration, kept func(string, gitwork.Published)) error {
	loans, err := r.cfg.Git.Loans()
	errs := []error{err}
	found := map[string]bool{}
	for _, l := range loans {
		hinted := func(id string) bool { return waiting[id] > 0 }
		if !l.Passing() || !whole && !slices.ContainsFunc(l.Runs, hinted) {
			continue
		}
		done, err := r.reclaim(ctx, l, terms{after, hinted}, kept)
		errs = append(errs, err)
		for _, id := range l.Runs {
			if hinted(id) && !done && err == nil {
				found[id] = true
			}
		}
	}
	for id := range waiting {
		switch {
		case !found[id]:
			delete(waiting, id)
		case !r.working(id):
			if waiting[id]--; waiting[id] <= 0 {
				delete(waiting, id)
			}
		}
	}
	return errors.Join(errs...)
}

// working reports whether this instance is at work for a run.
func (r *Role) working(runID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.busy {
		if strings.HasPrefix(key, runID+"/") {
			return true
		}
	}
	return false
}

// terms are when workspaces are taken away: those of workflows some time after their last run, and others at once. hinted are runs that may
// have ended just now.
type terms struct {
	after  time.Duration
	hinted func(run string) bool
}

// reclaim takes one workspace away; done is false where that is to be looked at again soon.
func (r *Role) reclaim(ctx context.Context, l gitwork.Loan, t terms, kept func(string, gitwork.Published)) (done bool, err error) {
	limited, cancel := context.WithTimeout(ctx, reclaimTime)
	defer cancel()
	at, gone := place{Dir: workdir.Dir{Workspace: l.Path, Path: l.Path}}, false
	if r.cfg.Trees != nil {
		if over, err := r.allOver(limited, l, t); err != nil || !over {
			return false, err // whoever works in it has it
		}
		v, err := r.cfg.Trees.Enter(limited, l.Path, "sweep")
		if _, busy := errors.AsType[*workspace.BusyError](err); busy {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("workspace %s: %w", l.Path, err)
		}
		defer func() { err = errors.Join(err, r.surrender(limited, v, l.Path, gone)) }()
	}
	all, went, err := r.cfg.Git.Reclaim(limited, l.Path, func(ctx context.Context, l gitwork.Loan) (bool, error) {
		over, err := r.allOver(ctx, l, t)
		if err != nil || !over {
			return false, err
		}
		done = true
		for _, id := range l.Runs {
			r.jobs.End(ctx, id) // they work in the tree
		}
		r.pool.DropWorkspace(l.Path)
		return true, nil
	}, func() error { return sweep(r.cfg.Sandboxes, at.Dir) })
	gone = went
	for _, k := range all {
		kept(l.Path, k)
	}
	switch {
	case errors.Is(err, gitwork.ErrBusy):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("workspace %s of an ephemeral run: %w", l.Path, err)
	case done && !gone:
		return true, fmt.Errorf("workspace %s of an ephemeral run stays, because not all of its work can be kept elsewhere: look at it and remove it", l.Path)
	}
	return done, nil
}

// surrender gives a tree back that was held to take it away, and forgets one that went.
func (r *Role) surrender(ctx context.Context, v *workspace.Visit, at string, gone bool) error {
	v.Leave()
	if gone {
		return r.cfg.Trees.Forget(ctx, at)
	}
	_, err := r.cfg.Trees.Ended(ctx, at, "sweep")
	return err
}

// reclaimTime bounds one workspace: all that no remote has may have to be stored.
const reclaimTime = 10 * time.Minute

// allOver reports whether all runs have ended that worked in a workspace, and nobody is at work for them any more.
func (r *Role) allOver(ctx context.Context, l gitwork.Loan, t terms) (bool, error) {
	for _, id := range l.Runs {
		if r.working(id) {
			return false, nil
		}
		s, err := r.cfg.Ledger.Fresh(ctx, id)
		if err != nil {
			return false, fmt.Errorf("run %s: %w", id, err)
		}
		if s.Created == nil && r.cfg.Now().Sub(l.At) > tidyEvery {
			continue // its log is gone
		}
		if !s.Status.Ended() || !strings.HasPrefix(l.Path, "run/") && s.EndedAt != nil && r.cfg.Now().Sub(*s.EndedAt) <= t.after {
			return false, nil // what runs of a workflow share outlives each of them
		}
		if over, err := r.idle(ctx, s, t.hinted(id)); err != nil || !over {
			return false, err
		}
	}
	return true, nil
}

// idle reports whether no other instance is at work for a run that has ended, as far as is known: it ends its calls soon after. Where
// that was waited for before, it is so.
func (r *Role) idle(ctx context.Context, s run.State, waits bool) (bool, error) {
	for _, c := range s.Open {
		if !waits || c.Phase != run.CallStarted || c.Runner == r.cfg.Instance {
			continue
		}
		alive, err := r.cfg.Leases.Alive(ctx, c.Runner)
		if err != nil || alive {
			return false, err
		}
	}
	return true, nil
}
