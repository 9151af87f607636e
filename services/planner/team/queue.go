package team

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// MergeQueues is where the planner has the merge queues.
type MergeQueues struct {
	// Ledger writes their logs, Rows holds the view of each that people read, Timers wakes the planner for them.
	Ledger *mergequeue.Ledger
	Rows   kernel.KV
	Timers kernel.Timers
	// Now is the clock that times are compared with; nil means time.Now.
	Now func() time.Time
}

// Lander is the part of the planner that has the merge queues. It owns none: all it does follows from the log of a
// queue and those of its runs, so whatever one planner leaves undone another one does. It merges and pushes nothing
// itself: a run does, which makes one attempt.
type Lander struct {
	MergeQueues
	part.Viewed[mergequeue.State]
	*shared
}

var _ kernel.Role[mergequeue.State] = (*Lander)(nil)

// newLander returns nil where the station has no merge queues.
func newLander(t *shared, q *MergeQueues) (*Lander, error) {
	if q == nil {
		return nil, nil
	}
	l := &Lander{MergeQueues: *q, shared: t}
	if l.Ledger == nil || l.Rows == nil || l.Timers == nil || len(t.names.Key) == 0 {
		return nil, errors.New("planner needs the logs, the rows and the timers of merge queues, and a key for the ids of their runs")
	}
	if l.Now == nil {
		l.Now = time.Now
	}
	l.Viewed = part.NewViewed(mergequeue.View(), l.Ledger, l.Rows)
	return l, nil
}

// landTimer is the timer of a queue: an entry is to be tried again.
const landTimer = "land.entry"

// Service implements kernel.Role.
func (*Lander) Service() events.Service { return events.Planner }

// Event implements kernel.Role. What follows from an event of a queue is done by whoever appended it, before the
// message that led to it is acknowledged.
func (*Lander) Event(context.Context, kernel.Received[mergequeue.State]) error { return nil }

// Due implements kernel.Role.
func (l *Lander) Due(ctx context.Context, d kernel.Due[mergequeue.State]) error {
	return l.tend(ctx, d.ID, d.Deliveries)
}

// Input implements kernel.Role: a control of a user.
func (l *Lander) Input(ctx context.Context, m kernel.Message) error {
	sub, ok := events.ParseAggregateSubject(m.Subject())
	if !ok || len(sub.Rest) != 1 || sub.Rest[0] != "control" {
		return kernel.Refuse("bad_subject", "publish on station.{station}.mergequeue.{queue}.control",
			"nothing is known of the subject %q", m.Subject())
	}
	var c events.QueueControl
	_, err := ce.Read(m.Data(), m.Header, events.QueueType, &c)
	if err == nil {
		err = c.Check()
	}
	if err == nil {
		err = mergequeue.Check(c)
	}
	if err != nil {
		return kernel.Refuse("bad_input", `send {"action":"add","spec":{"repo":"URL","branch":"main","agent":"NAME","accept":"make test"}}; docs/delivery.md shows what there is`, "%v", err)
	}
	if c.Spec != nil {
		if err := l.workable(ctx, sub.ID, *c.Spec); err != nil {
			return err
		}
	}
	w := mergequeue.Wish{QueueControl: c, Queue: sub.ID, Input: m.Seq()}
	_, err = l.Change(ctx, sub.ID, func(s mergequeue.State) (mergequeue.State, error) {
		return mergequeue.Steer(s, w, l.Now().UTC())
	})
	if no, ok := errors.AsType[*mergequeue.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if err != nil {
		return err
	}
	if err := l.tend(ctx, sub.ID, m.Deliveries()); err != nil {
		return err
	}
	return l.tell(ctx, c.Work)
}

// workable refuses a queue whose runs would be refused.
func (l *Lander) workable(ctx context.Context, id string, spec events.QueueSpec) error {
	s := mergequeue.State{MergeQueue: events.MergeQueue{ID: id, Spec: spec}}
	t := mergequeue.TaskOf(s, events.QueueEntry{Landing: events.LandingRunPrefix, Queued: events.Queued{Work: id}}, nil)
	return l.runs.Openable(ctx, t)
}

// enqueue puts a delivered branch into a queue, once, and has it taken where no other is.
func (l *Lander) enqueue(ctx context.Context, id string, q events.Queued) (mergequeue.State, error) {
	if l == nil {
		return mergequeue.State{}, mergequeue.NotThere(id)
	}
	s, err := l.Change(ctx, id, func(s mergequeue.State) (mergequeue.State, error) {
		return mergequeue.Enqueue(s, id, q, l.Now().UTC())
	})
	if err != nil {
		return s, err
	}
	return s, l.tend(ctx, id, 1)
}

// entry is the entry of a delivery in a queue.
func (l *Lander) entry(ctx context.Context, id, item string, epoch int) (e events.QueueEntry, there bool, err error) {
	if l == nil {
		return e, false, nil
	}
	s, err := l.Ledger.Fresh(ctx, id)
	if err != nil {
		return e, false, fmt.Errorf("merge queue %s: %w", id, err)
	}
	e, there = s.Of(item, epoch)
	return e, there, nil
}

// tend does all that is owed to a queue: an attempt whose run has ended ends, the next entry is taken, and the run of
// the one that is taken begins. Each of these follows from logs, so that it is done once, however often and by however
// many planners it is tried.
func (l *Lander) tend(ctx context.Context, id string, deliveries uint64) error {
	for range events.MaxQueued {
		s, err := l.Change(ctx, id, func(s mergequeue.State) (mergequeue.State, error) {
			s, err := l.settled(ctx, s)
			if err == nil && s.Exists() {
				s = mergequeue.Take(s, l.Now().UTC(), l.names.Landing)
			}
			return s, err
		})
		if err != nil {
			return err
		}
		if at, ok := mergequeue.Wake(s); ok {
			if err := l.Timers.Set(ctx, id, landTimer, at, s.Sequence); err != nil {
				return fmt.Errorf("merge queue %s: %w", id, err)
			}
		}
		e, is := s.Taken()
		if !is {
			return nil
		}
		there, err := l.runs.Fresh(ctx, e.Landing)
		if err != nil || there.Sequence > 0 && there.Status != events.Created {
			return err // it goes on by its own events
		}
		err = l.dispatch(ctx, s, e, part.Dispatch{Station: l.names.Station, At: l.Now(),
			Tries: deliveries})
		no, refused := errors.AsType[*kernel.Refusal](err)
		if !refused {
			return err
		}
		_, err = l.Change(ctx, id, func(s mergequeue.State) (mergequeue.State, error) {
			if there, err := l.runs.Fresh(ctx, e.Landing); err != nil || there.Sequence > 0 {
				return s, err // another planner was faster
			}
			o := events.LandingOutcome{Code: no.Code, Reason: no.Reason + ": " + no.Hint}
			return mergequeue.Finish(s, e.Number, e.Attempt, e.Landing, o, l.Now().UTC()), nil
		})
		if err == nil {
			err = l.tell(ctx, e.Work)
		}
		if err != nil {
			return err
		}
	}
	return &kernel.RetryAfter{After: time.Second}
}

// settled ends an attempt whose run has ended. A run that is held keeps it: no one knows what it may still do.
func (l *Lander) settled(ctx context.Context, s mergequeue.State) (mergequeue.State, error) {
	e, is := s.Taken()
	if !is {
		return s, nil
	}
	of, err := l.runs.Fresh(ctx, e.Landing)
	switch {
	case errors.Is(err, kernel.ErrHeld):
		return s, nil
	case err != nil:
		return s, err
	case of.Sequence == 0 || !of.Status.Ended() || of.Created == nil || of.Created.Landing == nil:
		return s, nil
	}
	return mergequeue.Finish(s, e.Number, e.Attempt, e.Landing, delivery.Landed(of), l.Now().UTC()), nil
}

// dispatch opens the run of an attempt, or goes on with an opening that somebody did not finish.
func (l *Lander) dispatch(ctx context.Context, s mergequeue.State, e events.QueueEntry, m part.Dispatch) error {
	var accept *events.Accept
	if l.work != nil {
		of, err := l.work.Ledger.Fresh(ctx, e.Work)
		if err != nil {
			return fmt.Errorf("work item %s: %w", e.Work, err)
		}
		accept = of.Spec.Accept
	}
	return l.runs.Open(ctx, m, mergequeue.TaskOf(s, e, accept), ce.Envelope{Source: "/inspan/mergequeue/" + s.ID},
		part.Origin{Landing: &events.LandingRef{Queue: s.ID, Number: e.Number, Attempt: e.Attempt, Branch: e.Branch,
			Commit: e.Commit, Target: e.Target,
			Keep: s.Spec.KeepBranches}})
}

// tell looks at the work item of an entry that has ended.
func (l *Lander) tell(ctx context.Context, item string) error {
	if item == "" || l.work == nil {
		return nil
	}
	return l.work.tend(ctx, item, 1)
}

// ended looks at a queue whose run has ended, also where that is recorded: whoever recorded it may have died before the
// work item was looked at.
func (l *Lander) ended(ctx context.Context, of run.State) error {
	if l == nil {
		return nil
	}
	ref := of.Created.Landing
	if err := l.tend(ctx, ref.Queue, 1); err != nil {
		return err
	}
	return l.tell(ctx, of.Created.WorkID)
}

// goOn gives the run of an attempt its plan where whoever created it did not come to that: it follows from the queue.
func (l *Lander) goOn(ctx context.Context, s run.State) error {
	if l == nil || !part.Unplanned(s) || s.Created.Landing == nil {
		return nil
	}
	ref := s.Created.Landing
	of, err := l.Ledger.Fresh(ctx, ref.Queue)
	if err != nil {
		return fmt.Errorf("merge queue %s: %w", ref.Queue, err)
	}
	e, is := of.Taken()
	if !is || e.Landing != s.HarnessID {
		return nil
	}
	err = l.dispatch(ctx, of, e, part.Dispatch{Station: l.names.Station, At: l.Now(), Tries: 1})
	if _, refused := errors.AsType[*kernel.Refusal](err); refused {
		return nil // the run is given up in its time
	}
	return err
}
