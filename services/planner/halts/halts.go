// Package halts is the part of the planner that records halts of the station and releases.
//
// Promises: it goes on while the station is halted, and a halt or a release that is asked for twice is recorded once.
package halts

import (
	"context"
	"errors"
	"time"

	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/services/planner/part"
)

// Halter is the part.
type Halter struct {
	part.Viewed[halt.State]
	ledger *halt.Ledger
}

var _ kernel.Role[halt.State] = (*Halter)(nil)

// New takes the log of the halts and where its row is.
func New(l *halt.Ledger, rows kernel.KV) (*Halter, error) {
	if l == nil || rows == nil {
		return nil, errors.New("halts need a log and a place for their row")
	}
	return &Halter{part.NewViewed(halt.View(), l, rows), l}, nil
}

// Handler handles what is received of halts.
func (h *Halter) Handler() kernel.Handler { return kernel.Handle(h.ledger, kernel.Role[halt.State](h)) }

// Service implements kernel.Role.
func (*Halter) Service() events.Service { return events.Planner }

// Event implements kernel.Role. Nothing follows from a halt but what each service does by itself.
func (*Halter) Event(context.Context, kernel.Received[halt.State]) error { return nil }

// Due implements kernel.Role: there are no timers.
func (*Halter) Due(context.Context, kernel.Due[halt.State]) error { return nil }

// Input implements kernel.Role: a control of a user.
func (h *Halter) Input(ctx context.Context, m kernel.Message) error {
	var c events.HaltControl
	_, err := ce.Read(m.Data(), m.Header, events.HaltType, &c)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return kernel.Refuse("bad_input", `send {"action":"halt","reason":"TEXT"} or {"action":"release","number":N}`, "%v", err)
	}
	c.By = part.OrUnknown(c.By)
	_, err = h.Change(ctx, events.HaltID, func(s halt.State) (halt.State, error) {
		return halt.Steer(s, halt.Wish{HaltControl: c, Input: m.Seq()}, time.Now().UTC())
	})
	if no, ok := errors.AsType[*halt.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	return err
}
