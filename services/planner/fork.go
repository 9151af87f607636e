package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/tasks"
)

// forks begins runs with what others had come to.
type forks struct {
	cfg  Config
	role *Role
}

// origin finds what a fork begins with. It is the same on each delivery: events never change.
func (r *forks) origin(ctx context.Context,
	t events.Task) (old run.State, from events.ForkOrigin, parts []*events.RunForkedData, err error) {
	at, err := r.forkPoint(ctx, *t.ForkOf)
	if err == nil {
		old, err = r.cfg.Ledger.At(ctx, t.ForkOf.Run, at)
	}
	switch {
	case errors.Is(err, kernel.ErrNotFound):
		err = kernel.Refuse("unknown_run", "inspan runs lists the runs of the station", "there is no run %q to fork",
			t.ForkOf.Run)
	case errors.Is(err, kernel.ErrNoEvent), errors.Is(err, kernel.ErrHeld):
		err = kernel.Refuse("bad_fork", "inspan logs "+t.ForkOf.Run+" shows its events, inspan audit whether they are sound",
			"%v", err)
	}
	if err != nil {
		return old, from, nil, err
	}
	if p := old.Pruned; p != nil {
		hint := "restore that backup into a store of its own, and fork the run there"
		if p.Forgotten {
			hint = "inspan run starts another task"
		}
		return old, from, nil, kernel.Refuse("bad_fork", hint, "the events of run %s %s", t.ForkOf.Run, p.Why())
	}
	start, err := run.Fork(old, t.Say, !t.ForkOf.SameWorkspace)
	if err == nil {
		from, parts, err = run.ForkParts(old, start)
	}
	if err != nil {
		return old, from, nil, kernel.Refuse("bad_fork", tasks.ForkHint, "run %s, event %d: %v", t.ForkOf.Run, at, err)
	}
	if t.ForkOf.SameWorkspace && resolve.Passing(old) {
		return old, from, nil, kernel.Refuse("bad_fork",
			"fork without --same-workspace: the fork begins with the commit that the run had, in a workspace of its own",
			"run %s has an ephemeral workspace, which goes with it", t.ForkOf.Run)
	}
	if from.SameWorkspace = t.ForkOf.SameWorkspace; from.SameWorkspace && old.Created.Session != "" {
		return old, from, nil, kernel.Refuse("bad_fork", "leave same_workspace out: the fork gets a directory of its own",
			"run %s works in session %s, whose files belong to whoever holds its lock", t.ForkOf.Run, old.Created.Session)
	}
	return old, from, parts, nil
}

// forkPoint is the sequence of the last event that a fork keeps. A checkpoint keeps its place for ever.
func (r *forks) forkPoint(ctx context.Context, from events.ForkPoint) (uint64, error) {
	if from.Checkpoint == "" {
		return from.Sequence, nil
	}
	s, err := r.cfg.Ledger.Fresh(ctx, from.Run)
	if err != nil {
		return 0, err
	}
	if c, ok := s.Checkpoint(from.Checkpoint); ok {
		return c.Sequence, nil
	}
	if s.Sequence == 0 {
		return 0, fmt.Errorf("run %s: %w", from.Run, kernel.ErrNotFound)
	}
	var names []string
	for _, c := range run.All(s.Checkpoints) {
		names = append(names, c.Name)
	}
	return 0, kernel.Refuse("bad_fork", "inspan checkpoints "+from.Run+" lists them",
		"run %s has no checkpoint %q, only: %s", from.Run, from.Checkpoint, strings.Join(names, ", "))
}

// fork opens a run that begins where another one stood.
func (r *forks) fork(ctx context.Context, m kernel.Message, t events.Task, env ce.Envelope, runID string,
	there run.State) error {
	old, from, parts, err := r.origin(ctx, t)
	if err != nil {
		return err
	}
	created, err := r.cfg.Resolve.Fork(t, env, runID, old, from)
	if err != nil {
		return err
	}
	created.Project, created.Options.Funds = tasks.ProjectOf(m), nil
	answers, err := r.role.starting(ctx, there, runID, created)
	if err != nil {
		return err
	}
	if there.Sequence == 0 {
		if err := r.role.parts.Budgets.Fund(ctx, runID, created, old); err != nil {
			return err
		}
	}
	var w runlog.Written
	for range 2 { // its birth, and what follows from its plan
		w, err = r.role.write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
			if s.Sequence > 0 && s.Created.TaskDigest != created.TaskDigest {
				return nil, part.Named(runID, kernel.Refuse("duplicate_id", "give each fork its own id, or none",
					"the id %q belongs to another task, which started run %s", created.TaskID, runID))
			}
			return lifecycle.Fork(s, now, created, parts, answers)
		})
		if err != nil {
			return r.role.unborn(ctx, runID, created, tasks.FullAtBirth(err, w.State.Sequence > 0))
		}
	}
	if w.State.Plan == nil && w.State.Status == events.Running {
		if w, err = r.role.plan(ctx, w.State); err != nil {
			return err
		}
	}
	if w.State, err = r.role.advance(ctx, w.State); err != nil {
		return err
	}
	return r.role.remind.setDeadline(ctx, w.State)
}

// plan makes the plan of a fork from before its plan was made.
func (r *Role) plan(ctx context.Context, s run.State) (runlog.Written, error) {
	if s.Torn() {
		return r.write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
			return lifecycle.GiveUp(s, now, events.FinishCancelled,
				"the run that it was forked from could not be taken over whole; fork again with another id")
		})
	}
	made, err := r.cfg.Resolve.Given(ctx, events.Task{}, &events.RunCreatedData{TaskID: s.TaskID, Task: s.Created.Task,
		Agent: s.AgentName, Agents: s.Agents, Options: s.Options})
	if err != nil {
		return runlog.Written{}, err
	}
	if made == nil {
		return r.fromModel(ctx, s)
	}
	return r.begin(ctx, s.HarnessID, s.Created, made, nil)
}
