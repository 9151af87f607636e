package team

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// WorkItems is where the planner has the work items.
type WorkItems struct {
	// Ledger writes their logs, Rows holds the view of each that people read, Timers wakes the planner for them.
	Ledger *work.Ledger
	Rows   kernel.KV
	Timers kernel.Timers
	// Now is the clock that times are compared with; nil means time.Now.
	Now func() time.Time
}

// Assigner is the part of the planner that binds work items to agents and begins their runs. It owns none: all it does
// follows from the log of an item and that of its run, so whatever one planner leaves undone another one does.
type Assigner struct {
	WorkItems
	part.Viewed[work.State]
	*shared
}

var _ kernel.Role[work.State] = (*Assigner)(nil)

// newAssigner returns nil where the station has no work items.
func newAssigner(t *shared, w *WorkItems) (*Assigner, error) {
	if w == nil {
		return nil, nil
	}
	a := &Assigner{WorkItems: *w, shared: t}
	if a.Ledger == nil || a.Rows == nil || a.Timers == nil || len(t.names.Key) == 0 {
		return nil, errors.New("planner needs the logs, the rows and the timers of work items, and a key for the ids of their runs")
	}
	if a.Now == nil {
		a.Now = time.Now
	}
	a.Viewed = part.NewViewed(work.View(), a.Ledger, a.Rows)
	return a, nil
}

// expiryTimer is the timer of an item whose binding was not started.
const expiryTimer = "expire.binding"

// Service implements kernel.Role.
func (*Assigner) Service() events.Service { return events.Planner }

// Event implements kernel.Role. What follows from an event of an item is done by whoever appended it, before the
// message that led to it is acknowledged.
func (*Assigner) Event(context.Context, kernel.Received[work.State]) error { return nil }

// Due implements kernel.Role: the time of a binding may be over.
func (a *Assigner) Due(ctx context.Context, d kernel.Due[work.State]) error {
	return a.tend(ctx, d.ID, d.Deliveries)
}

// Input implements kernel.Role: a control of a user.
func (a *Assigner) Input(ctx context.Context, m kernel.Message) error {
	sub, ok := events.ParseAggregateSubject(m.Subject())
	if !ok || len(sub.Rest) != 1 || sub.Rest[0] != "control" {
		return kernel.Refuse("bad_subject", "publish on station.{station}.work.{item}.control",
			"nothing is known of the subject %q", m.Subject())
	}
	var c events.WorkControl
	_, err := ce.Read(m.Data(), m.Header, events.WorkType, &c)
	if err == nil {
		err = c.Check()
	}
	if err == nil {
		err = work.Check(c)
	}
	if err == nil && c.Dispatch != nil && c.Dispatch.Model != "" {
		err = agentfile.CheckModel(c.Dispatch.Model)
	}
	if err != nil {
		return kernel.Refuse("bad_input", `send {"action":"add","spec":{"title":"..."}}; docs/work.md shows what there is`, "%v", err)
	}
	if c.Action == work.Add && strings.HasPrefix(sub.ID, events.WorkStepPrefix) {
		return kernel.Refuse("bad_input", "give the item another id",
			"the id %q begins with %s, as only those of the steps of formulas do",
			sub.ID, events.WorkStepPrefix)
	}
	if m.Deliveries() > 1 {
		if err := (holders{a}).catchUp(ctx, c, sub.ID); err != nil {
			return err
		}
	}
	err = a.carryOut(ctx, work.Wish{WorkControl: c, Work: sub.ID, Input: m.Seq()}, m.Deliveries())
	if _, no := errors.AsType[*kernel.Refusal](err); (err == nil || no) && c.Dispatch != nil && m.Deliveries() > 1 {
		err = cmp.Or((holders{a}).release(ctx, sub.ID, c.Dispatch.Address), err)
	}
	return err
}

// carryOut does what a control asks for. It returns a *kernel.Refusal where that may not be.
func (a *Assigner) carryOut(ctx context.Context, w work.Wish, deliveries uint64) (err error) {
	if w.Dispatch != nil {
		if w.Dispatch, err = (holders{a}).resolve(ctx, *w.Dispatch); err == nil {
			err = a.dispatchable(ctx, w.Work, *w.Dispatch)
		}
		if err != nil {
			return err
		}
	}
	if w.Spec != nil {
		if err := (convoys{a}).known(ctx, w.Work, w.Spec.Items); err != nil {
			return err
		}
	}
	err = a.steer(ctx, w)
	if no, ok := errors.AsType[*work.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if err != nil {
		return err
	}
	return a.tend(ctx, w.Work, deliveries)
}

// dispatchable refuses a binding whose task would be refused.
func (a *Assigner) dispatchable(ctx context.Context, id string, d events.WorkDispatch) error {
	s, err := a.Ledger.Fresh(ctx, id)
	if err != nil {
		return fmt.Errorf("work item %s: %w", id, err)
	}
	if s.Status != events.WorkIsOpen {
		return nil // it is refused for that
	}
	if err := a.deliverable(ctx, d); err != nil {
		return err
	}
	t := work.TaskOf(s, events.WorkBinding{WorkDispatch: d, Run: events.WorkRunPrefix})
	if len(t.Task) > events.MaxTask {
		return kernel.Refuse("bad_input", "put long material in a file of the workspace",
			"the item and the task have %d bytes together, the limit is %d", len(t.Task), events.MaxTask)
	}
	return a.runs.Openable(ctx, t)
}

// tend does all that is owed to an item: a binding whose run has ended, or that was not started in time, ends, and the
// run of one that was dispatched begins. Each of these follows from logs, so that it is done once, however often and by
// however many planners it is tried.
func (a *Assigner) tend(ctx context.Context, id string, deliveries uint64) error {
	s, err := a.Change(ctx, id, func(s work.State) (work.State, error) {
		s, err := a.settled(ctx, s)
		return work.Expire(s, a.Now().UTC()), err
	})
	if err != nil {
		return err
	}
	if at, ok := work.Wake(s); ok {
		if err := a.Timers.Set(ctx, id, expiryTimer, at, s.Sequence); err != nil {
			return fmt.Errorf("work item %s: %w", id, err)
		}
	}
	d := deliverer{a}
	if s, err = d.goOn(ctx, s); err != nil {
		return err
	}
	if s, err = d.notifyBounced(ctx, s); err != nil {
		return err
	}
	if err := (convoys{a}).look(ctx, s); err != nil {
		return err
	}
	b := s.Binding
	switch {
	case b == nil || s.Delivers() || s.Step != nil:
		return nil
	case b.Address != "":
		return holders{a}.offer(ctx, s, *b)
	case !b.Dispatched:
		return nil
	}
	there, err := a.runs.Fresh(ctx, b.Run)
	if err != nil || there.Sequence > 0 && there.Status != events.Created {
		return err // it goes on by its own events
	}
	err = a.dispatch(ctx, s, *b, part.Dispatch{Station: a.names.Station, At: b.DispatchedAt,
		Tries: deliveries})
	no, refused := errors.AsType[*kernel.Refusal](err)
	if !refused {
		return err
	}
	_, err = a.Change(ctx, id, func(s work.State) (work.State, error) {
		if there, err := a.runs.Fresh(ctx, b.Run); err != nil || there.Sequence > 0 {
			return s, err // another planner was faster
		}
		return work.Free(s, b.Epoch, no.Code, no.Reason, a.Now().UTC()), nil
	})
	return err
}

// dispatch opens the run of a binding, or goes on with an opening that somebody did not finish.
func (a *Assigner) dispatch(ctx context.Context, s work.State, b events.WorkBinding, m part.Dispatch) error {
	return a.runs.Open(ctx, m, work.TaskOf(s, b), ce.Envelope{Source: "/inspan/work/" + s.ID},
		part.Origin{Work: &events.WorkRef{Work: s.ID, Epoch: b.Epoch}, Subject: s.Spec.Title, Review: work.ReviewOf(s, b)})
}

// settled ends the binding of an item whose run has ended. A run that is held keeps it: no one knows what it may still
// do.
func (a *Assigner) settled(ctx context.Context, s work.State) (work.State, error) {
	b := s.Binding
	if b == nil || !b.Dispatched || b.Run == "" || s.Step != nil {
		return s, nil
	}
	now := a.Now().UTC()
	of, err := a.runs.Fresh(ctx, b.Run)
	switch {
	case errors.Is(err, kernel.ErrHeld):
		return s, nil
	case err != nil:
		return s, err
	case of.Sequence == 0 || !of.Status.Ended():
		return s, nil
	case s.Delivers():
		return s, nil
	case of.Status == events.Completed && b.Started && b.Deliver != nil:
		return work.Deliver(s, b.Epoch, b.Run, seenOf(of), now), nil
	case of.Status == events.Completed && b.Started:
		return work.Complete(s, b.Epoch, b.Run, of.Result.FinishReason, now), nil
	case keeps(of, *b):
		return work.HandOff(s, b.Epoch, b.Run, of.Result.FinishReason, now), nil
	}
	reason := of.Result.FinishReason
	if of.Result.Error != "" {
		reason += ": " + of.Result.Error
	}
	return work.Free(s, b.Epoch, events.WorkFailed, reason, now), nil
}

// ended looks at an item whose run has ended.
func (a *Assigner) ended(ctx context.Context, of events.WorkRef, runID string) error {
	if a == nil {
		return nil
	}
	s, err := a.Ledger.Fresh(ctx, of.Work)
	if err != nil {
		return fmt.Errorf("work item %s: %w", of.Work, err)
	}
	if !s.Holds(of.Epoch, runID) && !s.OwesNotice() && len(s.Convoys) == 0 {
		// The end is recorded, or the item was never that run's.
		return a.Shown(ctx, of.Work)
	}
	return a.tend(ctx, of.Work, 1)
}

// confirm gives an item to a run that was just made, and ends the run where its binding has ended: between the two its
// planner may have been held up for longer than a binding lasts.
func (a *Assigner) confirm(ctx context.Context, runID string, of *events.WorkRef, as *events.AddressRef) error {
	if a == nil || of == nil {
		return nil
	}
	has := false
	_, err := a.Change(ctx, of.Work, func(s work.State) (work.State, error) {
		now, err := a.runs.Fresh(ctx, runID)
		if has = err != nil || now.Status.Ended(); has {
			return s, err // it lost the lock of its session
		}
		if as != nil {
			s, has = work.AcceptBy(s, of.Epoch, runID, *as, a.Now().UTC())
		} else {
			s, has = work.Accept(s, of.Epoch, runID, a.Now().UTC())
		}
		return s, nil
	})
	if err != nil || has {
		return err
	}
	_, err = a.runs.Write(ctx, runID, lifecycle.Unassigned)
	return err
}

// goOn gives the run of a binding its plan where whoever created it did not come to that: it follows from the item.
func (a *Assigner) goOn(ctx context.Context, s run.State) error {
	if a == nil || !part.Unplanned(s) || s.Created.Work == nil || s.Created.Address != nil {
		return nil
	}
	ref := s.Created.Work
	of, err := a.Ledger.Fresh(ctx, ref.Work)
	if err != nil {
		return fmt.Errorf("work item %s: %w", ref.Work, err)
	}
	if !of.Holds(ref.Epoch, s.HarnessID) {
		return a.confirm(ctx, s.HarnessID, ref, nil)
	}
	err = a.dispatch(ctx, of, *of.Binding,
		part.Dispatch{Station: a.names.Station, At: a.Now(), Tries: 1})
	if _, refused := errors.AsType[*kernel.Refusal](err); refused {
		return nil // the run is given up in its time
	}
	return err
}
