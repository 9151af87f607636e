package kernel

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Decide answers a state with what there is to say: nothing if the question is answered already. It is pure; it is
// called again whenever another writer was faster. Its answer's every prefix is a legal history.
type Decide[S any] func(s S, now time.Time) ([]events.Payload, error)

// Written tells what a Write did.
type Written[S any] struct {
	// State after it, and the position of the aggregate's last event.
	State S
	Head  uint64
	// Events that this very Write stored, in order. Only they give the right to act.
	Events []Appended
}

// Appended is one event that this Write stored.
type Appended struct {
	Payload events.Payload
	// Sequence in the aggregate, Seq in the log.
	Sequence, Seq uint64
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
	// Pages are the cached states; ledgers of one process on one journal may share them. Nil means pages of its own,
	// for at most Cache aggregates; 0 means DefaultCache.
	Pages *Pages[S]
	Cache int
	// Now is the clock of events; nil means time.Now. Entropy makes event ids; it must not fail.
	Now     func() time.Time
	Entropy io.Reader
	// OnStored is told of each event that this ledger has stored, once; it must not wait. May be nil.
	OnStored func(StoredEvent[S])
}

// StoredEvent is an event that a ledger has stored, and the state of its aggregate before it; both are to be read only.
type StoredEvent[S any] struct {
	Event   events.Event
	Payload events.Payload
	Before  S
}

// Limits of the ledger.
const (
	// DefaultCache is the number of aggregates whose state is kept in memory.
	DefaultCache = 4096
	// DefaultCacheBytes is about how many bytes of events these states may be folded from, without those in use.
	DefaultCacheBytes = 32 << 20
	// maxRounds bounds how often a decision is made again because another writer was faster.
	maxRounds = 64
	// maxSame bounds how often the same append is tried on transient refusals.
	maxSame = 200
)

// Ledger is how a service appends to the logs of all aggregates of one name, and the only way. It is safe for
// concurrent use.
type Ledger[S any] struct {
	cfg LedgerConfig[S]
	mu  sync.Mutex
	// stats and the reads of cfg.Entropy are guarded by mu.
	stats Stats
}

// Stats counts what a ledger did since it was made.
type Stats struct {
	Appends, Conflicts, Transients, Unknowns, Duplicates, Reads, Bytes uint64
}

// NewLedger checks the configuration.
func NewLedger[S any](cfg LedgerConfig[S]) (*Ledger[S], error) {
	if err := cfg.Aggregate.check(); err != nil {
		return nil, err
	}
	if err := events.CheckID("station", cfg.Station); err != nil {
		return nil, err
	}
	if cfg.Journal == nil || cfg.Entropy == nil {
		return nil, errors.New("a ledger needs a journal and a source of entropy")
	}
	if cfg.Pages == nil {
		cfg.Pages = NewPages(cfg.Aggregate, cfg.Cache)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Ledger[S]{cfg: cfg}, nil
}

// Stats returns the counters.
func (l *Ledger[S]) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

func (l *Ledger[S]) count(f func(*Stats)) {
	l.mu.Lock()
	f(&l.stats)
	l.mu.Unlock()
}

// sequence is how many events the state of a page includes.
func (l *Ledger[S]) sequence(p *page[S]) uint64 { return l.cfg.Aggregate.Chain(&p.state).Sequence }

// State returns the state of an aggregate as far as it is known here, reading what is new. The zero state
// means that it does not exist. It may be stale: it only helps to choose what to try.
func (l *Ledger[S]) State(ctx context.Context, id string) (S, uint64, error) {
	return l.Reach(ctx, id, math.MaxUint64)
}

// Hear takes a delivered event as news: if it is the next one it is folded without reading, and after Hear the cached
// state includes it. It returns the decoded event.
func (l *Ledger[S]) Receive(ctx context.Context, id string, r Record) (S, error) {
	var none S
	if err := events.CheckID(l.cfg.Aggregate.Name, id); err != nil {
		return none, err
	}
	p := l.cfg.Pages.page(id)
	if err := p.hold(ctx); err != nil {
		return none, err
	}
	defer l.cfg.Pages.free(p)
	before := p.head
	if err := l.renumber(ctx, p); err != nil {
		return none, err
	}
	if p.loaded && p.head != before { // the log has it now, and may have more
		if err := l.refresh(ctx, p); err != nil {
			return none, err
		}
	}
	seq, there, err := Position(ctx, l.cfg.Journal, id, r.Seq)
	if err != nil {
		return none, err
	}
	if r.Seq = seq; p.loaded && there && p.head >= r.Seq {
		return p.state, nil
	}
	if there && (p.loaded || p.head == 0) {
		if next, err := l.cfg.Aggregate.fold(id, p.state, r); err == nil {
			p.at(next, r.Seq, p.bytes+len(r.Bytes))
			return p.state, nil
		}
	}
	if err := l.refresh(ctx, p); err != nil {
		return none, err
	}
	if there && p.head < r.Seq {
		// The reader was stale, or the event is not in the log at all: ask the leader, then read again.
		if err := l.catchUp(ctx, p, r.Seq); err != nil {
			return none, err
		}
	}
	return p.state, nil
}

// Write decides and appends until the decision stands or has nothing to say. Events are appended one by one; if
// another writer is faster, the decision is made again on the newer state. An error leaves what was stored before it
// in the log: whoever looks next completes it.
func (l *Ledger[S]) Write(ctx context.Context, id string, decide Decide[S]) (Written[S], error) {
	var w Written[S]
	if err := events.CheckID(l.cfg.Aggregate.Name, id); err != nil {
		return w, err
	}
	p := l.cfg.Pages.page(id)
	if err := p.hold(ctx); err != nil {
		return w, err
	}
	defer l.cfg.Pages.free(p)
	if err := l.renumber(ctx, p); err != nil {
		return w, err
	}
	if !p.loaded {
		if err := l.refresh(ctx, p); err != nil {
			return w, err
		}
	}
	for range maxRounds {
		answer, err := decide(p.state, l.cfg.Now().UTC())
		if err != nil {
			return w, err
		}
		again, err := l.appendAnswer(ctx, p, answer, &w)
		w.State, w.Head = p.state, p.head
		if err != nil || !again {
			return w, err
		}
	}
	return w, fmt.Errorf("write to %s %s: %w", l.cfg.Aggregate.Name, id, ErrContended)
}

// appendAnswer appends an answer event by event. again means that the decision must be made again.
func (l *Ledger[S]) appendAnswer(ctx context.Context, p *page[S], answer []events.Payload,
	w *Written[S]) (again bool, err error) {
	a := l.cfg.Aggregate
	for _, payload := range answer {
		event, written, stored, err := l.compose(p, payload)
		if err != nil {
			return false, err
		}
		next, err := a.Apply(p.state, event, written, events.HashOf(stored))
		if err != nil {
			return false, fmt.Errorf("decision of %s does not fit: %w", l.cfg.By, err)
		}
		seq, err := l.append(ctx, p, Entry{Aggregate: a.Name, ID: p.id, Kind: payload.Kind(), Head: p.head, Bytes: stored})
		if errors.Is(err, errLost) {
			return true, l.refreshAfterLoss(ctx, p, seq)
		}
		if err != nil {
			p.loaded = false
			return false, fmt.Errorf("append %s to %s %s: %w", payload.Kind(), a.Name, p.id, err)
		}
		if l.cfg.OnStored != nil {
			l.cfg.OnStored(StoredEvent[S]{Event: event, Payload: payload, Before: p.state})
		}
		p.at(next, seq, p.bytes+len(stored))
		w.Events = append(w.Events, Appended{Payload: payload, Sequence: event.Sequence, Seq: seq})
	}
	return false, nil
}

// compose makes the next event of an aggregate, and its payload as whoever reads it has it: the state is the fold of
// the stored bytes, encoding may change what is in hand, and the caller keeps that.
func (l *Ledger[S]) compose(p *page[S],
	payload events.Payload) (f events.Event, written events.Payload, stored []byte, err error) {
	a := l.cfg.Aggregate
	word, ok := a.Lookup(payload.Kind())
	if !ok || word.Author != l.cfg.By {
		return f, nil, nil, fmt.Errorf("%s by %s: %w", payload.Kind(), l.cfg.By, ErrDenied)
	}
	f = a.compose(l.cfg.Station, p.id, &p.state, payload)
	f.ID, f.Source, f.Time = l.newID(), events.Source(l.cfg.Station, l.cfg.By), l.cfg.Now().UTC().Round(0)
	if stored, err = f.EncodeWith(payload); err != nil {
		return f, nil, nil, err
	}
	if limit := a.maxEvent(); len(stored) > limit {
		return f, nil, nil, fmt.Errorf("%s has %d bytes, the limit is %d: %w", payload.Kind(), len(stored), limit,
			ErrTooLarge)
	}
	written = word.New()
	if err := json.Unmarshal(f.Data, written); err != nil {
		return f, nil, nil, fmt.Errorf("%w: data of %s: %w", events.ErrDamaged, payload.Kind(), err)
	}
	return f, written, stored, nil
}

// errLost means that another writer's event stands where ours should.
var errLost = errors.New("another writer was faster")

// append makes one append and settles its outcome. It returns the position, errLost and the position of the event that
// won, or an error that ends the Write.
func (l *Ledger[S]) append(ctx context.Context, p *page[S], e Entry) (uint64, error) {
	stored := e.Bytes
	wait := 200 * time.Microsecond
	// an earlier try is not accounted for: it may still be stored, so no refusal of a later one is the last word
	doubt := false
	for range maxSame {
		ack := l.cfg.Journal.Append(ctx, e)
		if refused := ack.Outcome == Full || ack.Outcome == Denied || ack.Outcome == TooLarge; refused && doubt {
			return 0, fmt.Errorf("%w, then: %w", ErrUnsettled, ack.Err)
		}
		doubt = doubt || ack.Outcome == Unknown
		switch ack.Outcome {
		case Stored:
			l.count(func(s *Stats) { s.Appends++; s.Bytes += uint64(len(stored)) })
			return ack.Seq, nil
		case Conflict, Unknown:
			seq, settled, err := l.settle(ctx, p, ack, stored)
			if err != nil || settled {
				return seq, err
			}
		case Transient:
			l.count(func(s *Stats) { s.Transients++ })
		case Full:
			return 0, ErrFull
		case Denied:
			return 0, fmt.Errorf("%w: %w", ErrDenied, ack.Err)
		case TooLarge:
			return 0, fmt.Errorf("%w: %w", ErrTooLarge, ack.Err)
		}
		if err := Sleep(ctx, wait); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrUnsettled, err)
		}
		wait = min(2*wait, 5*time.Millisecond)
	}
	return 0, ErrUnsettled
}

// settle asks the leader what became of an append. settled false means: not stored, the same append may be made again.
func (l *Ledger[S]) settle(ctx context.Context, p *page[S], ack Ack,
	stored []byte) (seq uint64, settled bool, err error) {
	if ack.Outcome == Conflict {
		l.count(func(s *Stats) { s.Conflicts++ })
	} else {
		l.count(func(s *Stats) { s.Unknowns++ })
	}
	last, ok, err := l.cfg.Journal.Last(ctx, p.id)
	if err == nil {
		err = l.renumber(ctx, p)
	}
	switch {
	case err == nil && !p.loaded:
		return 0, true, errLost // the events that this one was to follow are in no log any more
	case err != nil && ctx.Err() != nil:
		return 0, true, fmt.Errorf("%w: %w", ErrUnsettled, err)
	case err != nil || !ok && p.head > 0:
		return 0, false, nil // the leader is away or behind what was acknowledged: ask again by trying again
	case !ok || last.Seq <= p.head:
		return 0, false, nil
	case bytes.Equal(last.Bytes, stored):
		l.count(func(s *Stats) { s.Duplicates++ })
		return last.Seq, true, nil
	}
	// Another event is last. Ours may stand before it: it is ours only if the event right after head has our bytes.
	after, _, err := l.cfg.Journal.Read(ctx, p.id, p.head)
	if err == nil && len(after) > 0 && bytes.Equal(after[0].Bytes, stored) {
		l.count(func(s *Stats) { s.Duplicates++ })
		return after[0].Seq, true, nil
	}
	if err != nil || len(after) == 0 {
		return 0, false, nil
	}
	return after[0].Seq, true, errLost
}

// newID returns 128 random bits in hex, made before the first try of an append.
func (l *Ledger[S]) newID() string {
	var b [16]byte
	l.mu.Lock()
	_, err := io.ReadFull(l.cfg.Entropy, b[:])
	l.mu.Unlock()
	if err != nil {
		panic(fmt.Sprintf("source of entropy: %v", err))
	}
	return hex.EncodeToString(b[:])
}

// Sleep waits for a time. It returns the cause of the end of ctx where that comes first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
