package toolrunner

import (
	"context"
	"sync"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/workspace/janitor"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of what is begun because it was republished.
const (
	// maxPermitted is how many permitted calls wait to be looked at; more are left to their messages.
	maxPermitted = 256
	// permittedWorkers is how many of them are looked at at a time.
	permittedWorkers = 8
)

// permitted is a call that was republished as allowed.
type permitted struct{ run, call string }

// Republished takes an event of any run. A call that works in a workspace held here is begun without waiting for its
// message, which may go from one toolrunner to the other until it comes here. It never waits, and what it lets go is
// not lost.
func (r *Role) Republished(runID string, rec kernel.Record) {
	r.cfg.Janitor.Received(runID, rec)
	trees := r.cfg.Workspaces.Trees
	switch rec.Kind {
	case events.StepFinished, events.StepFailed, events.StepSettled, events.RunCompleted, events.RunFailed:
		r.cfg.Jobs.MayHaveEnded(runID)
	case events.CallRefused:
		r.cfg.Inner.Verdict(runID)
	case events.CallAllowed:
		r.cfg.Inner.Verdict(runID)
		if trees == nil || !trees.Holds(runID) {
			return
		}
		about, err := events.AboutOf(rec.Bytes)
		if err != nil {
			return // its message will be judged
		}
		select {
		case r.permitted <- permitted{runID, about.Call}:
		default:
		}
	default: // nothing begins or ends
	}
}

// ServeRepublished looks at the calls that were republished as allowed until ctx ends, and returns when all that was
// begun is done; work ends that. The calls' messages are delivered all the same: what goes wrong here is found out by
// them.
func (r *Role) ServeRepublished(ctx, work context.Context) {
	if r.cfg.Workspaces.Trees == nil {
		return
	}
	var all sync.WaitGroup
	for range permittedWorkers {
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case p := <-r.permitted:
					if s, err := r.cfg.Ledger.Fresh(work, p.run); err == nil {
						_ = r.serve(work, p.run, p.call, s, 1)
					}
				}
			}
		})
	}
	all.Wait()
}

// Jobs and Janitor have loops that the caller runs.
func (r *Role) Jobs() *jobs.Supervisor { return r.cfg.Jobs }

// Janitor removes the workspaces of runs that have ended.
func (r *Role) Janitor() *janitor.Janitor { return r.cfg.Janitor }
