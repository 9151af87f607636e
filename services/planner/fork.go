package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

const forkHint = `send {"fork_of":{"run_id":"RUN","sequence":12},"say":"what to do instead"}; inspan logs RUN shows the events`

// checkFork looks at the shape of a task that forks a run.
func checkFork(t events.Task) error {
	switch {
	case t.Agent != "" || t.Task != "" || t.Plan != nil || t.Autonomy != nil || t.MaxToolCalls != nil ||
		t.MaxSteps != nil || t.Timeout != "" || t.CheckpointIntervalMS != nil ||
		t.MaxTokens != nil || t.MaxUSD != nil || t.MaxSubAgentDepth != nil || t.Handoff != "" || len(t.Mail) > 0 ||
		t.Repo != "" || t.Ref != "" || t.Branch != "" || t.Depth != 0 || t.Place != "" || t.Git != nil ||
		t.EternalEngine != nil ||
		t.LongRunning != nil || t.Estimate != "" || t.Model != "" || len(t.Variables) > 0 || t.Session != "" ||
		t.SessionMode != "" || len(t.History) > 0:
		return errors.New("a fork takes agent, task, plan, options, variables, handoff, mail, repository and history from the run it comes from, and works in no session")
	case !events.ValidID(t.ForkOf.Run):
		return events.CheckID("fork_of.run_id", t.ForkOf.Run)
	case (t.ForkOf.Sequence == 0) == (t.ForkOf.Checkpoint == ""):
		return errors.New("fork_of needs a sequence or a checkpoint, one of the two: which event is the last one that the fork keeps?")
	case len(t.Say) > events.MaxTask:
		return fmt.Errorf("say has %d bytes, the limit is %d", len(t.Say), events.MaxTask)
	}
	return nil
}

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
		return old, from, nil, kernel.Refuse("bad_fork", forkHint, "run %s, event %d: %v", t.ForkOf.Run, at, err)
	}
	if t.ForkOf.SameWorkspace && passing(old) {
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
	created, err := r.pinFork(t, env, runID, old, from)
	if err != nil {
		return err
	}
	created.Project, created.Options.Funds = projectOf(m), nil
	answers, err := r.role.starting(ctx, there, runID, created)
	if err != nil {
		return err
	}
	if there.Sequence == 0 {
		if err := r.role.treasurer.fund(ctx, runID, created, budget.Alone(old)); err != nil {
			return err
		}
	}
	var w runlog.Written
	for range 2 { // its birth, and what follows from its plan
		w, err = r.role.write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
			if s.Sequence > 0 && s.Created.TaskDigest != created.TaskDigest {
				return nil, named(runID, kernel.Refuse("duplicate_id", "give each fork its own id, or none",
					"the id %q belongs to another task, which started run %s", created.TaskID, runID))
			}
			return lifecycle.Fork(s, now, created, parts, answers)
		})
		if err != nil {
			return r.role.treasurer.unborn(ctx, runID, created, fullAtBirth(err, w.State.Sequence > 0))
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
	made, err := r.resolve.given(ctx, events.Task{}, &events.RunCreatedData{TaskID: s.TaskID, Task: s.Created.Task,
		Agent: s.AgentName, Agents: s.Agents, Options: s.Options})
	if err != nil {
		return runlog.Written{}, err
	}
	if made == nil {
		return r.fromModel(ctx, s)
	}
	return r.begin(ctx, s.HarnessID, s.Created, made, nil)
}

// pinFork fixes what a fork is made of: all is as it was, but who asked for it and where it works.
func (r *forks) pinFork(t events.Task, env ce.Envelope, runID string, old run.State,
	from events.ForkOrigin) (*events.RunCreatedData, error) {
	if t.ID == "" {
		t.ID = runID
	}
	digest, err := t.Digest()
	if err != nil {
		return nil, err
	}
	c := *old.Created
	c.TaskID, c.TaskDigest, c.TaskSource, c.By, c.Durability = t.ID, digest, env.Source, t.By,
		r.cfg.Durability
	c.Agents, c.Options, c.ForkOf, c.To = map[string]events.Agent{c.Agent: old.Agents[c.Agent]}, old.Options, &from,
		events.Created
	c.TraceParent, c.Session, c.SessionFence, c.Attended = env.TraceParent, "", 0, t.Attended
	c.Work, c.Address, c.Landing = nil, nil, nil // the item and the address are still those of the run that is forked
	if of := c.ChildOf; of != nil {              // what was granted for the tree is not granted for the fork
		alone := *of
		alone.Session, alone.SessionFence = "", 0
		c.ChildOf = &alone
	}
	wrapped(&c)
	forkGit(&c, runID, old)
	if !from.SameWorkspace {
		c.Workspace = "run/" + runID
	}
	return &c, nil
}
