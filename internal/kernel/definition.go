package kernel

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Definition is what an aggregate is whose state embeds a Folded and is shown as a row: work items, mailboxes,
// schedules. Aggregate, NewLedger and Then are what such aggregates have in common.
type Definition[S any] struct {
	View[S]
	// Token is the name of the aggregate in subjects, and Lookup returns the registration of an event type; see
	// Aggregate.
	Token  string
	Lookup func(events.Kind) (w events.Type, ok bool)
	// ID is the id of what a state is of: "" for the zero state, unless all events are of one id.
	ID func(s *S) string
	// Next returns the state after one more event of that time, and an error for one that cannot follow. Sequence and
	// hash are not its concern.
	Next func(s S, p events.Payload, at time.Time) (S, error)
	// Stands is that of Aggregate.
	Stands events.Kind
	// Envelope is that of Aggregate.
	Envelope func(station, id string, s *S, p events.Payload) (who events.Identity, traceparent string)
}

// Then returns the state after one more decision, which is noted in its Changes. It panics for an event that the fold
// refuses: a decision is checked before it is made.
func (d *Definition[S]) Then(s S, p events.Payload, now time.Time) S {
	next, err := d.Next(s, p, now)
	if err != nil {
		panic(d.Token + ": decided what cannot be folded: " + err.Error())
	}
	_, _, at := d.Parts(&next)
	*at = at.With(p)
	return next
}

// Aggregate returns what the kernel needs to know of it.
func (d *Definition[S]) Aggregate() *Aggregate[S] {
	return &Aggregate[S]{Name: d.Token, Lookup: d.Lookup, Apply: d.apply, Chain: d.chain, Envelope: d.Envelope,
		Stands: d.Stands}
}

// NewLedger checks the configuration, whose aggregate is this one.
func (d *Definition[S]) NewLedger(cfg LedgerConfig[S]) (*Ledger[S], error) {
	cfg.Aggregate = d.Aggregate()
	return NewLedger(cfg)
}

// apply returns the state after one more event, whose stored bytes have the given hash.
func (d *Definition[S]) apply(s S, f events.Event, p events.Payload, hash string) (S, error) {
	next, err := d.Next(s, p, f.Time)
	if err == nil && d.ID(&next) != f.Subject {
		err = fmt.Errorf("it is of %.64q", d.ID(&next))
	}
	if err != nil {
		var none S
		return none, fmt.Errorf("%s %s, event %d (%s): %w", d.Name, f.Subject, f.Sequence, p.Kind(), err)
	}
	_, _, at := d.Parts(&next)
	*at = Folded{Sequence: f.Sequence, Hash: hash}
	return next, nil
}

func (d *Definition[S]) chain(s *S) Chain {
	_, _, at := d.Parts(s)
	if at.Sequence == 0 {
		return Chain{}
	}
	return Chain{ID: d.ID(s), Sequence: at.Sequence, Hash: at.Hash}
}
