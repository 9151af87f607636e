package mailbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of an address: the fold of its log, and what was decided on it and is not stored yet. It is a value: no
// function changes what can be reached from it.
type State struct {
	events.Mailbox
	kernel.Folded
}

// Exists reports whether the address is registered.
func (s State) Exists() bool { return s.ID != "" }

// Holds reports whether a run is the agent in an epoch.
func (s State) Holds(epoch int, run string) bool {
	return s.Holder != nil && s.Holder.Epoch == epoch && s.Holder.Run == run
}

// Waits reports whether a message waits in the mailbox.
func (s State) Waits(id string) bool {
	return slices.ContainsFunc(s.Pending, func(p events.PendingMail) bool { return p.ID == id })
}

// Knows reports whether a message is, or was a short while ago, in the mailbox.
func (s State) Knows(id string) bool {
	return s.Waits(id) || slices.ContainsFunc(s.Claimed, func(c events.ClaimedMail) bool { return c.ID == id }) ||
		slices.ContainsFunc(s.Done, func(d events.DoneMail) bool { return d.ID == id })
}

// group reports whether what is sent to the address goes on to others.
func (s State) group() bool {
	return s.Form == events.ListAddress || s.Form == events.ChannelAddress || s.Form == events.EveryAddress ||
		s.Form == events.RoleAddress
}

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

// rules are the fold rules of addresses.
var rules = kernel.Rules[State]{kernel.On(registered), kernel.On(changed), kernel.On(woken), kernel.On(started),
	kernel.On(ended),
	kernel.On(sent), kernel.On(acked), kernel.On(claimed), kernel.On(returned), kernel.On(expired), kernel.On(ready),
	kernel.On(asked),
	kernel.On(handedOff), kernel.On(stopped), kernel.On(resumed), kernel.On(raised), kernel.On(seen), kernel.On(cleared),
	kernel.On(tiered),
	kernel.On(admitted), kernel.On(assigned), kernel.On(routed), kernel.On(alertSent), kernel.On(noticed)}

// apply carries out one event.
func (s State) apply(p events.Payload, at time.Time) (State, error) {
	if (s.ID == "") != (p.Kind() == events.AgentRegistered) {
		return s, fmt.Errorf("the first event of an address is %s, and no other is", events.AgentRegistered)
	}
	s, err := rules.Fold(s, p, at)
	s.UpdatedAt = at
	return s, err
}

func registered(s State, d *events.AgentRegisteredData, at time.Time) (State, error) {
	form, id, err := events.ParseAddress(d.Address)
	if err != nil {
		return s, err
	}
	s.Mailbox = events.Mailbox{ID: id, Address: d.Address, Form: form, Spec: d.Spec, Members: d.Spec.Members, By: d.By,
		CreatedAt: at}
	s.Spec.Members = nil
	return s.took(d.MailBy), nil
}

func changed(s State, d *events.AgentChangedData, _ time.Time) (State, error) {
	in := func(a string) bool { return slices.Contains(s.Members, a) }
	switch {
	case d.Quiet != nil:
		s.Quiet = *d.Quiet
	case d.Join != "" && !in(d.Join):
		s.Members = append(slices.Clip(slices.Clone(s.Members)), d.Join)
	case d.Leave != "" && in(d.Leave):
		s.Members = without(s.Members, slices.Index(s.Members, d.Leave))
	default:
		return s, fmt.Errorf("it changes nothing")
	}
	return s.took(d.MailBy), nil
}

func sent(s State, d *events.MailSentData, at time.Time) (State, error) {
	if s.Knows(d.Mail.ID) || d.Mail.ID == "" {
		return s, fmt.Errorf("mail %q came before", d.Mail.ID)
	}
	s.Pending = append(slices.Clone(s.Pending), events.PendingMail{Mail: d.Mail, Epoch: s.Epoch, Members: d.Members})
	s.Recent = append(slices.Clone(s.Recent), events.MailRate{From: d.Mail.From, At: at})
	s.Recent = slices.DeleteFunc(s.Recent, func(r events.MailRate) bool { return at.Sub(r.At) > time.Minute })
	s.Recent = s.Recent[max(0, len(s.Recent)-events.MaxMailRates):]
	return s.took(d.MailBy), nil
}

func woken(s State, d *events.AgentWokenData, at time.Time) (State, error) {
	if s.Form != events.AgentAddress || s.Holder != nil || d.Epoch != s.Epoch+1 || d.Run == "" || d.Mail != "" &&
		!s.Waits(d.Mail) ||
		s.Life.Stopped {
		return s, fmt.Errorf("epoch %d after %d, whose run is %+v, for mail %q", d.Epoch, s.Epoch, s.Holder, d.Mail)
	}
	if a := s.Life.Account; d.Account != 0 && (a == nil || a.Epoch != d.Account) || d.Account == 0 && d.Mail == "" &&
		d.Work == nil {
		return s, fmt.Errorf("epoch %d goes on with the account of epoch %d, the last one is %+v", d.Epoch, d.Account, a)
	}
	if d.Work != nil && (s.Life.Work == nil || *s.Life.Work != *d.Work) {
		return s, fmt.Errorf("epoch %d is to work on %+v, and the agent on %+v", d.Epoch, d.Work, s.Life.Work)
	}
	s.Epoch, s.Life.Role = d.Epoch, d.Role
	s.Holder = &events.MailHolder{Epoch: d.Epoch, Run: d.Run, Account: d.Account, Model: d.Model, Work: d.Work, Since: at,
		ExpiresAt: d.ExpiresAt}
	return s, nil
}

func started(s State, d *events.AgentStartedData, _ time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) || s.Holder.Started {
		return s, s.notHeld(d.Run)
	}
	h := *s.Holder
	h.Started = true
	s.Holder = &h
	return s, nil
}

func ended(s State, d *events.AgentEndedData, at time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) {
		return s, s.notHeld(d.Run)
	}
	switch {
	case d.Account != nil:
		account := *d.Account
		s.Life.Account = &account
	case d.Code == Completed && s.Holder.Account != 0:
		s.Life.Account = nil
	}
	s.NotBefore = d.NotBefore
	if s.Fails++; d.NotBefore.IsZero() {
		s.Fails = 0
	}
	return s.over(d.Code, at), nil
}

func (s State) notHeld(run string) error {
	return fmt.Errorf("run %s is not the agent, which is %+v", run, s.Holder)
}

func acked(s State, d *events.MailAckedData, at time.Time) (State, error) {
	if len(d.IDs) == 0 {
		return s, fmt.Errorf("it names no mail")
	}
	for _, id := range d.IDs {
		var err error
		if s, err = s.left(id, events.MailIsAcknowledged, d.Run, at); err != nil {
			return s, err
		}
	}
	if d.Owed {
		var err error
		if s, err = s.owes(d.IDs[0], d.Refused); err != nil {
			return s, err
		}
	}
	if h := s.Holder; h != nil && h.Run == d.Run {
		next := *h
		next.Taken += len(d.IDs)
		s.Holder = &next
	}
	return s.took(d.MailBy), nil
}

func claimed(s State, d *events.MailClaimedData, _ time.Time) (State, error) {
	i := slices.IndexFunc(s.Pending, func(p events.PendingMail) bool { return p.ID == d.ID })
	if i < 0 || s.Form != events.QueueAddress || d.Run == "" {
		return s, fmt.Errorf("mail %q does not wait in a queue", d.ID)
	}
	s.Claimed = append(slices.Clone(s.Claimed),
		events.ClaimedMail{PendingMail: s.Pending[i], By: d.Agent, Run: d.Run, Call: d.Call})
	s.Pending = without(s.Pending, i)
	return s, nil
}

// without is a list without one element; nil where none is left, so that a state that was written and read is the same.
func without[E any](all []E, i int) []E {
	if len(all) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(all), i, i+1)
}

func returned(s State, d *events.MailReturnedData, _ time.Time) (State, error) {
	for _, id := range d.IDs {
		i := slices.IndexFunc(s.Claimed, func(c events.ClaimedMail) bool { return c.ID == id && c.Run == d.Run })
		if i < 0 {
			return s, fmt.Errorf("run %s has not claimed mail %q", d.Run, id)
		}
		s.Pending = append([]events.PendingMail{s.Claimed[i].PendingMail}, s.Pending...)
		s.Claimed = without(s.Claimed, i)
	}
	return s, nil
}

func expired(s State, d *events.MailExpiredData, at time.Time) (State, error) {
	if s.Holder != nil {
		return s, fmt.Errorf("run %s may be given it now", s.Holder.Run)
	}
	for _, id := range d.IDs {
		if !s.Waits(id) {
			return s, fmt.Errorf("mail %q does not wait", id)
		}
		var err error
		if s, err = s.left(id, events.MailIsExpired, "", at); err != nil {
			return s, err
		}
	}
	return s, nil
}

// left is the state after a message has left the mailbox.
func (s State) left(id, state, run string, at time.Time) (State, error) {
	done := events.DoneMail{ID: id, State: state, Run: run, At: at}
	if i := slices.IndexFunc(s.Pending, func(p events.PendingMail) bool { return p.ID == id }); i >= 0 {
		done.From = s.Pending[i].From
		s.Pending = without(s.Pending, i)
	} else if i := slices.IndexFunc(s.Claimed, func(c events.ClaimedMail) bool {
		return c.ID == id && c.Run == run
	}); i >= 0 {
		done.From = s.Claimed[i].From
		s.Claimed = without(s.Claimed, i)
	} else {
		return s, fmt.Errorf("mail %q is not in the mailbox", id)
	}
	s.Done = append(slices.Clone(s.Done), done)
	s.Done = s.Done[max(0, len(s.Done)-events.MaxMailDone):]
	return s, nil
}

// took notes that a control was carried out.
func (s State) took(by events.MailBy) State {
	if by.Input == 0 {
		return s
	}
	s.Inputs = append(slices.Clone(s.Inputs), by.Input)
	s.Inputs = s.Inputs[max(0, len(s.Inputs)-events.MaxWorkInputs):]
	return s
}
