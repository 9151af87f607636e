package team

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// escalate sends an alert that no one looks at to its targets, each once for each severity, and records what became of
// it. A target that does not take it keeps it from no other.
func (p *Postmaster) escalate(ctx context.Context, s mailbox.State) error {
	if a := s.Life.Alert; a == nil || a.SeenBy != "" {
		return nil
	}
	all, err := p.Ledger.Fresh(ctx, events.Everyone)
	if err != nil {
		return fmt.Errorf("the routes of alerts: %w", err)
	}
	for _, to := range mailbox.AlertTargets(s, all.Life.Routes) {
		n, err := p.alert(ctx, s, to)
		if err != nil {
			return err
		}
		_, err = p.Change(ctx, s.ID, func(now mailbox.State) (mailbox.State, error) {
			return mailbox.AlertSent(now, *s.Life.Alert, n, p.Now().UTC()), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// alert puts an alert into the mailbox of a target, once. It is recorded where that does not take it.
func (p *Postmaster) alert(ctx context.Context, s mailbox.State, to string) (n events.AlertNotice, err error) {
	a := s.Life.Alert
	_, id, err := events.ParseAddress(to)
	if err != nil {
		return n, err
	}
	n = events.AlertNotice{To: to,
		Mail: p.names.Message("alert", s.ID, a.Epoch, a.Signal, a.Bumps)}
	box, err := p.Ledger.Fresh(ctx, id)
	if err != nil || box.Knows(n.Mail) {
		return n, err // it was sent; so two agents that name each other come to an end
	}
	err = p.deliver(ctx, mailbox.AlertMail(s, to, n.Mail, a.RaisedAt), to, func() (bool, error) { return true, nil })
	if no, refused := errors.AsType[*mailbox.Refused](err); refused {
		return events.AlertNotice{To: to, Code: no.Code}, nil
	}
	return n, err
}

// reachable refuses routes that name an address which is not registered.
func (p *Postmaster) reachable(ctx context.Context, r *events.AlertRoutes) error {
	if r == nil {
		return nil
	}
	var all []string
	for _, severity := range events.Severities() {
		all = append(all, r.Targets[severity]...)
	}
	return directory{p}.has(ctx, "", all...)
}
