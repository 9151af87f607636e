// Package harness is the aggregate of harnesses: programs written with pkg/harness whose steps are recorded.
//
// Promises: a harness is its log, and the row that others read is a view of it. A decision is a function of a state, a
// control and a time, and each prefix of its answer is a legal history. What was recorded is never recorded again,
// however often it is asked for. Only the program that attached last may record: what an earlier one still sends is
// refused. Steps have no gap, and no step is recorded while an effect that was begun in it has no outcome. The state
// that a program keeps is not read here: it is the program's.
package harness

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of a harness: the fold of its log. It is a value: no function changes what can be reached from it.
type State struct {
	events.Harness
	kernel.Folded
}

var rules = kernel.Rules[State]{kernel.On(opened), kernel.On(attached), kernel.On(begun), kernel.On(settled),
	kernel.On(stepped),
	kernel.On(ended)}

// Next returns the state after one more event of that time.
func (s State) Next(p events.Payload, at time.Time) (State, error) {
	switch {
	case s.ID == "" && p.Kind() != events.HarnessOpened:
		return s, fmt.Errorf("a harness does not begin with %s", p.Kind())
	case s.ID != "" && p.Kind() == events.HarnessOpened:
		return s, fmt.Errorf("it is open already")
	case s.Ended():
		return s, fmt.Errorf("nothing follows its end")
	}
	s, err := rules.Fold(s, p, at)
	s.UpdatedAt = at
	return s, err
}

// Ended reports whether nothing more is recorded.
func (s State) Ended() bool { return s.Status == events.HarnessIsCompleted }

func opened(s State, d *events.HarnessOpenedData, at time.Time) (State, error) {
	s.Harness = events.Harness{ID: d.Harness, Status: events.HarnessIsOpen, Name: d.Name, CreatedAt: at}
	return s, nil
}

func attached(s State, d *events.HarnessAttachedData, _ time.Time) (State, error) {
	if d.Epoch != s.Epoch+1 {
		return s, fmt.Errorf("program %d does not follow %d", d.Epoch, s.Epoch)
	}
	s.Epoch, s.Holder, s.Token = d.Epoch, d.Holder, d.Token
	return s, nil
}

func begun(s State, d *events.HarnessBegunData, _ time.Time) (State, error) {
	if err := s.follows(d.Epoch, d.StepNumber); err != nil {
		return s, err
	}
	if n := len(s.Begun); n > 0 && d.Effect.Number <= s.Begun[n-1].Number {
		return s, fmt.Errorf("effect %d does not follow %d", d.Effect.Number, s.Begun[n-1].Number)
	}
	s.Begun = append(slices.Clip(s.Begun),
		events.HarnessBegun{Number: d.Effect.Number, Name: d.Effect.Name, Class: d.Effect.Class})
	return s, nil
}

func settled(s State, d *events.HarnessSettledData, _ time.Time) (State, error) {
	if err := s.follows(d.Epoch, d.StepNumber); err != nil {
		return s, err
	}
	i := s.begun(d.Effect.Number)
	if i < 0 || s.Begun[i].Settled {
		return s, fmt.Errorf("effect %d is not open", d.Effect.Number)
	}
	s.Begun = slices.Clone(s.Begun)
	s.Begun[i].Settled = true
	return s, nil
}

func stepped(s State, d *events.HarnessSteppedData, _ time.Time) (State, error) {
	if err := s.follows(d.Epoch, d.Number); err != nil {
		return s, err
	}
	if b, open := s.Unsettled(); open {
		return s, fmt.Errorf("effect %d has no outcome", b.Number)
	}
	s.Steps, s.Begun = d.Number, nil
	return s, nil
}

func ended(s State, d *events.HarnessEndedData, _ time.Time) (State, error) {
	if err := s.follows(d.Epoch, d.Steps+1); err != nil {
		return s, err
	}
	if b, open := s.Unsettled(); open {
		return s, fmt.Errorf("effect %d has no outcome", b.Number)
	}
	s.Status, s.Reason, s.Begun = events.HarnessIsCompleted, d.Reason, nil
	return s, nil
}

// follows returns an error where the program of an epoch may not say something of a step.
func (s State) follows(epoch, step int) error {
	if epoch != s.Epoch || epoch == 0 {
		return fmt.Errorf("program %d is not attached, program %d is", epoch, s.Epoch)
	}
	if step != s.Steps+1 {
		return fmt.Errorf("step %d does not follow %d", step, s.Steps)
	}
	return nil
}

// begun is the place of an effect among those that were begun in the step under way, -1 where it was not.
func (s State) begun(number int) int {
	return slices.IndexFunc(s.Begun, func(b events.HarnessBegun) bool { return b.Number == number })
}

// Unsettled returns an effect that was begun and has no outcome; ok is false where there is none.
func (s State) Unsettled() (b events.HarnessBegun, ok bool) {
	i := slices.IndexFunc(s.Begun, func(b events.HarnessBegun) bool { return !b.Settled })
	if i < 0 {
		return b, false
	}
	return s.Begun[i], true
}
