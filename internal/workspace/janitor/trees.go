package janitor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/workspace"
)

// RunTrees keeps workspaces that follow their runs at the ends of steps, gives those of ended runs back and removes
// what no run uses, until ctx ends. Errors go to report, and the workspace is looked at again.
func (j *Janitor) RunTrees(ctx context.Context, report func(error)) {
	if j.cfg.Trees == nil {
		return
	}
	var keeping sync.WaitGroup
	keeping.Go(func() { j.keepSteps(ctx, report) })
	defer keeping.Wait()
	try := func(what func(context.Context) error) {
		limited, cancel := context.WithTimeout(ctx, runTime)
		defer cancel()
		if err := what(limited); err != nil && ctx.Err() == nil {
			report(err)
		}
	}
	watch(ctx, j.endedTrees, func() {
		try(j.cfg.Trees.Cleanup().Tidy)
	}, func() {}, func(ids map[string]int) map[string]outcome {
		found := map[string]outcome{}
		for id := range ids {
			try(func(ctx context.Context) (err error) {
				found[id], err = j.giveBack(ctx, id)
				return err
			})
		}
		return found
	})
}

// giveBack gives back the workspace of a run that has ended.
func (j *Janitor) giveBack(ctx context.Context, runID string) (outcome, error) {
	s, err := j.cfg.Ledger.Fresh(ctx, runID)
	if err != nil {
		return unfinished, err
	}
	if !s.Status.Ended() || s.Created == nil {
		return undecided, nil
	}
	j.cfg.EndJobs(ctx, runID)
	gone, err := j.cfg.Trees.Ended(ctx, s.Created.Workspace, runID)
	if gone {
		return done, err
	}
	return unfinished, err
}

// keepSteps keeps workspaces at the ends of steps until ctx ends.
func (j *Janitor) keepSteps(ctx context.Context, report func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case runID := <-j.steps:
			limited, cancel := context.WithTimeout(ctx, keepTime)
			s, err := j.cfg.Ledger.Fresh(limited, runID)
			if err == nil && s.Created != nil {
				err = j.cfg.Trees.Boundary(limited, s.Created.Workspace)
			}
			cancel()
			// kept later, or by another
			if err != nil && ctx.Err() == nil && !errors.Is(err, workspace.ErrChanging) && !errors.Is(err, workspace.ErrLost) {
				report(fmt.Errorf("keep the workspace of run %s at the end of a step: %w", runID, err))
			}
		}
	}
}
