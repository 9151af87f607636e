package team

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/part"
)

// steer carries out a control of an item. An item that is assigned to a role has an agent of it reserved first: one
// append in the log of that agent, stored only where the agent is still free, so that no two items get the same one.
func (a *Assigner) steer(ctx context.Context, w work.Wish) error {
	for range part.MaxSwaps {
		w, epoch, err := holders{a}.reserved(ctx, w)
		if err != nil {
			return err
		}
		_, err = a.Change(ctx, w.Work, func(s work.State) (work.State, error) {
			s, err := a.settled(ctx, s)
			if err != nil || epoch != 0 && !s.Took(w.Input) && s.Epoch+1 != epoch {
				return s, errors.Join(err, part.ErrMoved)
			}
			return work.Steer(work.Expire(s, a.Now().UTC()), w, a.Now().UTC(), a.names.Binding)
		})
		if !errors.Is(err, part.ErrMoved) {
			return err
		}
	}
	return &kernel.RetryAfter{After: part.Again}
}

// reserved is a wish with the agent that was reserved for it in place of a role, and the epoch of the binding that it
// is for; 0 where there is nothing to reserve. Nothing is reserved for a wish that is refused, or that was carried
// out.
func (a holders) reserved(ctx context.Context, w work.Wish) (work.Wish, int, error) {
	if w.Dispatch == nil {
		return w, 0, nil
	}
	form, id, err := events.ParseAddress(w.Dispatch.Address)
	if err != nil || form != events.RoleAddress {
		return w, 0, nil // a definition, or one agent
	}
	s, err := a.Change(ctx, w.Work, func(s work.State) (work.State, error) {
		s, err := a.settled(ctx, s)
		return work.Expire(s, a.Now().UTC()), err
	})
	if err != nil || s.Took(w.Input) {
		return w, 0, err
	}
	if _, err := work.Steer(s, w, a.Now().UTC(), a.names.Binding); err != nil {
		return w, 0, err
	}
	post, ref := crew{a.mail}, events.WorkRef{Work: w.Work, Epoch: s.Epoch + 1}
	of, err := post.Ledger.Fresh(ctx, id)
	if err != nil {
		return w, 0, fmt.Errorf("role %s: %w", w.Dispatch.Address, err)
	}
	agent, err := a.reservedFor(ctx, ref, w.Dispatch.Address)
	if err == nil && agent == "" {
		agent, err = post.choose(ctx, of, w.Dispatch.Address, func(agent string) (bool, error) {
			return a.reserve(ctx, ref, *w.Dispatch, agent)
		})
	}
	d := *w.Dispatch
	d.Address, w.Dispatch = agent, &d
	return w, ref.Epoch, refused(err)
}

// reserve has an agent of a role wait for a binding. is is false where somebody else was faster.
func (a holders) reserve(ctx context.Context, ref events.WorkRef, d events.WorkDispatch, agent string) (is bool,
	err error) {
	post := crew{a.mail}
	if err := post.enroll(ctx, d.Address, agent); err != nil {
		return false, err
	}
	_, id, err := events.ParseAddress(agent)
	if err != nil {
		return false, err
	}
	_, err = post.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) {
		s, err := a.atWork(ctx, s)
		if err == nil {
			s, is = mailbox.Reserve(s, d.Agent, ref, post.Now().UTC())
		}
		return s, err
	})
	return is, err
}

// reservedFor is the agent of a role that waits for a binding: whoever reserved it died. It is empty for none.
func (a holders) reservedFor(ctx context.Context, ref events.WorkRef, role string) (string, error) {
	all, err := a.waitFor(ctx, ref.Work, role)
	for _, s := range all {
		if *s.Life.Work == ref {
			return s.Address, err
		}
	}
	return "", err
}

// waitFor are the agents of a role that were last given an item, or reserved for it.
func (a holders) waitFor(ctx context.Context, item, role string) (all []mailbox.State, err error) {
	project, name, ok := events.RoleIn(role)
	if !ok || a.mail == nil {
		return nil, nil
	}
	post := a.mail
	registered, err := directory{post}.list(ctx, events.AgentAddress)
	if err != nil {
		return nil, err
	}
	for _, agent := range registered {
		if !strings.HasPrefix(agent, project+"/"+name+"/") {
			continue
		}
		_, id, err := events.ParseAddress(agent)
		if err != nil {
			return nil, err
		}
		s, err := post.Ledger.Fresh(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", agent, err)
		}
		if s.Life.Work != nil && s.Life.Work.Work == item {
			all = append(all, s)
		}
	}
	return all, nil
}

// catchUp has rows show their logs before a control of an item is handled again: that of the item, and those of the
// agents that the former delivery may have registered or reserved. A control that is refused now comes to none of them.
func (a holders) catchUp(ctx context.Context, c events.WorkControl, item string) error {
	if err := a.Shown(ctx, item); err != nil || c.Dispatch == nil || a.mail == nil {
		return err
	}
	form, id, err := events.ParseAddress(c.Dispatch.Address)
	switch {
	case err == nil && form == events.AgentAddress:
		return a.mail.Shown(ctx, id)
	case err == nil && form == events.RoleAddress:
		return crew{a.mail}.shownOf(ctx, id, c.Dispatch.Address)
	}
	return nil // a definition, or what is refused
}

// release frees the agents of a role that are reserved for an item, which is not given to them: it was refused, or
// given to another agent, after the planner that reserved them died.
func (a holders) release(ctx context.Context, item, role string) error {
	all, err := a.waitFor(ctx, item, role)
	for _, of := range all {
		_, err := a.mail.Change(ctx, of.ID, func(s mailbox.State) (mailbox.State, error) {
			s, err := a.atWork(ctx, s) // the item may be another's, or closed
			if err != nil || s.Life.Work == nil {
				return s, err
			}
			now, err := a.of(ctx, *of.Life.Work)
			if err == nil && now.Awaits(of.Life.Work.Epoch) {
				s = mailbox.Unassign(s, *of.Life.Work, a.Now().UTC())
			}
			return s, err
		})
		if err != nil {
			return err
		}
	}
	return err
}
