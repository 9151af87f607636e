package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/patrol"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// over records the end of the run of an agent: it made way for the next one, or the agent is idle. A run that was asked
// to make way and failed before it did has left its account all the same.
func over(s mailbox.State, runID string, of run.State, now time.Time) mailbox.State {
	account := patrol.AccountOf(of)
	if of.Status != events.Completed && s.Life.Asked != nil {
		return mailbox.HandOff(s, runID, account, now)
	}
	code, reason := mailbox.Failed, of.Result.FinishReason
	if of.Status == events.Completed {
		code = mailbox.Completed
	}
	if of.Result.Error != "" {
		reason += ": " + of.Result.Error
	}
	return mailbox.EndWith(s, runID, code, reason, account, now)
}

// again sets the timer of an address: something is due at a time, or the supervision looks again. An idle agent has
// none.
func (p *Postmaster) again(ctx context.Context, s mailbox.State) error {
	at, ok := mailbox.WakeAt(s)
	if look, is := mailbox.PatrolAt(s, p.Now().UTC()); is && (!ok || look.Before(at)) {
		at, ok = look, true
	}
	left, ended, err := idlers{p}.left(ctx, s)
	if err != nil {
		return err
	}
	look := ended.Add(patrol.DirtyAfter)
	if left != nil && left.Paths > 0 && s.Life.Alert == nil && p.Now().Before(look) && (!ok || look.Before(at)) {
		at, ok = look, true
	}
	work, err := holders{p.work}.startable(ctx, s)
	if err != nil {
		return err
	}
	if now := p.Now().UTC(); s.Holder == nil &&
		mailbox.WakeIn(s, now, p.names.Wake, mailbox.Waking{Work: work}).Holder != nil {
		at, ok = now.Add(quotaLook), true // it waits for its role, or whoever admitted it died
	}
	if !ok {
		return nil
	}
	if err := p.Timers.Set(ctx, s.ID, mailTimer, at, s.Sequence); err != nil {
		return fmt.Errorf("address %s: %w", s.Address, err)
	}
	return nil
}

// patrol looks at the run of an agent, and records what there is to see.
func (p *Postmaster) patrol(ctx context.Context, s mailbox.State) (mailbox.State, error) {
	var found mailbox.Finding
	if s.Holder == nil {
		left, ended, err := idlers{p}.left(ctx, s)
		if err != nil {
			return s, err
		}
		found = mailbox.Finding(patrol.LookIdle(left, ended, p.Now().UTC()))
	}
	if h := s.Holder; h != nil && h.Started {
		of, err := p.runs.Fresh(ctx, h.Run)
		switch {
		case errors.Is(err, kernel.ErrHeld):
			found = mailbox.Finding{Signal: "held", Severity: events.SeverityHigh, Since: h.Since,
				Text: "the log of run " + h.Run + " is damaged; inspan audit " + h.Run}
		case err != nil:
			return s, err
		default:
			found = mailbox.Finding(patrol.Look(of, p.Now().UTC(), s.Health()))
		}
	}
	return mailbox.Judge(s, found, p.Now().UTC()), nil
}

// interrupt ends the answer that the run of an agent is being given, where mail waits that may do so. The row of the
// address shows that mail before: an executor which is told so, or which begins a turn, finds it there.
func (p *Postmaster) interrupt(ctx context.Context, s mailbox.State) error {
	for _, m := range s.Interrupting(p.Now().UTC()) {
		_, err := p.runs.Write(ctx, s.Holder.Run, func(of run.State, _ time.Time) ([]events.Payload, error) {
			return lifecycle.Mailed(of, m.ID, m.From), nil
		})
		if errors.Is(err, kernel.ErrHeld) {
			return nil // the mail waits
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relieve ends the run of an agent that was stopped, or that is to make way. over is true once the run has ended.
func (p *Postmaster) relieve(ctx context.Context, s mailbox.State) (over bool, err error) {
	h, asked := s.Holder, s.Life.Asked
	if !s.Life.Stopped && asked == nil {
		return false, nil
	}
	of, err := p.runs.Fresh(ctx, h.Run)
	if errors.Is(err, kernel.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if of.Sequence == 0 { // it was woken, and does not exist: it must not begin
		_, err := p.Change(ctx, s.ID, func(now mailbox.State) (mailbox.State, error) {
			if of, err := p.runs.Fresh(ctx, h.Run); err != nil || of.Sequence > 0 || !now.Life.Stopped {
				return now, err
			}
			return mailbox.End(now, h.Run, mailbox.Stopped, "the agent was stopped before its run began", p.Now().UTC()), nil
		})
		return true, err
	}
	w, err := p.runs.Change(ctx, h.Run, func(of run.State, now time.Time) ([]events.Payload, error) {
		if asked != nil {
			return lifecycle.MakeWay(of, now, asked.Order, asked.By)
		}
		if of.Status.Ended() {
			return nil, nil
		}
		return lifecycle.Stop(of, now, lifecycle.Wish{By: s.Address, Reason: "the agent was stopped"})
	})
	return w.State.Status.Ended(), err
}

// acknowledge records in the mailbox of an agent what a turn of its run was given, and that it answers. deliveries is
// how often the event was delivered that says so.
func (p *Postmaster) acknowledge(ctx context.Context, s run.State, deliveries uint64) error {
	if p == nil || s.Created == nil || s.Created.Address == nil || s.Status.Ended() {
		return nil
	}
	ids, answers := shownMail(s), s.Turns().Len() > 0
	if len(ids) == 0 && !answers {
		return nil
	}
	_, id, err := events.ParseAddress(s.Created.Address.Address)
	if err != nil {
		return err
	}
	now, err := p.Ledger.Fresh(ctx, id)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(ids, now.Waits) &&
		(now.Holder == nil || now.Holder.Run != s.HarnessID || now.Holder.Ready):
		if deliveries > 1 {
			return p.Shown(ctx, id)
		}
		return nil
	}
	_, err = p.Change(ctx, id, func(now mailbox.State) (mailbox.State, error) {
		if answers {
			now = mailbox.Answers(now, s.HarnessID, p.Now().UTC())
		}
		return mailbox.Shown(now, s.HarnessID, ids, p.Now().UTC()), nil
	})
	return err
}

// handOff records that the run of a call makes way for the next one, and ends it: the call gets no answer.
func (p mailCalls) handOff(ctx context.Context, runID string, s run.State, d *events.MailRequestedData,
	owed func() (bool, error)) (events.MailAnswer, error) {
	of := s.Created.Address
	_, id, err := events.ParseAddress(of.Address)
	if err != nil {
		return events.MailAnswer{}, err
	}
	_, err = p.Change(ctx, id, func(now mailbox.State) (mailbox.State, error) {
		if is, err := owed(); err != nil || !is {
			return now, err
		}
		return mailbox.Ask(now, of.Epoch, &events.AgentAskedData{Order: mailbox.Handoff, Run: runID, Call: d.Call,
			Summary: d.Request.Summary}, p.Now().UTC())
	})
	if err != nil {
		return events.MailAnswer{}, err
	}
	return events.MailAnswer{Success: true,
		Output: "the next run goes on with the work once this one has ended"}, p.tend(ctx, id, 1)
}

// current says what an agent works on.
func (p mailCalls) current(ctx context.Context, s run.State) (events.MailAnswer, error) {
	of := s.Created.Address
	_, id, err := events.ParseAddress(of.Address)
	if err != nil {
		return events.MailAnswer{}, err
	}
	now, err := p.Ledger.Fresh(ctx, id)
	if err != nil {
		return events.MailAnswer{}, fmt.Errorf("address %s: %w", of.Address, err)
	}
	lines := []string{fmt.Sprintf("You are %s, epoch %d, run %s.", of.Address, of.Epoch, s.HarnessID)}
	a := patrol.AccountOf(s)
	if a.Work, err = (holders{p.work}).itemOf(ctx, s); err != nil {
		return events.MailAnswer{}, err
	}
	if before := now.Life.Account; before != nil && now.Holder != nil && now.Holder.Account == before.Epoch &&
		a.Work == "" {
		a.Work = before.Work
	}
	for _, line := range [][2]string{{"Work item: ", a.Work}, {"Branch: ", a.Branch}, {"Plan:\n", strings.Join(a.Plan,
		"\n")}} {
		if line[1] != "" {
			lines = append(lines, line[0]+line[1])
		}
	}
	lines = append(lines, mailbox.Listed(now)+".")
	return events.MailAnswer{Success: true, Output: strings.Join(lines, "\n")}, nil
}

// models returns what is wrong with the models and the definitions of a tier.
func (p crew) models(ctx context.Context, t events.AgentTier) error {
	for role, model := range t.Models {
		err := agentfile.CheckModel(model)
		if name, is := strings.CutPrefix(model, events.TierAgent); is {
			_, err = p.runs.Agent(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("role %s: %w", role, err)
		}
	}
	return nil
}

// goOn gives the run of an agent its plan where whoever created it did not come to that: it follows from the address.
func (p *Postmaster) goOn(ctx context.Context, s run.State) error {
	if p == nil || !part.Unplanned(s) || s.Created.Address == nil {
		return nil
	}
	ref := s.Created.Address
	_, id, err := events.ParseAddress(ref.Address)
	if err != nil {
		return err
	}
	of, err := p.Ledger.Fresh(ctx, id)
	if err != nil {
		return fmt.Errorf("address %s: %w", ref.Address, err)
	}
	if !of.Holds(ref.Epoch, s.HarnessID) {
		return p.confirm(ctx, s.HarnessID, ref)
	}
	err = p.dispatch(ctx, of, *of.Holder,
		part.Dispatch{Station: p.names.Station, At: p.Now(), Tries: 1})
	if _, declined := errors.AsType[*kernel.Refusal](err); declined {
		return nil // the run is given up in its time
	}
	return err
}
