// Package schedules is the part of the planner that has schedules fire.
//
// Promises: a time fires once, and what one planner leaves undone another one does: all of it follows from the log of
// the schedule and those of its runs.
package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// Config is where the part has the schedules.
type Config struct {
	Names part.Names
	// Ledger writes their logs, Rows holds the view of each that people read, Timers wakes the planner for them.
	Ledger *schedule.Ledger
	Rows   kernel.KV
	Timers kernel.Timers
	// Now is the clock that times are compared with; nil means time.Now.
	Now func() time.Time
}

// Scheduler is the part.
type Scheduler struct {
	Config
	part.Viewed[schedule.State]
	runs part.Runs
}

var _ kernel.Role[schedule.State] = (*Scheduler)(nil)

// New checks the configuration.
func New(cfg Config, runs part.Runs) (*Scheduler, error) {
	if cfg.Ledger == nil || cfg.Rows == nil || cfg.Timers == nil || len(cfg.Names.Key) == 0 {
		return nil, errors.New("planner needs the logs, the rows and the timers of schedules, and a key for the ids of their runs")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Scheduler{Config: cfg, Viewed: part.NewViewed(schedule.View(), cfg.Ledger, cfg.Rows), runs: runs}, nil
}

// Handler handles what is received of schedules.
func (r *Scheduler) Handler() kernel.Handler {
	return kernel.Handle(r.Ledger, kernel.Role[schedule.State](r))
}

const (
	// wakeTimer is the timer of a schedule: there is one, at its next time.
	wakeTimer = "fire.next"
	// maxTended bounds how often a schedule that changes meanwhile is looked at for one message.
	maxTended = 64
	// lockedAgain is when a queued firing is looked at again whose session somebody else works in.
	lockedAgain = time.Minute
)

// Service implements kernel.Role.
func (*Scheduler) Service() events.Service { return events.Planner }

// Event implements kernel.Role. What follows from an event of a schedule is done by whoever appended it, before the
// message that led to it is acknowledged.
func (*Scheduler) Event(context.Context, kernel.Received[schedule.State]) error { return nil }

// Due implements kernel.Role: a time of the schedule has come.
func (r *Scheduler) Due(ctx context.Context, d kernel.Due[schedule.State]) error {
	return r.tend(ctx, d.ID, d.Deliveries)
}

// Ended looks at the schedule whose run has ended. ours is false for any other run.
func (r *Scheduler) Ended(ctx context.Context, of run.State) (ours bool, err error) {
	if of.Created.Firing == nil {
		return false, nil
	}
	return true, r.ended(ctx, of.Created.Firing.Schedule, of.HarnessID)
}

func (r *Scheduler) ended(ctx context.Context, id, runID string) error {
	s, err := r.Ledger.Fresh(ctx, id)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", id, err)
	}
	for _, f := range s.Open {
		if f.Run == runID {
			return r.tend(ctx, id, 1)
		}
	}
	return r.Shown(ctx, id) // it was removed, or the end is recorded
}

// Input implements kernel.Role: a control of a user.
func (r *Scheduler) Input(ctx context.Context, m kernel.Message) error {
	sub, ok := events.ParseAggregateSubject(m.Subject())
	if !ok || len(sub.Rest) != 1 || sub.Rest[0] != "control" {
		return kernel.Refuse("bad_subject", "publish on station.{station}.schedule.{schedule}.control",
			"nothing is known of the subject %q", m.Subject())
	}
	var c events.ScheduleControl
	_, err := ce.Read(m.Data(), m.Header, events.ScheduleType, &c)
	if err == nil {
		err = c.Check()
	}
	if err == nil {
		err = schedule.Check(c)
	}
	if err == nil && c.Spec != nil && c.Spec.Task.Model != "" {
		err = agentfile.CheckModel(c.Spec.Task.Model)
	}
	if err != nil {
		return kernel.Refuse("bad_input", `send {"action":"pause"}; inspan schedule --help shows what there is`, "%v", err)
	}
	if c.Spec != nil {
		if err := r.dispatchable(ctx, *c.Spec); err != nil {
			return err
		}
	}
	w := schedule.Wish{ScheduleControl: c, Schedule: sub.ID, Input: m.Seq()}
	_, err = r.Change(ctx, sub.ID, func(s schedule.State) (schedule.State, error) {
		s, err := r.closed(ctx, s)
		if err != nil {
			return s, err
		}
		return schedule.Steer(s, w, r.Now().UTC(), r.Names.Firing)
	})
	if no, ok := errors.AsType[*schedule.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if err != nil {
		return err
	}
	return r.tend(ctx, sub.ID, m.Deliveries())
}

// dispatchable refuses a spec whose task would be refused each time.
func (r *Scheduler) dispatchable(ctx context.Context, spec events.ScheduleSpec) error {
	a, err := r.runs.Agent(ctx, spec.Task.Agent)
	if err != nil {
		return err
	}
	t := schedule.TaskOf(schedule.State{Schedule: events.Schedule{Spec: spec}}, events.Firing{})
	if err := part.CheckPlacement(t); err != nil {
		return err
	}
	for _, p := range spec.Phases {
		if p.Agent != "" {
			if _, err := r.runs.Agent(ctx, p.Agent); err != nil {
				return err
			}
		}
	}
	if _, err := t.Resolve(a); err != nil {
		return kernel.Refuse("bad_input", "fix the value and set the schedule again", "%v", err)
	}
	return nil
}

// tend does all that is owed to a schedule: firings whose runs ended are closed, times that have come fire or are
// skipped, and the runs of firings begin. Each of these follows from logs, so that it is done once, however often and
// by however many planners it is tried.
func (r *Scheduler) tend(ctx context.Context, id string, deliveries uint64) error {
	for range maxTended {
		s, err := r.Change(ctx, id, func(s schedule.State) (schedule.State, error) {
			s, err := r.closed(ctx, s)
			if err != nil {
				return s, err
			}
			return schedule.Due(s, r.Now().UTC(), r.Names.Firing)
		})
		if err != nil || !s.Exists() {
			return err
		}
		if at, ok := schedule.Wake(s); ok {
			if err := r.Timers.Set(ctx, id, wakeTimer, at, s.Sequence); err != nil {
				return fmt.Errorf("schedule %s: %w", id, err)
			}
		}
		again, err := r.begin(ctx, s, deliveries)
		if err == nil && !again {
			again, err = r.replace(ctx, s)
		}
		if err != nil || !again {
			return err
		}
	}
	return &kernel.RetryAfter{After: time.Second}
}

// closed closes the firings whose runs have ended, or that cannot have one.
func (r *Scheduler) closed(ctx context.Context, s schedule.State) (schedule.State, error) {
	for _, f := range s.Open {
		run, err := r.runs.Fresh(ctx, f.Run)
		now := r.Now().UTC()
		switch {
		case errors.Is(err, kernel.ErrHeld):
			s = schedule.Refuse(s, f.Number, schedule.Refused{Code: "integrity_hold", Reason: err.Error(),
				Hint: "inspan audit " + f.Run + " shows the damage"}, now)
		case err != nil:
			return s, err
		case run.Sequence == 0:
		case run.Created.Firing == nil || run.Created.Firing.Schedule != s.ID || run.Created.Firing.Number != f.Number:
			s = schedule.Refuse(s, f.Number, schedule.Refused{Code: "duplicate_id", Reason: "another run has the id " + f.Run},
				now)
		case run.Status.Ended():
			s = schedule.Close(s, f.Number, run.Status == events.Completed, run.Result.FinishReason, now)
		}
	}
	return s, nil
}

// begin begins the runs of the firings that are ready. again is true where one was refused, so that the next may be.
func (r *Scheduler) begin(ctx context.Context, s schedule.State, deliveries uint64) (again bool, err error) {
	for _, f := range s.Ready() {
		if run, err := r.runs.Fresh(ctx, f.Run); err != nil || run.Sequence > 0 {
			if err != nil {
				return false, err
			}
			continue
		}
		m := part.Dispatch{Station: r.Names.Station, At: f.FiredAt, Tries: deliveries}
		if s.Spec.Overlap.InTurn() {
			m.At = r.Now() // it waited for others, not for the station
		}
		err := r.dispatch(ctx, s, f, m)
		no, refused := errors.AsType[*kernel.Refusal](err)
		switch {
		case !refused && err != nil:
			return false, err
		case !refused:
			continue
		case no.Code == "session_locked" && s.Spec.Overlap.InTurn():
			at := r.Now().Add(lockedAgain)
			if next, ok := schedule.Wake(s); ok && next.Before(at) {
				at = next
			}
			return false, r.Timers.Set(ctx, s.ID, wakeTimer, at, s.Sequence)
		}
		again = true
		if _, err := r.Change(ctx, s.ID, func(s schedule.State) (schedule.State, error) {
			if run, err := r.runs.Fresh(ctx, f.Run); err != nil || run.Sequence > 0 {
				return s, err // another planner was faster, and its run was the one that was in the way
			}
			return schedule.Refuse(s, f.Number, schedule.Refused{Code: no.Code, Reason: no.Reason, Hint: no.Hint},
				r.Now().UTC()), nil
		}); err != nil {
			return false, err
		}
	}
	return again, nil
}
