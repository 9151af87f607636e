// Package deputies is the part of the gatekeeper that records who answers gates in whose place, and knows it.
//
// Promises: only the person whose gates these are names a deputy. For whom an answer is given says the log, not
// the answer.
package deputies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/deputy"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

// Deputies is the part; without a ledger no one answers in another's place.
type Deputies struct{ Ledger *deputy.Ledger }

var _ kernel.Role[deputy.State] = Deputies{}

// Handler handles what is received of deputies.
func (d Deputies) Handler() kernel.Handler {
	return kernel.Handle(d.Ledger, kernel.Role[deputy.State](d))
}

// Service implements kernel.Role.
func (Deputies) Service() events.Service { return events.Gatekeeper }

// Event implements kernel.Role: nothing follows from a deputy until somebody answers.
func (Deputies) Event(context.Context, kernel.Received[deputy.State]) error { return nil }

// Due implements kernel.Role: there are no timers.
func (Deputies) Due(context.Context, kernel.Due[deputy.State]) error { return nil }

// Input implements kernel.Role: a control of a person, on a subject that names them alone.
func (d Deputies) Input(ctx context.Context, m kernel.Message) error {
	parts := strings.Split(m.Subject(), ".")
	if len(parts) != 5 || events.CheckID("name", parts[3]) != nil || parts[3] == events.Gateway {
		return kernel.Refuse("bad_subject", "publish on "+events.DeputySubject("STATION", "NAME"),
			"nothing is known of the subject %q", m.Subject())
	}
	var c events.DeputyControl
	_, err := ce.Read(m.Data(), m.Header, events.DeputyType, &c)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return kernel.Refuse("bad_input",
			`send {"action":"away","to":"NAME","until":"2026-12-01T08:00:00Z"} or {"action":"back"}`, "%v", err)
	}
	_, err = d.Ledger.Write(ctx, events.DeputyID, func(s deputy.State, now time.Time) ([]events.Payload, error) {
		next, err := deputy.Steer(s, deputy.Wish{DeputyControl: c, For: parts[3], Input: m.Seq()}, now.UTC())
		if err != nil {
			return nil, err
		}
		return next.Changes(), nil
	})
	if no, ok := errors.AsType[*deputy.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	return err
}

// InPlaceOf fills in for whom an answer is given, from the log: what its author says of that is a wish.
func (d Deputies) InPlaceOf(ctx context.Context, reply gate.Reply, name, runID string) (gate.Reply, error) {
	if name == "" {
		return reply, nil
	}
	refuse := func(code, reason, hint string) (gate.Reply, error) {
		return reply, &kernel.Refusal{Code: code, Run: runID, Reason: reason, Hint: hint}
	}
	switch {
	case d.Ledger == nil:
		return refuse("no_deputy", "this station knows no deputies", "answer in your own name")
	case reply.Key != "":
		return refuse("signed_deputy", "a signature does not say in whose place it is given",
			"answer in your own name, or without the signature")
	}
	s, err := d.Ledger.Fresh(ctx, events.DeputyID)
	if err != nil {
		return reply, fmt.Errorf("deputies: %w", err)
	}
	reply.Deputy = s.Of(name)
	if reply.Deputy.Number == 0 {
		return refuse("no_deputy", name+" has no deputy", "answer in your own name; inspan away lists who has one")
	}
	return reply, nil
}
