package kernel

import (
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// Aggregate is what the kernel needs to know of one kind of thing whose life is a log of events: a run, a session. S is
// the state that its events fold into, a value: whoever holds one never changes what can be reached from it. All
// functions are pure.
type Aggregate[S any] struct {
	// Name is the token of its subjects: station.{s}.{name}.{id}.evt.{family}.{verb}; see events.CheckAggregate.
	Name string
	// Lookup returns the registration of an event type; ok is false for one that the aggregate does not have.
	Lookup func(events.Kind) (w events.Type, ok bool)
	// Apply returns the state after one more event, whose stored bytes have the given hash, and an error for one that
	// cannot be its next. The kernel has checked that the event follows the chain; the state returned is at the event.
	Apply func(s S, f events.Event, p events.Payload, hash string) (S, error)
	// Chain returns how far a state is; the zero Chain for the zero state.
	Chain func(s *S) Chain
	// Envelope returns what the next event says of itself beside its place in the log. Nil is the station alone.
	Envelope func(station, id string, s *S, p events.Payload) (who events.Identity, traceparent string)
	// Ended reports whether nothing can follow a state. Nil is an aggregate without an end.
	Ended func(s *S) bool
	// Stands is the event type that stands for all events before it where it is the first of a log: it may have any
	// sequence and prevhash. "" is none.
	Stands events.Kind
	// MaxEvent is the most bytes of one event, 0 for events.MaxEvent. Above that no journal takes one.
	MaxEvent int
}

// Chain is how far a state is: the aggregate it is of, and the sequence and the hash of the last event that it
// includes. The next event carries Sequence+1 and Hash.
type Chain struct {
	ID       string
	Sequence uint64
	Hash     string
}

// DamageError says which stored event is not the next one of its aggregate, and why.
type DamageError struct {
	Aggregate, ID string
	Sequence      uint64
	Kind          events.Kind
	Fault         string
	Err           error
}

func (e *DamageError) Error() string {
	s := fmt.Sprintf("%s %s, event %d (%s): %s", e.Aggregate, e.ID, e.Sequence, e.Kind, e.Fault)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause, for example events.ErrDamaged.
func (e *DamageError) Unwrap() error { return e.Err }

// check says what the kernel cannot do without.
func (a *Aggregate[S]) check() error {
	if a == nil || a.Lookup == nil || a.Apply == nil || a.Chain == nil {
		return errors.New("an aggregate needs event types, a fold and a chain")
	}
	if a.MaxEvent < 0 || a.MaxEvent > events.MaxEvent {
		return fmt.Errorf("aggregate %s: an event may have up to %d bytes, not %d", a.Name, events.MaxEvent, a.MaxEvent)
	}
	return events.CheckAggregate(a.Name)
}

// Read decodes a record of an aggregate and checks that it says to be what its place in the log is for. Its errors are
// *DamageError.
func (a *Aggregate[S]) Read(id string, r Record) (events.Event, events.Payload, error) {
	return read(a.Name, a.Lookup, id, r)
}

// Fold returns the state after a record of an aggregate, for those who read a log and append nothing.
func (a *Aggregate[S]) Fold(s S, id string, r Record) (S, error) {
	var none S
	f, p, err := a.Read(id, r)
	if err != nil {
		return none, err
	}
	if err := follows(a.Name, id, a.Chain(&s), f, p.Kind(), a.Lookup, a.Stands); err != nil {
		return none, err
	}
	return a.Apply(s, f, p, events.HashOf(r.Bytes))
}

// lookup returns the registration of an event type.
type lookup = func(events.Kind) (w events.Type, ok bool)

// read is Aggregate.Read, and follows a part of its Fold, which need no S.
func read(name string, types lookup, id string, r Record) (events.Event, events.Payload, error) {
	f, p, err := events.ReadAs(r.Bytes, name, types)
	fault := ""
	switch {
	case err != nil:
		fault = "cannot be read"
	case f.Subject != id:
		fault = fmt.Sprintf("belongs to %s %.64q", name, f.Subject)
	case r.Kind != "" && p.Kind() != r.Kind:
		// Stored by a service that may not append it: the permissions to append are by kind (SAFE-6).
		fault = fmt.Sprintf("says that it is %s, and was stored as %s", p.Kind(), r.Kind)
	}
	if fault != "" {
		return events.Event{}, nil, &DamageError{Aggregate: name, ID: id, Sequence: f.Sequence, Kind: r.Kind, Fault: fault,
			Err: err}
	}
	return f, p, nil
}

// follows returns a *DamageError where an event does not follow a chain.
func follows(name, id string, c Chain, f events.Event, k events.Kind, types lookup, stands events.Kind) error {
	w, _ := types(k)
	if c.Sequence == 0 && stands != "" && k == stands {
		c.Sequence, c.Hash = f.Sequence-1, f.PrevHash
	}
	fault := ""
	switch {
	case f.Sequence != c.Sequence+1:
		fault = fmt.Sprintf("sequence %d does not follow %d: an event is missing or repeated", f.Sequence, c.Sequence)
	case f.PrevHash != c.Hash:
		fault = "prevhash is not the hash of the event before: the log was changed"
	case f.Author() != w.Author:
		fault = fmt.Sprintf("appended by %q, only %s may append it", f.Author(), w.Author)
	default:
		return nil
	}
	return &DamageError{Aggregate: name, ID: id, Sequence: f.Sequence, Kind: k, Fault: fault}
}
