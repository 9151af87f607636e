package toolrunner

import (
	"context"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Limits of what is begun because it was overheard.
const (
	// maxOverheard is how many permitted calls wait to be looked at; more are left to their messages.
	maxOverheard = 256
	// earlyWorkers is how many of them are looked at at a time.
	earlyWorkers = 8
)

// permitted is a call that was overheard to be allowed.
type permitted struct{ run, call string }

// Overhear takes a fact of any run. A call that works in a workspace held here is begun without waiting for its message,
// which may go from one toolrunner to the other until it comes here. It never waits, and what it lets go is not lost.
func (r *Role) Overhear(runID string, rec kernel.Record) {
	r.janitor.Received(runID, rec)
	switch rec.Kind {
	case events.StepFinished, events.StepFailed, events.RunCompleted, events.RunFailed:
		r.jobs.MayHaveEnded(runID)
	default: // nothing ended
	}
	if rec.Kind != events.CallAllowed || r.cfg.Trees == nil || !r.cfg.Trees.Holds(runID) {
		return
	}
	about, err := events.AboutOf(rec.Bytes)
	if err != nil {
		return // its message will be judged
	}
	select {
	case r.overheard <- permitted{runID, about.Call}:
	default:
	}
}

// Early looks at the calls that were overheard until ctx ends, and returns when all that was begun is done; work ends
// that. The calls' messages are delivered to somebody all the same: what goes wrong here is found out by them.
func (r *Role) Early(ctx, work context.Context) {
	if r.cfg.Trees == nil {
		return
	}
	var all sync.WaitGroup
	for range earlyWorkers {
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case p := <-r.overheard:
					if s, err := r.cfg.Ledger.Fresh(work, p.run); err == nil {
						_ = r.serve(work, p.run, p.call, s, 1)
					}
				}
			}
		})
	}
	all.Wait()
}

// watch is how soon a call is looked at again that somebody is at work on. What is worked on here is mostly done soon.
func (r *Role) watch(s run.State, callID string, deliveries uint64) time.Duration {
	if c := s.Open[callID]; r.cfg.Trees == nil || c == nil || c.Phase != run.CallStarted || c.Runner != r.cfg.Instance {
		return watchEvery
	}
	return min(busyFirst<<min(deliveries, 10), watchEvery)
}

// single reports whether nobody else here is at work on a call that somebody holds.
func (r *Role) single(runID string, d call.Duty) bool {
	if r.cfg.Trees == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy[runID+"/"+d.Call.ID] == 1
}
