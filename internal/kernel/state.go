package kernel

import "github.com/inspan/inspan/pkg/events"

// state is a *S of the aggregate whose states are S. What it points to never changes. Ledgers and pages know no more of
// it, so that one compiled copy of them serves all aggregates.
type state any

// anyAggregate is an Aggregate to those who do not know its S.
type anyAggregate interface {
	name() string
	typeOf(k events.Kind) (w events.Type, ok bool)
	Read(id string, r Record) (events.Event, events.Payload, error)
	// none is the state of what has no event.
	none() state
	chain(s state) Chain
	ended(s state) bool
	// fold and apply return the state after one more event: a record, or one that was just made.
	fold(id string, s state, r Record) (state, error)
	apply(s state, f events.Event, p events.Payload, hash string) (state, error)
	// compose makes the event that follows a state.
	compose(station, id string, s state, p events.Payload) events.Event
	maxEvent() int
}

func (a *Aggregate[S]) name() string                                  { return a.Name }
func (a *Aggregate[S]) typeOf(k events.Kind) (w events.Type, ok bool) { return a.Lookup(k) }
func (a *Aggregate[S]) none() state                                   { return new(S) }
func (a *Aggregate[S]) chain(s state) Chain                           { return a.Chain(s.(*S)) }
func (a *Aggregate[S]) ended(s state) bool                            { return a.Ended != nil && a.Ended(s.(*S)) }

func (a *Aggregate[S]) fold(id string, s state, r Record) (state, error) {
	next, err := a.Fold(*s.(*S), id, r)
	if err != nil {
		return nil, err
	}
	return &next, nil
}

func (a *Aggregate[S]) apply(s state, f events.Event, p events.Payload, hash string) (state, error) {
	next, err := a.Apply(*s.(*S), f, p, hash)
	if err != nil {
		return nil, err
	}
	return &next, nil
}

func (a *Aggregate[S]) compose(station, id string, s state, p events.Payload) events.Event {
	chain := a.chain(s)
	f := events.Event{SpecVersion: "1.0", Type: p.Kind().Type(), Subject: id, ContentType: "application/json",
		Identity: events.Identity{Station: station}, Sequence: chain.Sequence + 1, PrevHash: chain.Hash}
	if a.Name != events.RunAggregate {
		f.Aggregate = a.Name
	}
	if a.Envelope != nil {
		f.Identity, f.TraceParent = a.Envelope(station, id, s.(*S), p)
	}
	return f
}

// maxEvent is MaxEvent with the default filled in.
func (a *Aggregate[S]) maxEvent() int {
	if a.MaxEvent == 0 {
		return events.MaxEvent
	}
	return a.MaxEvent
}
