// Package planner is the role that opens runs, makes plans, and says what follows from what is done.
//
// Promises: a task with the same id starts one run, for ever. What is refused is refused with the fault named; what the
// station has no room for now waits or is refused before anything of it is stored. It owns no run: everything it knows
// is in the log, and any replica goes on where another stopped.
package planner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/tasks"
)

// Config holds what the role needs.
type Config struct {
	Names  part.Names
	Ledger *runlog.Ledger
	Timers kernel.Timers
	Intake tasks.Config
	// Resolve says what runs are made of.
	Resolve *resolve.Resolver
	// Earlier enters a run into its workflow before it is created, and returns the runs whose files it is given; nil
	// gives none.
	Earlier func(ctx context.Context, c *events.RunCreatedData, runID string, now time.Time) ([]string, error)
	// Stood is how long the station was halted between two times; nil is not at all.
	Stood func(since, now time.Time) time.Duration
	// Hooks asks those who are to be asked at the start and at the end of a run; nil lets every hook of an agent block.
	Hooks *hooks.Asker
	// Parts makes what the station has beside runs; nil is for one that has runs alone.
	Parts func(part.Runs) (Parts, error)
}

// Role is the planner.
type Role struct {
	cfg    Config
	intake *tasks.Intake
	remind *reminders
	kin    *relatives
	forks  *forks
	parts  Parts
}

var (
	_ runlog.Role = (*Role)(nil)
	_ part.Runs   = runs{}
)

// New checks the configuration.
func New(cfg Config) (*Role, error) {
	if cfg.Ledger == nil || cfg.Timers == nil || cfg.Resolve == nil {
		return nil, errors.New("planner needs a ledger, timers and a resolver")
	}
	r := &Role{cfg: cfg, intake: tasks.New(cfg.Intake), remind: &reminders{cfg}}
	r.kin, r.forks = &relatives{cfg, r}, &forks{cfg, r}
	if cfg.Parts != nil {
		var err error
		if r.parts, err = cfg.Parts(runs{r}); err != nil {
			return nil, err
		}
	}
	r.parts = r.parts.orNone()
	return r, nil
}

// Service implements runlog.Role.
func (*Role) Service() events.Service { return events.Planner }

// born sees to it that a run that exists starts or ends: whoever made it may have died, or met a full log, and its task
// may have been answered by another delivery meanwhile.
func (r *Role) born(ctx context.Context, h runlog.ReceivedEvent) error {
	if err := r.parts.Schedules.Continue(ctx, h.State); err != nil {
		return err
	}
	if err := r.parts.Team.Continue(ctx, h.State); err != nil {
		return err
	}
	switch {
	case h.State.Status == events.Running && h.State.Plan == nil:
		return r.planless(ctx, h)
	case h.State.Status == events.Running && (h.State.Created.ChildOf != nil || h.State.Created.Firing != nil ||
		h.State.Created.Work != nil || h.State.Created.Address != nil || h.State.Created.Landing != nil):
		// No task comes again that would have done this: whoever began it may be gone.
		w, err := r.write(ctx, h.Run, lifecycle.Progress)
		if err == nil && h.State.Created.ChildOf != nil && h.Deliveries == 1 && len(w.Events) == 0 {
			return nil // whoever begins it is at it
		}
		if err = r.kin.following(ctx, w, err); err != nil {
			return err
		}
		return r.remind.setDeadline(ctx, w.State)
	case h.State.Status != events.Created:
		return nil
	}
	w, err := r.write(ctx, h.Run, func(s run.State, now time.Time) ([]events.Payload, error) {
		return lifecycle.Unstarted(s, now, r.cfg.stood(s.CreatedAt, now))
	})
	if err == nil && !w.State.Status.Ended() {
		return &kernel.RetryAfter{After: part.BornAgain} // one that another planner started meanwhile needs its plan
	}
	return err
}

// planless sees to it that a run that was started gets its plan.
func (r *Role) planless(ctx context.Context, h runlog.ReceivedEvent) error {
	if err := r.remind.setDeadline(ctx, h.State); err != nil {
		return err // whoever started it may be gone, too
	}
	var overdue, owed bool
	w, err := r.write(ctx, h.Run, func(s run.State, now time.Time) ([]events.Payload, error) {
		if s.Cancelled != "" {
			return lifecycle.Progress(s, now)
		}
		if overdue, owed = lifecycle.Planless(s, now, r.cfg.stoodSince(s.StartedAt, now)); overdue &&
			s.Created.PlanOrigin != events.OriginSingle &&
			s.Created.PlanOrigin != events.OriginModel {
			return lifecycle.GiveUp(s, now, events.FinishCancelled,
				"the plan of the task was not stored, because the station was full or was lost in between; send the task again with another id")
		}
		return nil, nil
	})
	switch {
	case err != nil || !owed || w.State.Status.Ended() || w.State.Planning != nil:
		return err // what follows from a request for a plan comes with its answer
	case !overdue:
		return &kernel.RetryAfter{After: part.BornAgain}
	}
	_, err = r.plan(ctx, w.State)
	return err
}

// Event implements runlog.Role: what follows from the end of a step, a rejection or a resume.
func (r *Role) Event(ctx context.Context, h runlog.ReceivedEvent) error {
	if err := r.event(ctx, h); err != nil {
		return err
	}
	return r.parts.Team.Follow(ctx, h.Run)
}

func (r *Role) event(ctx context.Context, h runlog.ReceivedEvent) error {
	if err := r.parts.Team.Acknowledge(ctx, h.State, h.Deliveries); err != nil {
		return err
	}
	if h.Kind == events.RunResumed {
		if err := r.remind.setDeadline(ctx, h.State); err != nil {
			return err // its clock stood while it was paused
		}
	}
	if h.Kind == events.RunResumed && h.State.Plan == nil && h.State.Status == events.Running {
		_, err := r.fromModel(ctx, h.State) // it was paused before it had one
		return err
	}
	decide := lifecycle.Progress
	switch h.Kind {
	case events.StepAllowed:
		if st := h.State.Step(h.Step); st != nil && st.Flow != nil {
			if _, err := r.advance(ctx, h.State); err != nil {
				return err
			}
		}
		return r.kin.event(ctx, h)
	case events.RunCompleted, events.RunFailed, events.RunPruned:
		if err := r.parts.Budgets.Ended(ctx, h.State); err != nil {
			return err
		}
		return r.kin.event(ctx, h)
	case events.StepBranched, events.CallDelegated, events.StepClaimed, events.CheckPassed:
		return r.kin.event(ctx, h)
	case events.MailInjected:
		return nil
	case events.MailRequested:
		return r.parts.Team.Requested(ctx, h)
	case events.RunCreated:
		if err := r.kin.event(ctx, h); err != nil {
			return err
		}
		return r.born(ctx, h)
	case events.PlanAnswered:
		_, err := r.fromModel(ctx, h.State)
		return err
	case events.GateRejected, events.GateExpired:
		decide = lifecycle.Rejected
	case events.TurnDeferred, events.PlanDeferred:
		if h.State.AwaitsBudget() != nil {
			if err := r.parts.Budgets.Look(ctx, h.Run); err != nil {
				return err
			}
		}
		decide = func(s run.State, _ time.Time) ([]events.Payload, error) { return lifecycle.Interrupted(s) }
	default: // whatever else happened, the plan may go on
	}
	w, err := r.write(ctx, h.Run, decide)
	return r.kin.following(ctx, w, err)
}

// Due implements runlog.Role: the run's time is up, or its children are to be looked at.
func (r *Role) Due(ctx context.Context, runID, _, id string, _ run.State) error {
	switch id {
	case childTimer:
		return r.kin.tend(ctx, runID)
	case checkpointTimer:
		return r.remind.checkpoint(ctx, runID)
	case part.BudgetTimer:
		return r.parts.Budgets.Look(ctx, runID)
	}
	w, err := r.write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
		return lifecycle.Timeout(s, now, r.cfg.stoodSince(s.StartedAt, now))
	})
	if err = r.kin.following(ctx, w, err); err != nil {
		return err
	}
	if err := r.remind.setDeadline(ctx, w.State); err != nil { // it came early: look again
		return err
	}
	return r.parts.Team.Follow(ctx, runID)
}

// Input implements runlog.Role: tasks and controls.
func (r *Role) Input(ctx context.Context, m kernel.Message) error {
	if sub, ok := events.ParseRunSubject(m.Subject()); ok && len(sub.Rest) == 1 && sub.Rest[0] == "control" {
		return r.control(ctx, m, sub.Run)
	}
	if id, verb, ok := events.ParseSession(m.Subject()); ok && verb == "control" {
		return r.parts.Sessions.Input(ctx, m, id)
	}
	if isTask(m) {
		return r.task(ctx, m)
	}
	return kernel.Refuse("bad_subject",
		"publish tasks on station.{station}.task and controls on station.{station}.run.{run}.control or station.{station}.session.{session}.control",
		"nothing is known of the subject %q", m.Subject())
}

// setDeadline sets the timers of a run that goes on: of its end, and of its next checkpoint.
func (r *reminders) setDeadline(ctx context.Context, s run.State) error {
	if err := r.setCheckpoint(ctx, s); err != nil {
		return err
	}
	at, ok := lifecycle.Deadline(s)
	if !ok || s.Status.Ended() {
		return nil
	}
	return r.cfg.Timers.Set(ctx, s.HarnessID, "run.deadline", at.Add(r.cfg.stoodSince(s.StartedAt, time.Now())),
		s.Sequence)
}

// control moves a run as a user asks.
func (r *Role) control(ctx context.Context, m kernel.Message, runID string) error {
	var c events.Control
	_, err := ce.Read(m.Data(), m.Header, events.ControlType, &c)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return part.Named(runID, kernel.Refuse("bad_input",
			`send {"action":"pause"}; the actions are pause, resume, stop, autonomy, revise and signal`, "%v", err))
	}
	if c.Action != "revise" && c.Plan != nil {
		return part.Named(runID, kernel.Refuse("bad_input", `send {"action":"revise","plan":{"steps":[...]}}`,
			"plan goes with the action revise, not with %q", c.Action))
	}
	if c.Action != "signal" && (c.Signal != "" || len(c.Data) > 0) {
		return part.Named(runID, kernel.Refuse("bad_input", `send {"action":"signal","signal":"NAME","data":...}`,
			"signal and data go with the action signal, not with %q", c.Action))
	}
	if c.Interrupt && c.Action != "pause" {
		return part.Named(runID, kernel.Refuse("bad_input", `send {"action":"pause","interrupt":true}`,
			"interrupt goes with the action pause, not with %q", c.Action))
	}
	wish := lifecycle.Wish{By: part.OrUnknown(c.By), Reason: c.Reason, Input: m.Seq(), Interrupt: c.Interrupt}
	var decide runlog.Decide
	switch c.Action {
	case "pause":
		decide = func(s run.State, now time.Time) ([]events.Payload, error) { return lifecycle.Pause(s, now, wish) }
	case "resume", "start":
		decide = func(s run.State, _ time.Time) ([]events.Payload, error) { return lifecycle.Resume(s, wish) }
	case "stop":
		decide = func(s run.State, now time.Time) ([]events.Payload, error) { return lifecycle.Stop(s, now, wish) }
	case "autonomy":
		if c.Level < 1 || c.Level > 5 {
			return part.Named(runID, kernel.Refuse("bad_input", `send {"action":"autonomy","level":4}`, "level is %d, want 1 to 5",
				c.Level))
		}
		decide = func(s run.State, _ time.Time) ([]events.Payload, error) { return lifecycle.Adjust(s, c.Level, wish) }
	case "revise":
		there, _, err := r.cfg.Ledger.State(ctx, runID)
		if err != nil {
			return err
		}
		if decide, err = r.cfg.Resolve.Revision(ctx, runID, there, c, m.Seq()); err != nil {
			return err
		}
	case "signal":
		if decide, err = signal(runID, c, m.Seq()); err != nil {
			return err
		}
	default:
		known := []string{"pause", "resume", "stop", "autonomy", "revise", "signal"}
		return part.Named(runID, kernel.Refuse("bad_input", part.Meant(c.Action, known)+"the actions are "+strings.Join(known, ", "),
			"unknown action %q", c.Action))
	}
	w, err := r.write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
		if s.Sequence == 0 {
			return nil, part.Named(runID, kernel.Refuse("unknown_run", "inspan runs lists the runs of the station",
				"there is no run %q", runID))
		}
		return decide(s, now)
	})
	if move, ok := errors.AsType[*lifecycle.MoveError](err); ok {
		return part.Named(runID, kernel.Refuse("bad_move", "inspan inspect "+runID+" shows where it stands", "%s: %v", c.Action,
			move))
	}
	if err := r.kin.following(ctx, w, err); err != nil {
		return err
	}
	return r.parts.Team.Follow(ctx, runID)
}

// isTask reports whether a message is a task, by its subject.
func isTask(m kernel.Message) bool {
	t := strings.Split(m.Subject(), ".")
	return len(t) >= 3 && t[2] == "task"
}
