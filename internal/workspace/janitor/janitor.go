// Package janitor removes and gives back the workspaces of runs that have ended.
//
// Promises: a workspace goes only when every run that worked in it has ended, and no toolrunner works for one of them.
// What its repository has and no remote has is kept elsewhere first; where not all of it can be kept, the workspace
// stays, or is put aside with its session. Whatever is broken off is done again: hints only say that a look is due
// soon, and all workspaces are looked at every hour.
package janitor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Limits of looks.
const (
	// maxHints is how many hints of a kind wait to be looked at; what is let go is found when all workspaces are looked
	// at.
	maxHints = 4096
	// retryEvery is how soon a run is looked at again that is not done.
	retryEvery = 250 * time.Millisecond
	// maxTries is how often a run is looked at that has not ended as far as is known: a hint may be early, or wrong.
	maxTries = 20
	// allEvery is how often all workspaces are looked at.
	allEvery = time.Hour
	// runTime bounds one look at a run, workspaceTime the removal of a workspace: all that no remote has may have to be
	// stored.
	runTime       = 30 * time.Second
	workspaceTime = 10 * time.Minute
	// keepTime bounds the snapshot at the end of a step.
	keepTime = 5 * time.Minute
)

// Config holds what a janitor needs.
type Config struct {
	Ledger *runlog.Ledger
	Leases kernel.Leases
	// Sessions are those that may be deleted; nil where there are none.
	Sessions kernel.KV
	// Root is the absolute path of the workspace root, Cache that of the caches beside it; Cache may be empty.
	Root, Cache string
	// Trees are the workspaces that follow their runs; nil where each stays on the machine that made it.
	Trees *workspace.Trees
	// Uses notes which runs work in the workspaces of this machine; nil removes none of them.
	Uses *workspace.Uses
	// Git has the workspaces of ephemeral runs; nil where there are none.
	Git *gitwork.Desk
	// Rescue keeps elsewhere, in a scope, what the repository of a directory has and no remote has, and reports whether
	// that is all of its work. Nil keeps nothing: then a workspace with a repository stays, or is put aside with its
	// session.
	Rescue func(ctx context.Context, scope, dir string) (bool, error)
	// Files are those of sessions; a session is deleted while no other call writes them.
	Files *provision.SessionFiles
	// Working reports whether this toolrunner has a call of a run under way.
	Working func(runID string) bool
	// EndJobs ends the jobs of a run, DropSandboxes those that are kept on a workspace: they work in it.
	EndJobs       func(ctx context.Context, runID string)
	DropSandboxes func(workspace string)
	// Instance names this process.
	Instance string
	Now      func() time.Time
}

// Janitor looks after the workspaces of this toolrunner.
type Janitor struct {
	cfg Config
	// ended are runs that may have ended, for Run; endedTrees the same for RunTrees; steps are runs of which a step has
	// ended; users are runs that begin in a workspace that other runs made. More than maxHints of each are let go.
	ended, endedTrees, steps chan string
	users                    chan user
}

// New returns a janitor; it does nothing before Run and RunTrees.
func New(cfg Config) *Janitor {
	return &Janitor{cfg: cfg, ended: make(chan string, maxHints), endedTrees: make(chan string, maxHints),
		steps: make(chan string, maxHints), users: make(chan user, maxHints)}
}

// hint passes a run on to the loop that looks at it; where too many wait it is found when all are looked at.
func hint[T any](to chan T, what T) {
	select {
	case to <- what:
	default:
	}
}

// MayRemove notes a run that may have ended, whose workspace may go. It never waits.
func (j *Janitor) MayRemove(runID string) { hint(j.ended, runID) }

// MayGiveBack notes a run that may have ended, whose tree other machines may take. It never waits.
func (j *Janitor) MayGiveBack(runID string) {
	if j.cfg.Trees != nil {
		hint(j.endedTrees, runID)
	}
}

// Received takes an event of any run as it is republished. It never waits.
func (j *Janitor) Received(runID string, rec kernel.Record) {
	switch rec.Kind {
	case events.RunCreated:
		j.created(runID, rec.Bytes)
	case events.StepFinished, events.StepFailed, events.StepSettled:
		if j.cfg.Trees != nil && j.cfg.Trees.AtSteps() && j.cfg.Trees.Holds(runID) {
			// if it is let go, the workspace is kept before the next step's first call, or when it is given back
			hint(j.steps, runID)
		}
	default: // no workspace is to be looked at
	}
}

// Policy says when the workspaces of this machine go (WS-5): After the end of their last run, those of single runs
// AtEnd.
type Policy struct {
	After time.Duration
	AtEnd bool
}

// Run removes the workspaces of runs that have ended until ctx ends: those of ephemeral runs, and where workspaces stay
// on this machine all but those of sessions. What was kept elsewhere goes to kept, errors go to report, and the
// workspace is looked at again.
func (j *Janitor) Run(ctx context.Context, p Policy, kept func(workspace string, b gitwork.Published),
	report func(error)) {
	look := func(ids map[string]int, all bool) map[string]outcome {
		found := map[string]outcome{}
		for _, err := range []error{j.removeLocal(ctx, p, ids, all, found), j.removeEphemeral(ctx, p.After, ids, all, found,
			kept)} {
			if err != nil && ctx.Err() == nil {
				report(err)
			}
		}
		return found
	}
	watch(ctx, j.ended, func() { look(nil, true) }, func() {
		if err := j.noteUsers(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
	}, func(ids map[string]int) map[string]outcome { return look(ids, false) })
}

// outcome is what a look at a run came to.
type outcome int

const (
	// done is a run that is not looked at again.
	done outcome = iota
	// undecided is one that has not ended as far as is known.
	undecided
	// unfinished is one that is looked at until it is done.
	unfinished
)

// watch calls all at once and every hour, and look with the runs that hints name, at once and again until they are
// done. tick is called between looks.
func watch(ctx context.Context, hints <-chan string, all, tick func(),
	look func(ids map[string]int) map[string]outcome) {
	hour := time.NewTicker(allEvery)
	defer hour.Stop()
	again := time.NewTicker(retryEvery)
	defer again.Stop()
	waiting := map[string]int{}
	all()
	for ctx.Err() == nil {
		due := waiting
		select {
		case <-ctx.Done():
			return
		case <-hour.C:
			all()
			continue
		case id := <-hints:
			waiting[id] = maxTries
			due = map[string]int{id: maxTries}
		case <-again.C:
			if tick(); len(waiting) == 0 {
				continue
			}
		}
		found := look(due)
		for id := range due {
			switch found[id] {
			case done:
				delete(waiting, id)
			case undecided:
				if waiting[id]--; waiting[id] <= 0 {
					delete(waiting, id)
				}
			case unfinished:
			}
		}
	}
}

// over reports whether all runs of a workspace ended long enough ago, and no toolrunner works for one of them. noted
// are the runs with the times since when they are known; wait is how long a workspace stays after the end of a run,
// whose log may be gone.
func (j *Janitor) over(ctx context.Context, noted map[string]time.Time, wait func(created bool) time.Duration,
	hinted map[string]int) (bool, error) {
	for id, ended := range noted {
		if j.cfg.Working(id) {
			return false, nil
		}
		s, err := j.cfg.Ledger.Fresh(ctx, id)
		if err != nil {
			return false, fmt.Errorf("run %s: %w", id, err)
		}
		if s.Created != nil && !s.Status.Ended() {
			return false, nil
		}
		if s.EndedAt != nil {
			ended = *s.EndedAt
		}
		if d := wait(s.Created != nil); d > 0 && j.cfg.Now().Sub(ended) <= d {
			return false, nil
		}
		if idle, err := j.idle(ctx, s, hinted[id] > 0); err != nil || !idle {
			return false, err
		}
	}
	return true, nil
}

// idle reports whether no other instance is at work for a run that has ended, as far as is known: it ends its calls
// soon after. Where that was waited for before, it is so.
func (j *Janitor) idle(ctx context.Context, s run.State, waits bool) (bool, error) {
	for _, c := range s.Open {
		if !waits || c.Phase != run.CallStarted || c.Runner == j.cfg.Instance {
			continue
		}
		alive, err := j.cfg.Leases.Alive(ctx, c.Runner)
		if err != nil || alive {
			return false, err
		}
	}
	return true, nil
}

// passing reports whether a workspace is that of one run; those of workflows outlive each of their runs.
func passing(path string) bool { return strings.HasPrefix(path, "run/") }
