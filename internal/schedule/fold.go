package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of a schedule: the fold of its log, and what was decided on it and is not stored yet. It is a value: no
// function changes what can be reached from it.
type State struct {
	events.Schedule
	kernel.Folded
}

// Exists reports whether there is a schedule.
func (s State) Exists() bool { return s.ID != "" && s.Status != events.ScheduleIsRemoved }

// Firing returns the open firing of a number; ok is false where there is none.
func (s State) Firing(number int) (f events.Firing, ok bool) {
	i := slices.IndexFunc(s.Open, func(f events.Firing) bool { return f.Number == number })
	if i < 0 {
		return f, false
	}
	return s.Open[i], true
}

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

// rules are the fold rules of schedules. They take what an event says as it stands: what may be decided is no question
// of the fold.
var rules = kernel.Rules[State]{kernel.On(created), kernel.On(changed), kernel.On(paused), kernel.On(resumed),
	kernel.On(removed),
	kernel.On(skipped), kernel.On(fired), kernel.On(refused), kernel.On(ended)}

// apply carries out one event.
func (s State) apply(p events.Payload, at time.Time) (State, error) {
	if s.ID == "" && p.Kind() != events.ScheduleCreated {
		return s, fmt.Errorf("a schedule does not begin with %s", p.Kind())
	}
	s, err := rules.Fold(s, p, at)
	s.UpdatedAt = at
	return s, err
}

func created(s State, d *events.ScheduleCreatedData, at time.Time) (State, error) {
	s.Schedule = events.Schedule{ID: d.Schedule, Status: events.ScheduleIsActive, Spec: d.Spec,
		Anchor:  at.Truncate(time.Second),
		Handled: at, Fired: s.Fired, By: d.By, CreatedAt: at, Inputs: s.Inputs}
	return s.took(d.ScheduleBy), nil
}

// changed keeps the times that are due where the timing stays as it was.
func changed(s State, d *events.ScheduleChangedData, at time.Time) (State, error) {
	if !sameTiming(s.Spec, d.Spec) {
		s.Anchor, s.Handled = at.Truncate(time.Second), at
	}
	s.Spec, s.By = d.Spec, d.By
	return s.took(d.ScheduleBy), nil
}

func sameTiming(a, b events.ScheduleSpec) bool {
	same := func(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }
	return a.Cron == b.Cron && a.Every == b.Every && a.TimeZone == b.TimeZone && same(a.At, b.At)
}

func paused(s State, d *events.SchedulePausedData, _ time.Time) (State, error) {
	s.Status = events.ScheduleIsPaused
	return s.took(d.ScheduleBy), nil
}

func resumed(s State, d *events.ScheduleResumedData, at time.Time) (State, error) {
	s.Status, s.Handled = events.ScheduleIsActive, at
	return s.took(d.ScheduleBy), nil
}

func removed(s State, d *events.ScheduleRemovedData, _ time.Time) (State, error) {
	s.Schedule = events.Schedule{ID: s.ID, Status: events.ScheduleIsRemoved, Fired: s.Fired, Inputs: s.Inputs,
		CreatedAt: s.CreatedAt}
	return s.took(d.ScheduleBy), nil
}

func skipped(s State, d *events.ScheduleSkippedData, _ time.Time) (State, error) {
	s.Handled, s.Skipped = d.Last, s.Skipped+d.Count
	return s, nil
}

func fired(s State, d *events.ScheduleFiredData, at time.Time) (State, error) {
	f := events.Firing{Number: d.Number, Run: d.Run, At: d.At, FiredAt: at, Manual: d.Manual != nil}
	s.Fired, s.Skipped = d.Number, s.Skipped+d.Missed
	s.Open = append(slices.Clone(s.Open), f)
	s.Last = &events.FiringEnd{Firing: f, Outcome: events.FiringIsOpen}
	if d.Manual != nil {
		return s.took(*d.Manual), nil
	}
	s.Handled = d.At
	return s, nil
}

func refused(s State, d *events.ScheduleRefusedData, _ time.Time) (State, error) {
	return s.closed(d.Number, events.FiringIsRefused, d.Code+": "+d.Reason), nil
}

func ended(s State, d *events.ScheduleEndedData, _ time.Time) (State, error) {
	outcome := events.FiringIsCompleted
	if !d.Success {
		outcome = events.FiringIsFailed
	}
	return s.closed(d.Number, outcome, d.FinishReason), nil
}

// closed takes a firing out of those that are open.
func (s State) closed(number int, outcome, reason string) State {
	s.Open = slices.DeleteFunc(slices.Clone(s.Open), func(f events.Firing) bool { return f.Number == number })
	if s.Last != nil && s.Last.Number == number {
		s.Last = &events.FiringEnd{Firing: s.Last.Firing, Outcome: outcome, Reason: reason}
	}
	return s
}

// took notes that a control was carried out.
func (s State) took(by events.ScheduleBy) State {
	s.Inputs = append(slices.Clone(s.Inputs), by.Input)
	s.Inputs = s.Inputs[max(0, len(s.Inputs)-events.MaxScheduleInputs):]
	return s
}
