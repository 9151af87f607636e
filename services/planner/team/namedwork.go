package team

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// holders is the part of the assigner that binds items to named agents. The log of an item says who holds it. That of
// the agent only says for which item it is to be woken, and is asked again each time: it never disagrees for long,
// and where it does the item is right.
type holders struct{ *Assigner }

// resolve completes a dispatch to an address with the definition of the agent, or of the agents of the role, that it
// goes to.
func (a holders) resolve(ctx context.Context, d events.WorkDispatch) (*events.WorkDispatch, error) {
	if d.Address == "" {
		return &d, nil
	}
	post := a.mail
	if post == nil {
		return &d, kernel.Refuse(mailbox.Unknown, "give the item to a definition: inspan agents",
			"this station has no named agents")
	}
	form, id, err := events.ParseAddress(d.Address)
	if err != nil {
		return &d, kernel.Refuse("bad_input", "inspan colony lists the agents", "%v", err)
	}
	if form == events.RoleAddress {
		r, err := crew{post}.of(ctx, d.Address)
		if err != nil {
			return &d, refused(err)
		}
		d.Agent = r.Agent
		return &d, nil
	}
	s, err := post.Ledger.Fresh(ctx, id)
	switch {
	case err != nil:
		return &d, err
	case !s.Exists():
		return &d, refused(directory{post}.unknown(ctx, d.Address))
	case s.Life.Stopped:
		return &d, kernel.Refuse(work.BadMove, "inspan agents start "+s.Address, "%s is stopped", s.Address)
	}
	d.Agent = s.Spec.Agent
	return &d, nil
}

// offer has the agent that holds an item woken for it, once it is idle. An agent that has another item does not get
// this one: the item is free again.
func (a holders) offer(ctx context.Context, s work.State, b events.WorkBinding) error {
	post := a.mail
	_, id, err := events.ParseAddress(b.Address)
	if err != nil || post == nil {
		return errors.Join(err, kernel.Refuse(mailbox.Unknown, "give the item to a definition",
			"this station has no named agents"))
	}
	if b.Started {
		there, err := a.runs.Fresh(ctx, b.Run)
		if err != nil || there.Status != events.Created {
			return err // it goes on by its own events
		}
	}
	ref := events.WorkRef{Work: s.ID, Epoch: b.Epoch}
	_, err = post.Change(ctx, id, func(of mailbox.State) (mailbox.State, error) {
		if item, err := a.of(ctx, ref); err != nil || !item.HeldBy(b.Address, ref.Epoch) {
			return of, err // it was freed meanwhile
		}
		var failed error
		holds := func(other events.WorkRef) bool {
			item, err := a.of(ctx, other)
			failed = errors.Join(failed, err)
			return item.HeldBy(b.Address, other.Epoch) || item.Awaits(other.Epoch)
		}
		next, err := mailbox.Assign(of, ref, holds, a.Now().UTC())
		if failed != nil {
			return of, failed
		}
		return next, err
	})
	if no, is := errors.AsType[*mailbox.Refused](err); is {
		_, err = a.Change(ctx, s.ID, func(s work.State) (work.State, error) {
			if s.Binding != nil && s.Binding.AgentEpoch > 0 {
				return s, nil // a run of it had the item
			}
			return work.Free(s, b.Epoch, no.Code, no.Reason, a.Now().UTC()), nil
		})
		return err
	}
	if err != nil || !b.Dispatched {
		return err
	}
	return post.tend(ctx, id, 1)
}

// of is the work item of a binding.
func (a holders) of(ctx context.Context, ref events.WorkRef) (work.State, error) {
	s, err := a.Ledger.Fresh(ctx, ref.Work)
	if err != nil {
		return s, fmt.Errorf("work item %s: %w", ref.Work, err)
	}
	return s, nil
}

// keeps reports whether the named agent that holds an item keeps it after a run of it that did not complete: its next
// run goes on. A run that a person stopped gives the item back.
func keeps(of run.State, b events.WorkBinding) bool {
	return b.Address != "" && (of.Result.FinishReason != events.FinishStopped || of.Result.By == b.Address)
}

// atWork brings what the log of an agent says of its item in line with that of the item, whose run may have ended. An
// agent that is reserved stays so until the item has its next binding, or is closed.
func (a holders) atWork(ctx context.Context, s mailbox.State) (mailbox.State, error) {
	of := s.Life.Work
	if of == nil || a.Assigner == nil {
		return s, nil
	}
	item, err := a.Change(ctx, of.Work, func(item work.State) (work.State, error) {
		item, err := a.settled(ctx, item)
		return work.Expire(item, a.Now().UTC()), err
	})
	if err != nil || item.HeldBy(s.Address, of.Epoch) || item.Awaits(of.Epoch) {
		return s, err
	}
	return mailbox.Unassign(s, *of, a.Now().UTC()), nil
}

// startable is the binding that an idle agent is to be woken for; nil for none.
func (a holders) startable(ctx context.Context, s mailbox.State) (*events.WorkRef, error) {
	of := s.Life.Work
	if of == nil || a.Assigner == nil || s.Holder != nil {
		return nil, nil
	}
	item, err := a.Ledger.Fresh(ctx, of.Work)
	if err != nil {
		return nil, fmt.Errorf("work item %s: %w", of.Work, err)
	}
	if !item.Startable(s.Address, of.Epoch) {
		return nil, nil
	}
	ref := *of
	return &ref, nil
}

// given is the task of the run of an agent that is woken with a work item, which must be its item still.
func (a holders) given(ctx context.Context, s mailbox.State, h events.MailHolder, t events.Task,
	from *part.Origin) (events.Task, error) {
	if a.Assigner == nil {
		return t, kernel.Refuse(work.Unknown, "start the station with its work items", "this station has no work items")
	}
	item, err := a.Ledger.Fresh(ctx, h.Work.Work)
	if err != nil {
		return t, fmt.Errorf("work item %s: %w", h.Work.Work, err)
	}
	if !item.Startable(s.Address, h.Work.Epoch) {
		if err := a.confirm(ctx, h.Run, h.Work, from.Address); err != nil {
			return t, err
		}
		return t, kernel.Refuse(events.WorkUnassigned, "nothing was changed", "work item %s is not that of %s any more",
			h.Work.Work, s.Address)
	}
	from.Work, from.Subject, from.Review = h.Work, item.Spec.Title, work.ReviewOf(item, *item.Binding)
	return work.Given(t, item, *item.Binding), nil
}

// itemOf is the work item that a run holds now; empty for none.
func (a holders) itemOf(ctx context.Context, s run.State) (string, error) {
	of := s.Created.Work
	if of == nil || a.Assigner == nil {
		return s.Created.WorkID, nil
	}
	item, err := a.Ledger.Fresh(ctx, of.Work)
	if err != nil {
		return "", fmt.Errorf("work item %s: %w", of.Work, err)
	}
	if !item.Holds(of.Epoch, s.HarnessID) {
		return "", nil
	}
	return of.Work, nil
}
