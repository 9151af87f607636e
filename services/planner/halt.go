package planner

import (
	"context"
	"errors"
	"time"

	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

// Halter is the part of a planner that records halts of the station and releases. It goes on while the station is
// halted.
type Halter struct {
	viewed[halt.State]
}

var _ kernel.Role[halt.State] = (*Halter)(nil)

// NewHalter takes the log of the halts and where its row is.
func NewHalter(l *halt.Ledger, rows kernel.KV) (*Halter, error) {
	if l == nil || rows == nil {
		return nil, errors.New("halts need a log and a place for their row")
	}
	return &Halter{viewed[halt.State]{halt.View(), l, rows}}, nil
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
	c.By = orUnknown(c.By)
	_, err = h.change(ctx, events.HaltID, func(s halt.State) (halt.State, error) {
		return halt.Steer(s, halt.Wish{HaltControl: c, Input: m.Seq()}, time.Now().UTC())
	})
	if no, ok := errors.AsType[*halt.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	return err
}

// stood is how long the station was halted between two times.
func (a Aggregates) stood(since, now time.Time) time.Duration {
	if a.Stood == nil {
		return 0
	}
	return a.Stood(since, now)
}

// stoodSince is the same for a time that may not have come yet.
func (a Aggregates) stoodSince(since *time.Time, now time.Time) time.Duration {
	if since == nil {
		return 0
	}
	return a.stood(*since, now)
}
