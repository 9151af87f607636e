package work

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of a work item: the fold of its log, and what was decided on it and is not stored yet. It is a value: no
// function changes what can be reached from it.
type State struct {
	events.WorkItem
	kernel.Folded
}

// Exists reports whether there is such an item.
func (s State) Exists() bool { return s.ID != "" }

// Holds reports whether a binding is the one that the item has.
func (s State) Holds(epoch int, run string) bool {
	return s.Binding != nil && s.Binding.Epoch == epoch && s.Binding.Run == run
}

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

// rules are the fold rules of work items.
var rules = kernel.Rules[State]{kernel.On(created), kernel.On(bound), kernel.On(dispatched), kernel.On(started),
	kernel.On(handedOff),
	kernel.On(unbound), kernel.On(progressed), kernel.On(closed), kernel.On(requested), kernel.On(validated),
	kernel.On(published),
	kernel.On(reviewed), kernel.On(notified), kernel.On(landed), kernel.On(bounced), kernel.On(deliveryClosed),
	kernel.On(released), kernel.On(tracked), kernel.On(followed)}

// apply carries out one event.
func (s State) apply(p events.Payload, at time.Time) (State, error) {
	if (s.ID == "") != (p.Kind() == events.WorkCreated) {
		return s, fmt.Errorf("the first event of a work item is %s, and no other is", events.WorkCreated)
	}
	s, err := rules.Fold(s, p, at)
	s.UpdatedAt = at
	return s, err
}

func created(s State, d *events.WorkCreatedData, at time.Time) (State, error) {
	s.WorkItem = events.WorkItem{ID: d.Work, Status: events.WorkIsOpen, Spec: d.Spec, By: d.By, CreatedAt: at,
		Step: d.Step}
	return s.took(d.WorkBy), nil
}

func bound(s State, d *events.WorkBoundData, at time.Time) (State, error) {
	if s.Status != events.WorkIsOpen || d.Epoch != s.Epoch+1 {
		return s, fmt.Errorf("binding %d of an item that is %s, after binding %d", d.Epoch, s.Status, s.Epoch)
	}
	s.Status, s.Epoch = events.WorkIsBound, d.Epoch
	s.Binding = &events.WorkBinding{Epoch: d.Epoch, WorkDispatch: d.Dispatch, Run: d.Run, Dispatched: d.Start, BoundAt: at,
		ExpiresAt: d.ExpiresAt, By: d.By}
	if d.Start {
		s.Binding.DispatchedBy, s.Binding.DispatchedAt = d.By, at
	}
	return s.took(d.WorkBy), nil
}

func dispatched(s State, d *events.WorkDispatchedData, at time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) || s.Binding.Dispatched {
		return s, s.notHeld(d.Epoch)
	}
	b := *s.Binding
	b.Dispatched, b.DispatchedBy, b.DispatchedAt, b.ExpiresAt = true, d.By, at, d.ExpiresAt
	s.Binding = &b
	return s.took(d.WorkBy), nil
}

func started(s State, d *events.WorkStartedData, _ time.Time) (State, error) {
	if s.Binding != nil && s.Binding.Address != "" {
		return s.startedBy(d)
	}
	if !s.Holds(d.Epoch, d.Run) || !s.Binding.Dispatched || s.Binding.Started {
		return s, s.notHeld(d.Epoch)
	}
	b := *s.Binding
	b.Started = true
	s.Binding = &b
	return s, nil
}

func unbound(s State, d *events.WorkUnboundData, _ time.Time) (State, error) {
	if s.Binding == nil || s.Binding.Epoch != d.Epoch || s.Delivers() {
		return s, s.notHeld(d.Epoch)
	}
	s.Status = events.WorkIsOpen
	return s.ended(d.Code, d.Reason).took(d.WorkBy), nil
}

func progressed(s State, d *events.WorkProgressedData, at time.Time) (State, error) {
	s.Notes = append(slices.Clone(s.Notes), events.WorkNote{At: at, By: d.By, Note: d.Note})
	s.Notes = s.Notes[max(0, len(s.Notes)-events.MaxWorkNotes):]
	return s.took(d.WorkBy), nil
}

func closed(s State, d *events.WorkClosedData, _ time.Time) (State, error) {
	byRun := d.Epoch != 0
	switch {
	case s.Status == events.WorkIsClosed:
		return s, fmt.Errorf("the item is closed")
	case byRun && (!s.Holds(d.Epoch, d.Run) || !s.Binding.Started || s.Delivers()):
		return s, s.notHeld(d.Epoch)
	case !byRun && s.Binding != nil && s.Binding.Started:
		return s, fmt.Errorf("run %s has the item", s.Binding.Run)
	case byRun:
		s = s.ended(events.WorkCompleted, d.Reason)
	case s.Binding != nil:
		s = s.ended(events.WorkUnassigned, "the item was closed")
	}
	s.Status, s.ClosedBy, s.ClosedAs = events.WorkIsClosed, d.By, d.Reason
	return s.took(d.WorkBy), nil
}

func (s State) notHeld(epoch int) error {
	return fmt.Errorf("binding %d is not what the item has, which is %s after binding %d", epoch, s.Status, s.Epoch)
}

// ended takes the holder from an item.
func (s State) ended(code, reason string) State {
	b := s.Binding
	s.Binding, s.Last = nil, &events.WorkEnd{Epoch: b.Epoch, Agent: b.Holder(), Code: code, Reason: reason}
	if b.Dispatched {
		s.Last.Run = b.Run
	}
	return s
}

// took notes that a control was carried out.
func (s State) took(by events.WorkBy) State {
	if by.Input == 0 {
		return s
	}
	s.Inputs = append(slices.Clone(s.Inputs), by.Input)
	s.Inputs = s.Inputs[max(0, len(s.Inputs)-events.MaxWorkInputs):]
	return s
}
