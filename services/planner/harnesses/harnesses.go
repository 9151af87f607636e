// Package harnesses is the part of the planner that records what programs do that were written with pkg/harness.
//
// Promises: what a program records is judged by the log of its harness and stored once, however often it asks.
package harnesses

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/harness"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/services/planner/part"
)

// Config is where the part has the harnesses: Ledger writes their logs, Rows holds the view of each.
type Config struct {
	Ledger *harness.Ledger
	Rows   kernel.KV
}

// Recorder is the part. A program is an outsider: what it asks for is judged here, by the log of its harness, and
// recorded once.
type Recorder struct {
	Config
	part.Viewed[harness.State]
}

var _ kernel.Role[harness.State] = (*Recorder)(nil)

// New checks the configuration.
func New(cfg Config) (*Recorder, error) {
	if cfg.Ledger == nil || cfg.Rows == nil {
		return nil, errors.New("planner needs the logs and the rows of harnesses")
	}
	return &Recorder{cfg, part.NewViewed(harness.View(), cfg.Ledger, cfg.Rows)}, nil
}

// Handler handles what is received of harnesses.
func (r *Recorder) Handler() kernel.Handler {
	return kernel.Handle(r.Ledger, kernel.Role[harness.State](r))
}

// Service implements kernel.Role.
func (*Recorder) Service() events.Service { return events.Planner }

// Event implements kernel.Role: nothing follows from an event of a harness but what its program does.
func (*Recorder) Event(context.Context, kernel.Received[harness.State]) error { return nil }

// Due implements kernel.Role: a harness has no timers.
func (*Recorder) Due(context.Context, kernel.Due[harness.State]) error { return nil }

// Input implements kernel.Role: a program asks to record something.
func (r *Recorder) Input(ctx context.Context, m kernel.Message) error {
	sub, ok := events.ParseAggregateSubject(m.Subject())
	if !ok || len(sub.Rest) != 1 || sub.Rest[0] != "control" {
		return kernel.Refuse("bad_subject", "publish on station.{station}.harness.{harness}.control",
			"nothing is known of the subject %q", m.Subject())
	}
	var c events.HarnessControl
	_, err := ce.Read(m.Data(), m.Header, events.HarnessType, &c)
	if err == nil {
		err = harness.Check(c)
	}
	if err != nil {
		return kernel.Refuse("bad_input", "docs/harness-sdk.md says what a harness may record", "%v", err)
	}
	w, err := r.Ledger.Write(ctx, sub.ID, func(s harness.State, now time.Time) ([]events.Payload, error) {
		return harness.Decide(s, sub.ID, c, now)
	})
	if no, ok := errors.AsType[*harness.Refused](err); ok {
		return &kernel.Refusal{Code: no.Code, Reason: no.Reason, Hint: no.Hint}
	}
	if err != nil {
		return fmt.Errorf("harness %s: %w", sub.ID, err)
	}
	return r.Show(ctx, sub.ID, w.State, w.Head)
}
