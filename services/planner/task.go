package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/tasks"
)

// task opens the run that a task asks for, or finds that it exists.
func (r *Role) task(ctx context.Context, m kernel.Message) error {
	t, env, err := tasks.Read(m)
	if err != nil {
		return err
	}
	return r.open(ctx, m, t, env, part.Origin{})
}

// open opens the run of a task whose shape was checked.
func (r *Role) open(ctx context.Context, m kernel.Message, t events.Task, env ce.Envelope, from part.Origin) error {
	if err := part.CheckPlacement(t); err != nil {
		return err
	}
	runID := tasks.RunID(t.ID, r.cfg.Names.Station, m)
	there, err := r.known(ctx, t, runID)
	if err != nil {
		return err
	}
	if there.Sequence == 0 { // a run that began goes on, whatever the station takes on
		done, err := r.intake.Admit(ctx, tasks.SenderOf(m, env), m)
		if err != nil {
			return err
		}
		defer done()
	}
	if t.ForkOf != nil {
		return r.forks.fork(ctx, m, t, env, runID, there)
	}
	err = r.opened(ctx, m, t, env, runID, there, from)
	if _, refused := errors.AsType[*kernel.Refusal](err); refused { // one that was not comes again, and has its lock
		err = cmp.Or(r.parts.Sessions.Abandon(ctx, t.Session, runID), err)
	}
	return err
}

// Undo implements kernel.Undoer: a task that was refused holds nothing, whatever another planner that was at it
// meanwhile has taken for its run.
func (r *Role) Undo(ctx context.Context, m kernel.Message) error {
	if !isTask(m) {
		return nil
	}
	t, _, err := tasks.Read(m)
	if err != nil {
		return nil //nolint:nilerr // it never came to anything
	}
	runID := tasks.RunID(t.ID, r.cfg.Names.Station, m)
	if err := r.parts.Budgets.Unborn(ctx, runID); err != nil {
		return err
	}
	return r.parts.Sessions.Abandon(ctx, t.Session, runID)
}

// unborn frees what was reserved for a run that was refused, and returns why it was.
func (r *Role) unborn(ctx context.Context, runID string, c *events.RunCreatedData, why error) error {
	if _, refused := errors.AsType[*kernel.Refusal](why); !refused || c.Options.Funds == nil {
		return why
	}
	return cmp.Or(r.parts.Budgets.Unborn(ctx, runID), why)
}

// opened opens the run of a task that was admitted. there is what is known of it.
func (r *Role) opened(ctx context.Context, m kernel.Message, t events.Task, env ce.Envelope, runID string,
	there run.State, from part.Origin) error {
	created, err := r.cfg.Resolve.Pin(ctx, t, env, runID)
	if created != nil {
		created.By, created.Project, created.Firing, created.Work = t.By, tasks.ProjectOf(m), from.Firing, from.Work
		created.Address, created.Landing = from.Address, from.Landing
		if created.Git != nil {
			created.Git.Subject, created.Git.Review = from.Subject, from.Review
		}
	}
	if err != nil {
		return err
	}
	made, err := r.cfg.Resolve.Given(ctx, t, created)
	if err != nil {
		return err
	}
	if created.PlanOrigin = events.OriginModel; made != nil {
		created.PlanOrigin = made.Origin
	}
	answers, err := r.starting(ctx, there, runID, created)
	if err == nil {
		created.Direct, err = r.cfg.Resolve.Direct(t, created, made, answers)
	}
	if err != nil {
		return err
	}
	if there.Sequence == 0 {
		if err := r.parts.Sessions.Enter(ctx, t, runID, created); err != nil {
			return err
		}
		if r.cfg.Earlier != nil {
			if created.Earlier, err = r.cfg.Earlier(ctx, created, runID, m.Time()); err != nil {
				return fmt.Errorf("earlier runs of the workflow: %w", err)
			}
		}
		if err := r.parts.Budgets.Fund(ctx, runID, created, run.State{}); err != nil {
			return err
		}
		if err := r.cfg.Resolve.Weigh(ctx, created); err != nil {
			return r.unborn(ctx, runID, created, err)
		}
	} else {
		created.SessionFence = there.Created.SessionFence // whoever made it may not have confirmed its lock
	}
	w, err := r.begin(ctx, runID, created, made, answers)
	if err != nil {
		return r.unborn(ctx, runID, created, tasks.FullAtBirth(err, w.State.Sequence > 0))
	}
	if w.State.Status.Ended() { // a task that comes once more, and whose run was not known here
		return r.parts.Budgets.Ended(ctx, w.State)
	}
	if w.State.Plan == nil && w.State.Status == events.Running {
		if w, err = r.fromModel(ctx, w.State); err != nil {
			return err
		}
	}
	if w.State, err = r.advance(ctx, w.State); err != nil {
		return err
	}
	return r.remind.setDeadline(ctx, w.State)
}

// known is what is known of the run of a task. Where a lock hangs on it, the leader is asked: a run that has ended must
// not take it again.
func (r *Role) known(ctx context.Context, t events.Task, runID string) (run.State, error) {
	if t.Session != "" {
		return r.cfg.Ledger.Fresh(ctx, runID)
	}
	s, _, err := r.cfg.Ledger.State(ctx, runID)
	return s, err
}

func (r *Role) begin(ctx context.Context, runID string, created *events.RunCreatedData, made *events.PlanMadeData,
	answers []events.HookAnswer) (runlog.Written, error) {
	ours := func(s run.State) error {
		if s.Sequence > 0 && s.Created.TaskDigest != created.TaskDigest {
			return part.Named(runID, kernel.Refuse("duplicate_id", "give each task its own id, or none",
				"the task id %q belongs to another task, which started run %s", created.TaskID, runID))
		}
		return nil
	}
	// A run starts only when it exists and has what it was made for.
	if created.SessionFence != 0 || created.Work != nil || created.Address != nil {
		w, err := r.write(ctx, runID, func(s run.State, _ time.Time) ([]events.Payload, error) {
			if s.Sequence == 0 {
				return []events.Payload{lifecycle.Birth(created, answers)}, nil
			}
			return nil, ours(s)
		})
		if err == nil && lifecycle.Unborn(w.State) {
			err = r.parts.Sessions.Confirm(ctx, w.State)
			if err == nil {
				err = r.parts.Team.Confirm(ctx, runID, created)
			}
		}
		if err != nil {
			return w, err
		}
	}
	return r.write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
		if err := ours(s); err != nil {
			return nil, err
		}
		return lifecycle.Begin(s, now, created, made, answers)
	})
}
