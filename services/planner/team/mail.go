package team

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/planner/part"
)

// Mailboxes is where the planner has the addresses.
type Mailboxes struct {
	// Ledger writes their logs, Rows holds the view of each that others read, Timers wakes the planner for them.
	Ledger *mailbox.Ledger
	Rows   kernel.KV
	Timers kernel.Timers
	// Now is the clock that times are compared with; nil means time.Now.
	Now func() time.Time
}

// Postmaster is the part of the planner that puts mail into mailboxes and wakes agents. It owns none: all it does
// follows from the logs of addresses and runs, so whatever one planner leaves undone another one does.
type Postmaster struct {
	Mailboxes
	part.Viewed[mailbox.State]
	*shared
}

var _ kernel.Role[mailbox.State] = (*Postmaster)(nil)

// newPostmaster returns nil where the station has no mail.
func newPostmaster(t *shared, m *Mailboxes) (*Postmaster, error) {
	if m == nil {
		return nil, nil
	}
	p := &Postmaster{Mailboxes: *m, shared: t}
	if p.Ledger == nil || p.Rows == nil || p.Timers == nil || len(t.names.Key) == 0 {
		return nil, errors.New("planner needs the logs, the rows and the timers of addresses, and a key for the ids of their runs")
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	p.Viewed = part.NewViewed(mailbox.View(), p.Ledger, p.Rows)
	return p, nil
}

// mailTimer is the timer of an address: mail expires, or an agent is to be woken again.
const mailTimer = "wake.mail"

// Service implements kernel.Role.
func (*Postmaster) Service() events.Service { return events.Planner }

// Event implements kernel.Role. What follows from an event of an address is done by whoever appended it, before the
// message that led to it is acknowledged.
func (*Postmaster) Event(context.Context, kernel.Received[mailbox.State]) error { return nil }

// Due implements kernel.Role.
func (p *Postmaster) Due(ctx context.Context, d kernel.Due[mailbox.State]) error {
	return p.tend(ctx, d.ID, d.Deliveries)
}

// Input implements kernel.Role: a control of a user.
func (p *Postmaster) Input(ctx context.Context, m kernel.Message) error {
	sub, ok := events.ParseAggregateSubject(m.Subject())
	address, known := events.AddressOf(sub.ID)
	if !ok || !known || len(sub.Rest) != 1 || sub.Rest[0] != "control" {
		return kernel.Refuse("bad_subject",
			"publish on station.{station}.agent.{address}.control, with _ for each / of the address",
			"nothing is known of the subject %q", m.Subject())
	}
	var c events.MailControl
	_, err := ce.Read(m.Data(), m.Header, events.MailType, &c)
	if err == nil {
		err = c.Check()
	}
	form, _, _ := events.ParseAddress(address)
	if err == nil {
		err = mailbox.Check(form, c)
	}
	if err == nil && c.Spec != nil {
		err = schemas(*c.Spec)
	}
	if err == nil && c.Tier != nil {
		err = crew{p}.models(ctx, *c.Tier)
	}
	if err != nil {
		return kernel.Refuse("bad_input", `send {"action":"send","mail":{"body":"..."}}; docs/mail.md shows what there is`, "%v", err)
	}
	w := mailbox.Wish{MailControl: c, Address: address, Input: m.Seq()}
	if err := p.complete(ctx, &w, m); err != nil {
		return refused(err)
	}
	_, err = p.Change(ctx, sub.ID, func(s mailbox.State) (mailbox.State, error) {
		s, err := p.settled(ctx, s)
		if err == nil && w.Action == mailbox.Send {
			err = typed(s, w.Mail)
		}
		if err == nil && form == events.RoleAddress && !s.Took(w.Input) && !s.Knows(w.Mail.ID) {
			w.Members, err = crew{p}.chosen(ctx, s, address)
		}
		if err == nil {
			s, err = mailbox.Steer(mailbox.Expire(s, p.Now().UTC()), w, p.Now().UTC())
		}
		return s, err
	})
	if no, ok := errors.AsType[*mailbox.Refused](err); ok && no.Code == mailbox.Unknown {
		return refused(directory{p}.unknown(ctx, address))
	}
	if err != nil {
		return refused(err)
	}
	return p.tend(ctx, sub.ID, m.Deliveries())
}

// refused makes a refusal of the kernel of one of a mailbox.
func refused(err error) error {
	if no, ok := errors.AsType[*mailbox.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	return err
}

// complete adds to a wish what is not in its message: what it names must be there.
func (p *Postmaster) complete(ctx context.Context, w *mailbox.Wish, m kernel.Message) error {
	var members []string
	switch w.Action {
	case mailbox.Register:
		if err := (crew{p}).named(ctx, w); err != nil {
			return err
		}
		if members = w.Spec.Members; w.Spec.Escalate != "" {
			if err := (directory{p}).has(ctx, "", w.Spec.Escalate); err != nil {
				return err
			}
		}
	case mailbox.Routes:
		return p.reachable(ctx, w.Routes)
	case mailbox.Join:
		members = []string{w.Member}
	case mailbox.Send:
		id := w.MailControl.Mail.ID
		if strings.HasPrefix(id, events.MailPrefix) {
			return kernel.Refuse("bad_input", "give the message another id, or none",
				"the id %q begins with %s, as only those do that the station gives", id, events.MailPrefix)
		}
		if id == "" {
			id = events.MailPrefix + part.Token(fmt.Sprintf("mail|%s|%d|%d", p.names.Station, m.Seq(), m.Time().UnixNano()))
		}
		w.Mail = mailbox.MailOf(*w.MailControl.Mail, id, "@"+part.OrUnknown(w.By), w.Address, m.Time().UTC())
		if w.Address == events.Everyone {
			var err error
			w.Members, err = directory{p}.list(ctx, events.AgentAddress)
			return err
		}
	}
	return directory{p}.has(ctx, events.AgentAddress, members...)
}

// schemas returns what is wrong with the schemas of an address.
func schemas(s events.AddressSpec) error {
	for kind, schema := range s.Accepts {
		if _, err := tool.NewSchema(schema); err != nil {
			return fmt.Errorf("the schema of %s: %w", kind, err)
		}
	}
	return nil
}

// typed refuses a typed message whose data are not what its address takes.
func typed(s mailbox.State, m events.Mail) error {
	schema := s.Spec.Accepts[m.Kind]
	if m.Kind == "" || schema == nil {
		return nil
	}
	check, err := tool.NewSchema(schema)
	if err != nil {
		return fmt.Errorf("address %s: the schema of %s: %w", s.Address, m.Kind, err)
	}
	data := m.Data
	if len(data) == 0 {
		data = []byte("null")
	}
	if err := check.Check(data); err != nil {
		return &mailbox.Refused{Code: mailbox.BadKind,
			Reason: fmt.Sprintf("%s takes no such data of the kind %s: %v", s.Address, m.Kind, err),
			Hint:   "inspan mail who " + s.Address + " shows the schema"}
	}
	return nil
}

// deliver puts a message into a mailbox. It returns a *mailbox.Refused where that does not take it.
func (p *Postmaster) deliver(ctx context.Context, m events.Mail, to string, wanted func() (bool, error)) error {
	form, id, err := events.ParseAddress(to)
	if err != nil {
		return &mailbox.Refused{Code: mailbox.Unknown, Reason: err.Error(), Hint: "inspan mail who lists the addresses"}
	}
	var all []string
	if to == events.Everyone {
		if all, err = (directory{p}).list(ctx, events.AgentAddress); err != nil {
			return err
		}
	}
	_, err = p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) {
		if !s.Exists() && to != events.Everyone && form != events.RoleAddress {
			return s, directory{p}.unknown(ctx, to)
		}
		if is, err := wanted(); err != nil || !is || s.Knows(m.ID) {
			return s, err
		}
		if form == events.RoleAddress {
			if all, err = (crew{p}).chosen(ctx, s, to); err != nil {
				return s, err
			}
		}
		if err := typed(s, m); err != nil {
			return s, err
		}
		if !s.Exists() {
			s, err := mailbox.Steer(s, mailbox.Wish{MailControl: events.MailControl{Action: mailbox.Send}, Address: to, Mail: m,
				Members: all}, p.Now().UTC())
			return s, err
		}
		return mailbox.Deliver(s, m, all, events.MailBy{}, p.Now().UTC())
	})
	if err != nil {
		return err
	}
	return p.tend(ctx, id, 1)
}

// tend does all that is owed to an address: the end of its run is recorded, mail expires, what came to a group goes to
// its members, and an idle agent is woken. Each of these follows from logs, so that it is done once, however often and
// by however many planners it is tried.
func (p *Postmaster) tend(ctx context.Context, id string, deliveries uint64) error {
	s, err := p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) {
		s, err := holders{p.work}.atWork(ctx, s)
		if err == nil {
			s, err = p.settled(ctx, s)
		}
		if err == nil {
			s, err = p.wake(ctx, mailbox.Expire(s, p.Now().UTC()))
		}
		if err == nil {
			s, err = p.patrol(ctx, s)
		}
		return s, err
	})
	if err != nil {
		return err
	}
	if s.Form != events.AgentAddress && s.Form != events.QueueAddress {
		if err := (groups{p}).pass(ctx, s); err != nil {
			return err
		}
	} else if err := p.again(ctx, s); err != nil {
		return err
	}
	if err := p.escalate(ctx, s); err != nil {
		return err
	}
	h := s.Holder
	if h == nil {
		return nil
	}
	if over, err := p.relieve(ctx, s); err != nil || over {
		if err == nil {
			err = p.tend(ctx, id, deliveries)
		}
		return err
	}
	if err := p.interrupt(ctx, s); err != nil {
		return err
	}
	there, err := p.runs.Fresh(ctx, h.Run)
	if err != nil || there.Sequence > 0 && there.Status != events.Created {
		return err // it goes on by its own events
	}
	err = p.dispatch(ctx, s, *h, part.Dispatch{Station: p.names.Station, At: h.Since,
		Tries: deliveries})
	no, declined := errors.AsType[*kernel.Refusal](err)
	if !declined {
		return err
	}
	s, err = p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) {
		if there, err := p.runs.Fresh(ctx, h.Run); err != nil || there.Sequence > 0 {
			return s, err // another planner was faster
		}
		return mailbox.End(s, h.Run, no.Code, no.Reason, p.Now().UTC()), nil
	})
	if err == nil {
		err = p.again(ctx, s)
	}
	return err
}

// dispatch opens the run of an agent, or goes on with an opening that somebody did not finish.
func (p *Postmaster) dispatch(ctx context.Context, s mailbox.State, h events.MailHolder, m part.Dispatch) error {
	t, from := mailbox.TaskOf(s, h), part.Origin{Address: addressOf(s, h)}
	if h.Work != nil {
		var err error
		if t, err = (holders{p.work}).given(ctx, s, h, t, &from); err != nil {
			return err
		}
	}
	return p.runs.Open(ctx, m, t, ce.Envelope{Source: "/inspan/agent/" + s.ID}, from)
}

// settled records the end of the run of an agent, and what its turns were given. A run that is held stays the agent: no
// one knows what it may still do.
func (p *Postmaster) settled(ctx context.Context, s mailbox.State) (mailbox.State, error) {
	if s.Form == events.QueueAddress {
		return p.claims(ctx, s)
	}
	h := s.Holder
	if h == nil {
		return s, nil
	}
	now := p.Now().UTC()
	of, err := p.runs.Fresh(ctx, h.Run)
	switch {
	case errors.Is(err, kernel.ErrHeld):
		return s, nil
	case err != nil || of.Sequence == 0:
		return s, err
	}
	if of.Turns().Len() > 0 {
		s = mailbox.Answers(s, h.Run, now)
	}
	if s = mailbox.Shown(s, h.Run, shownMail(of), now); !of.Status.Ended() {
		return s, nil
	}
	return over(s, h.Run, of, now), nil
}

// shownMail are the messages that a turn of a run was given: one that ended after they came. Once the run has ended
// they are also those of a step that took any turn, since the history of the session has them. What no turn was given
// waits for the next run.
func shownMail(s run.State) (ids []string) {
	for _, m := range s.Messages {
		if len(m.Mail) == 0 {
			continue
		}
		for _, t := range run.Backward(s.Turns()) {
			if t.Step == m.Step && (t.Number > m.After || s.Status.Ended()) {
				ids = append(ids, m.Mail...)
				break
			}
			if t.Step == m.Step {
				break
			}
		}
	}
	return ids
}

// ended looks at an address whose run has ended, also where that is recorded: whoever recorded it may have died before
// the agent was woken again, or before its next run existed.
func (p *Postmaster) ended(ctx context.Context, of events.AddressRef) error {
	if p == nil {
		return nil
	}
	_, id, err := events.ParseAddress(of.Address)
	if err != nil {
		return err
	}
	if err := p.tend(ctx, id, 1); err != nil {
		return err
	}
	s, err := p.Ledger.Fresh(ctx, id)
	if err != nil {
		return fmt.Errorf("address %s: %w", of.Address, err)
	}
	return crew{p}.release(ctx, s)
}

// confirm makes a run that was just created the agent, and ends it where that is another run by now: between the two
// its planner may have been held up.
func (p *Postmaster) confirm(ctx context.Context, runID string, of *events.AddressRef) error {
	if p == nil || of == nil {
		return nil
	}
	_, id, err := events.ParseAddress(of.Address)
	if err != nil {
		return err
	}
	is := false
	_, err = p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) {
		now, err := p.runs.Fresh(ctx, runID)
		if is = err != nil || now.Status.Ended(); is {
			return s, err // it lost the lock of its session
		}
		s, is = mailbox.Accept(s, of.Epoch, runID, p.Now().UTC())
		return s, nil
	})
	if err != nil || is {
		return err
	}
	_, err = p.runs.Write(ctx, runID, lifecycle.Replaced)
	return err
}
