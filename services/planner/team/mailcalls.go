package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// mailCalls is the part that answers calls of mail tools.
type mailCalls struct{ *Postmaster }

// requested does what a call of a mail tool asks for, and answers it in the log of the run. The sender is the address
// of the run. What was done and not answered is done again with the same id, which changes nothing.
func (p mailCalls) requested(ctx context.Context, h runlog.ReceivedEvent) error {
	if p.Postmaster == nil {
		return nil
	}
	_, payload, err := events.Read(h.Stored)
	if err != nil {
		return fmt.Errorf("run %s: %w", h.Run, err)
	}
	d, ok := payload.(*events.MailRequestedData)
	if !ok {
		return fmt.Errorf("run %s: the payload of %s is a %T", h.Run, h.Kind, payload)
	}
	answer, err := p.carryOut(ctx, h.Run, h.State, d)
	if err != nil {
		return err
	}
	_, err = p.runs.Write(ctx, h.Run, func(s run.State, _ time.Time) ([]events.Payload, error) {
		if !unanswered(s, d.Call) {
			return nil, nil
		}
		return []events.Payload{&events.MailAnsweredData{Event: "mail_answered", ToolRef: d.ToolRef, MailAnswer: answer}}, nil
	})
	if err == nil && d.Request.Queue != "" {
		err = p.settleQueue(ctx, d.Request.Queue)
	}
	return err
}

// unanswered reports whether a call waits for a planner.
func unanswered(s run.State, call string) bool {
	c := s.Open[call]
	return c != nil && c.Phase == run.CallMailed && c.Answer == nil && !s.Status.Ended()
}

// carryOut does what a request asks for; a refusal is its answer.
func (p mailCalls) carryOut(ctx context.Context, runID string, s run.State,
	d *events.MailRequestedData) (a events.MailAnswer, err error) {
	owed := func() (bool, error) {
		now, err := p.runs.Fresh(ctx, runID)
		return unanswered(now, d.Call), err
	}
	if d.Tool == events.ToolDeliver {
		return p.handIn(ctx, runID, s, d, owed)
	}
	from := s.Created.Address.Address
	switch {
	case d.Request.Mail != nil:
		m := mailbox.MailOf(*d.Request.Mail, p.names.Message("message", runID, d.Call), from, d.Request.To, p.sentAt(s, d.Call))
		if err = p.deliver(ctx, m, d.Request.To, owed); err == nil {
			return events.MailAnswer{Success: true,
				Output: fmt.Sprintf("sent to %s as message %s, thread %s", m.To, m.ID, m.Thread)}, nil
		}
	case d.Request.Queue != "":
		var got *events.ClaimedMail
		if got, err = p.claim(ctx, d.Request.Queue, from, runID, d.Call, owed); err == nil {
			return events.MailAnswer{Success: true, Output: mailbox.Claimed(d.Request.Queue, got)}, nil
		}
	case d.Tool == events.ToolHandoff:
		a, err = p.handOff(ctx, runID, s, d, owed)
	case d.Tool == events.ToolWorkCurrent:
		a, err = p.current(ctx, s)
	case d.Tool == events.ToolMailRead:
		a, err = p.own(ctx, from)
	default:
		a, err = p.who(ctx, from)
	}
	if no, ok := errors.AsType[*mailbox.Refused](err); ok {
		return events.MailAnswer{Output: fmt.Sprintf("refused (%s): %s. %s", no.Code, no.Reason, no.Hint)}, nil
	}
	return a, err
}

// sentAt is when a call was recorded: the same each time that its message is delivered.
func (p mailCalls) sentAt(s run.State, call string) time.Time {
	if c := s.Open[call]; c != nil {
		return c.StartedAt.UTC()
	}
	return p.Now().UTC()
}

// claim gives the most urgent message of a queue to a call, once.
func (p mailCalls) claim(ctx context.Context, queue, address, runID, call string,
	owed func() (bool, error)) (got *events.ClaimedMail, err error) {
	_, id, err := events.ParseAddress(queue)
	if err != nil {
		return nil, &mailbox.Refused{Code: mailbox.Unknown, Reason: err.Error(), Hint: "the tool who lists the addresses"}
	}
	_, err = p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) {
		if got = nil; !s.Exists() {
			return s, directory{p.Postmaster}.unknown(ctx, queue)
		}
		if is, err := owed(); err != nil || !is {
			return s, err
		}
		s, got = mailbox.Claim(mailbox.Expire(s, p.Now().UTC()), address, runID, call, p.Now().UTC())
		return s, nil
	})
	return got, err
}

// settleQueue ends the claims of calls that were answered, and gives back those of runs that ended before.
func (p mailCalls) settleQueue(ctx context.Context, queue string) error {
	_, id, err := events.ParseAddress(queue)
	if err != nil {
		return err
	}
	_, err = p.Change(ctx, id, func(s mailbox.State) (mailbox.State, error) { return p.claims(ctx, s) })
	return err
}

// claims ends the claims of a queue that are over.
func (p *Postmaster) claims(ctx context.Context, s mailbox.State) (mailbox.State, error) {
	for _, c := range s.Claimed {
		of, err := p.runs.Fresh(ctx, c.Run)
		switch {
		case errors.Is(err, kernel.ErrHeld):
			continue
		case err != nil:
			return s, err
		case unanswered(of, c.Call):
			continue
		}
		s = mailbox.Settle(s, c.Run, c.Call, answered(of, c.Call), p.Now().UTC())
	}
	return s, nil
}

// answered reports whether a run was given what its call claimed.
func answered(s run.State, call string) bool {
	if c := s.Open[call]; c != nil {
		return c.Answer != nil && c.Answer.Success
	}
	for i := s.ToolCallHistory.Len() - 1; i >= 0; i-- {
		if r := s.ToolCallHistory.At(i); r.ID == call {
			return r.Success
		}
	}
	return false
}

// own lists what waits for an agent.
func (p mailCalls) own(ctx context.Context, address string) (events.MailAnswer, error) {
	_, id, err := events.ParseAddress(address)
	if err != nil {
		return events.MailAnswer{}, err
	}
	s, err := p.Ledger.Fresh(ctx, id)
	return events.MailAnswer{Success: true, Output: mailbox.Listed(s)}, err
}

// maxWho bounds how many addresses an agent is shown.
const maxWho = 200

// who lists the addresses.
func (p mailCalls) who(ctx context.Context, self string) (events.MailAnswer, error) {
	all, err := directory{p.Postmaster}.list(ctx, "")
	if err != nil {
		return events.MailAnswer{}, err
	}
	lines := []string{"You are " + self + "."}
	for _, a := range all[:min(len(all), maxWho)] {
		_, id, err := events.ParseAddress(a)
		if err != nil {
			return events.MailAnswer{}, err
		}
		s, err := p.Ledger.Fresh(ctx, id)
		if err != nil {
			return events.MailAnswer{}, fmt.Errorf("address %s: %w", a, err)
		}
		line := a
		switch {
		case s.Holder != nil:
			line += ": working"
		case s.Form == events.AgentAddress:
			line += ": idle"
		case slices.Contains(s.Members, self):
			line += ": you are a member"
		}
		if s.Quiet {
			line += ", not to be disturbed"
		}
		lines = append(lines, line)
	}
	if left := len(all) - maxWho; left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	return events.MailAnswer{Success: true, Output: strings.Join(lines, "\n")}, nil
}
