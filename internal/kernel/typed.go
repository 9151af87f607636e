package kernel

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Decide answers a state with what there is to say: nothing if the question is answered already. It is pure; it is
// called again whenever another writer was faster. Its answer's every prefix is a legal history.
type Decide[S any] func(s S, now time.Time) ([]events.Payload, error)

// Written is what a Write did.
type Written[S any] struct {
	// State after it, and the position of the aggregate's last event.
	State S
	Head  uint64
	// Events that this very Write stored, in order. Only they give the right to act.
	Events []Appended
}

// Wrote returns the event of a kind that this Write stored.
func (w Written[S]) Wrote(k events.Kind) (Appended, bool) {
	for _, f := range w.Events {
		if f.Payload.Kind() == k {
			return f, true
		}
	}
	return Appended{}, false
}

// Snapshots shortens loading; a snapshot that is missing, older or wrong is only slower.
type Snapshots[S any] interface {
	// Latest returns a state and the position of its last event; ok is false where there is none.
	Latest(ctx context.Context, id string) (s S, head uint64, ok bool)
}

// LedgerConfig holds what a Ledger needs.
type LedgerConfig[S any] struct {
	Aggregate *Aggregate[S]
	Station   string
	By        events.Service
	Journal   Journal
	// Snapshots may be nil.
	Snapshots Snapshots[S]
	// Pages are the cached states; ledgers of one aggregate in one process on one journal may share them. Nil means
	// pages of its own, for at most Cache aggregates; 0 means DefaultCache.
	Pages *Pages
	Cache int
	// Now is the clock of events; nil means time.Now. Entropy makes event ids; it must not fail.
	Now     func() time.Time
	Entropy io.Reader
	// OnStored is called once with each event that this ledger has stored; it must not wait. May be nil.
	OnStored func(StoredEvent[S])
}

// StoredEvent is an event that a ledger has stored, and the state of its aggregate before it; both are to be read only.
type StoredEvent[S any] struct {
	Event   events.Event
	Payload events.Payload
	Before  S
}

// Ledger is how a service appends to the logs of all aggregates of one name, and the only way. It is safe for
// concurrent use.
type Ledger[S any] struct {
	*ledger
	typed *Aggregate[S]
}

// NewLedger checks the configuration.
func NewLedger[S any](cfg LedgerConfig[S]) (*Ledger[S], error) {
	if err := cfg.Aggregate.check(); err != nil {
		return nil, err
	}
	if cfg.Pages == nil {
		cfg.Pages = NewPages(cfg.Aggregate, cfg.Cache)
	}
	if _, same := cfg.Pages.aggregate.(*Aggregate[S]); !same {
		return nil, errors.New("the pages of a ledger are of another aggregate")
	}
	l := &ledger{aggregate: cfg.Aggregate, station: cfg.Station, by: cfg.By, journal: cfg.Journal, pages: cfg.Pages,
		now: cfg.Now, entropy: cfg.Entropy}
	if cfg.Snapshots != nil {
		l.snapshots = func(ctx context.Context, id string) (state, uint64, bool) {
			s, head, ok := cfg.Snapshots.Latest(ctx, id)
			return &s, head, ok
		}
	}
	if cfg.OnStored != nil {
		l.onStored = func(f events.Event, p events.Payload, before state) {
			cfg.OnStored(StoredEvent[S]{Event: f, Payload: p, Before: *before.(*S)})
		}
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return &Ledger[S]{ledger: l, typed: cfg.Aggregate}, nil
}

// of is the value of a state, the zero one where there is none.
func of[S any](s state) (v S) {
	if p, ok := s.(*S); ok {
		v = *p
	}
	return v
}

// State returns the state of an aggregate as far as it is known here, reading what is new. The zero state
// means that it does not exist. It may be stale: it only helps to choose what to try.
func (l *Ledger[S]) State(ctx context.Context, id string) (S, uint64, error) {
	return l.Reach(ctx, id, math.MaxUint64)
}

// Reach is State without a look at the log where that many events of the aggregate are known here, as the log has them.
func (l *Ledger[S]) Reach(ctx context.Context, id string, sequence uint64) (S, uint64, error) {
	s, head, err := l.reach(ctx, id, sequence)
	return of[S](s), head, err
}

// Fresh returns the state of an aggregate up to what the leader has now. It is an error where the leader cannot be
// asked.
func (l *Ledger[S]) Fresh(ctx context.Context, id string) (S, error) {
	s, err := l.fresh(ctx, id)
	return of[S](s), err
}

// Receive takes a delivered event as news: if it is the next one it is folded without reading. The state returned
// includes it.
func (l *Ledger[S]) Receive(ctx context.Context, id string, r Record) (S, error) {
	s, err := l.receive(ctx, id, r)
	return of[S](s), err
}

// At returns the state of an aggregate as it was after one of its events, folded from the first. One that does not
// exist is ErrNotFound, a sequence beyond its end ErrNoEvent, a log that does not fold up to there ErrHeld; all are
// wrapped.
func (l *Ledger[S]) At(ctx context.Context, id string, sequence uint64) (S, error) {
	s, err := l.at(ctx, id, sequence)
	return of[S](s), err
}

// Write decides and appends until the decision stands or has nothing to say. Events are appended one by one; if
// another writer is faster, the decision is made again on the newer state. An error leaves what was stored before it
// in the log: whoever looks next completes it.
func (l *Ledger[S]) Write(ctx context.Context, id string, decide Decide[S]) (Written[S], error) {
	w, err := l.write(ctx, id, func(s state, now time.Time) ([]events.Payload, error) { return decide(*s.(*S), now) })
	return Written[S]{State: of[S](w.state), Head: w.head, Events: w.events}, err
}

// insistEvery is how soon a log that could not take something is tried again.
const insistEvery = time.Second

// Insist writes until the log has taken the decision or ctx ends: a log that is full, and an outcome that could not be
// learned, are tried again. It is for what is known here alone, as what an effect came to; the caller waits meanwhile.
// What is returned has the events of the last try.
func (l *Ledger[S]) Insist(ctx context.Context, id string, decide Decide[S]) (Written[S], error) {
	for {
		w, err := l.Write(ctx, id, decide)
		again := errors.Is(err, ErrFull) || errors.Is(err, ErrUnsettled)
		if !again || Sleep(ctx, insistEvery) != nil {
			return w, err
		}
	}
}
