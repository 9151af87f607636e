package team

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// groups is the part that passes on what comes to a list, a channel, a role or all.
type groups struct{ *Postmaster }

// pass gives to the members of a group what came to it. A member that does not take a message does not keep it from
// others.
func (p groups) pass(ctx context.Context, s mailbox.State) error {
	if err := p.notify(ctx, s); err != nil {
		return err // whoever passed a message on may have died before its sender had the notice
	}
	for _, m := range s.Pending {
		var refusals []events.MailRefusal
		for _, to := range m.Members {
			err := p.give(ctx, s, m, to)
			if no, ok := errors.AsType[*mailbox.Refused](err); ok {
				refusals = append(refusals, events.MailRefusal{To: to, Code: no.Code})
			} else if err != nil {
				return err
			}
		}
		now, err := p.Change(ctx, s.ID, func(s mailbox.State) (mailbox.State, error) {
			return mailbox.Passed(s, m.ID, refusals, p.Now().UTC()), nil
		})
		if err == nil {
			err = p.notify(ctx, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// give puts a message of a group into the mailbox of one of its members.
func (p groups) give(ctx context.Context, s mailbox.State, m events.PendingMail, to string) error {
	if s.Form == events.RoleAddress {
		if err := (crew{p.Postmaster}).enroll(ctx, s.Address, to); err != nil {
			return err
		}
	}
	return p.deliver(ctx, m.Mail, to, func() (bool, error) {
		now, err := p.Ledger.Fresh(ctx, s.ID)
		return now.Waits(m.ID), err
	})
}

// notify gives each agent whose message a member of a group refused a notice of that, once, and records it. A mailbox
// that does not take the notice is recorded, too.
func (p groups) notify(ctx context.Context, s mailbox.State) error {
	for _, of := range mailbox.OwedNotices(s) {
		mail, code := p.names.Message("refused", s.ID, of.ID), ""
		err := p.deliver(ctx, mailbox.NoticeMail(s, of, mail), of.From, func() (bool, error) {
			now, err := p.Ledger.Fresh(ctx, s.ID)
			return mailbox.OwesNotice(now, of.ID), err
		})
		if no, refused := errors.AsType[*mailbox.Refused](err); refused {
			mail, code = "", no.Code
		} else if err != nil {
			return fmt.Errorf("notice to %s: %w", of.From, err)
		}
		_, err = p.Change(ctx, s.ID, func(s mailbox.State) (mailbox.State, error) {
			return mailbox.Noticed(s, of.ID, mail, code, p.Now().UTC()), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
