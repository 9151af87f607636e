package mergequeue

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of a merge queue: the fold of its log, and what was decided on it and is not stored yet. It is a value: no
// function changes what can be reached from it.
type State struct {
	events.MergeQueue
	kernel.Folded
}

// Exists reports whether there is such a queue.
func (s State) Exists() bool { return s.ID != "" }

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

// rules are the fold rules of merge queues.
var rules = kernel.Rules[State]{kernel.On(created), kernel.On(enqueued), kernel.On(taken), kernel.On(returned),
	kernel.On(landed), kernel.On(bounced), kernel.On(dropped), kernel.On(retried)}

// apply carries out one event.
func (s State) apply(p events.Payload, at time.Time) (State, error) {
	if (s.ID == "") != (p.Kind() == events.QueueCreated) {
		return s, fmt.Errorf("the first event of a merge queue is %s, and no other is", events.QueueCreated)
	}
	s, err := rules.Fold(s, p, at)
	s.UpdatedAt = at
	return s, err
}

func created(s State, d *events.QueueCreatedData, at time.Time) (State, error) {
	s.MergeQueue = events.MergeQueue{ID: d.Queue, Spec: d.Spec, By: d.By, CreatedAt: at}
	return s.took(d.WorkBy), nil
}

func enqueued(s State, d *events.QueueEnqueuedData, at time.Time) (State, error) {
	if e, there := s.Of(d.Work, 0); d.Number != s.Last+1 || there && (e.Epoch == d.Epoch || e.EndedAt.IsZero()) {
		return s, fmt.Errorf("entry %d of binding %d of work item %s comes after entry %d", d.Number, d.Epoch, d.Work, s.Last)
	}
	s.Last = d.Number
	s.Entries = append(slices.Clone(s.Entries),
		events.QueueEntry{Number: d.Number, Queued: d.Queued, State: events.EntryWaits, Target: s.Spec.Branch,
			EnqueuedAt: at})
	return s, nil
}

func taken(s State, d *events.QueueTakenData, _ time.Time) (State, error) {
	if e, is := s.Taken(); is {
		return s, fmt.Errorf("entry %d is taken while entry %d is", d.Number, e.Number)
	}
	return s.change(d.Number, func(e *events.QueueEntry) error {
		if d.Attempt != e.Attempt+1 {
			return fmt.Errorf("attempt %d of entry %d follows attempt %d", d.Attempt, d.Number, e.Attempt)
		}
		e.State, e.Attempt, e.Landing, e.NotBefore = events.EntryIsTaken, d.Attempt, d.Run, time.Time{}
		return nil
	})
}

func returned(s State, d *events.QueueReturnedData, _ time.Time) (State, error) {
	return s.change(d.Number, func(e *events.QueueEntry) error {
		if e.State != events.EntryIsTaken || e.Attempt != d.Attempt {
			return notTaken(d.Number, d.Attempt)
		}
		e.State, e.Base, e.Code, e.Reason, e.NotBefore = events.EntryWaits, d.Base, d.Code, d.Reason, d.NotBefore
		return nil
	})
}

func landed(s State, d *events.QueueLandedData, at time.Time) (State, error) {
	if d.Commit == "" {
		return s, fmt.Errorf("entry %d landed at no commit", d.Number)
	}
	return s.end(d.Number, at, func(e *events.QueueEntry) error {
		if e.State != events.EntryIsTaken || e.Attempt != d.Attempt || e.Landing != d.Run {
			return notTaken(d.Number, d.Attempt)
		}
		e.State, e.Base, e.Landed, e.Tree, e.Code, e.Reason = events.EntryIsLanded, d.Base, d.Commit, d.Tree, "", ""
		e.Removed, e.Kept = d.Removed, d.Kept
		return nil
	})
}

func bounced(s State, d *events.QueueBouncedData, at time.Time) (State, error) {
	return s.end(d.Number, at, func(e *events.QueueEntry) error {
		if e.State != events.EntryIsTaken || e.Attempt != d.Attempt {
			return notTaken(d.Number, d.Attempt)
		}
		e.State, e.Base, e.Code, e.Reason = events.EntryBounced, d.Base, d.Code, d.Reason
		return nil
	})
}

func dropped(s State, d *events.QueueDroppedData, at time.Time) (State, error) {
	s, err := s.end(d.Number, at, func(e *events.QueueEntry) error {
		if e.State != events.EntryWaits {
			return fmt.Errorf("entry %d is %s", d.Number, e.State)
		}
		e.State, e.Code, e.Reason = events.EntryDropped, events.LandingDropped, d.Reason
		return nil
	})
	return s.took(d.WorkBy), err
}

func retried(s State, d *events.QueueRetriedData, _ time.Time) (State, error) {
	s, err := s.change(d.Number, func(e *events.QueueEntry) error {
		if e.State != events.EntryWaits {
			return fmt.Errorf("entry %d is %s", d.Number, e.State)
		}
		e.NotBefore = time.Time{}
		return nil
	})
	return s.took(d.WorkBy), err
}

func notTaken(number, attempt int) error {
	return fmt.Errorf("attempt %d of entry %d is not the one that is made", attempt, number)
}

// change changes one living entry.
func (s State) change(number int, do func(*events.QueueEntry) error) (State, error) {
	i := slices.IndexFunc(s.Entries, func(e events.QueueEntry) bool { return e.Number == number })
	if i < 0 {
		return s, fmt.Errorf("no entry %d is in the queue", number)
	}
	s.Entries = slices.Clone(s.Entries)
	return s, do(&s.Entries[i])
}

// end changes one living entry and takes it out of the queue.
func (s State) end(number int, at time.Time, do func(*events.QueueEntry) error) (State, error) {
	s, err := s.change(number, do)
	if err != nil {
		return s, err
	}
	i := slices.IndexFunc(s.Entries, func(e events.QueueEntry) bool { return e.Number == number })
	e := s.Entries[i]
	e.EndedAt, e.NotBefore = at, time.Time{}
	if s.Entries = slices.Delete(s.Entries, i, i+1); len(s.Entries) == 0 {
		s.Entries = nil // as the row of an empty queue reads
	}
	s.Done = append(slices.Clone(s.Done), e)
	s.Done = s.Done[max(0, len(s.Done)-events.MaxQueueDone):]
	return s, nil
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
