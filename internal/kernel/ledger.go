package kernel

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Appended is one event that this Write stored.
type Appended struct {
	Payload events.Payload
	// Sequence in the aggregate, Seq in the log.
	Sequence, Seq uint64
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

// ledger is a Ledger without the type of its states.
type ledger struct {
	aggregate anyAggregate
	station   string
	by        events.Service
	journal   Journal
	snapshots func(ctx context.Context, id string) (s state, head uint64, ok bool)
	pages     *Pages
	now       func() time.Time
	onStored  func(f events.Event, p events.Payload, before state)
	mu        sync.Mutex
	// stats and the reads of entropy are guarded by mu.
	stats   Stats
	entropy io.Reader
}

// written is a Written without the type of its state, which is nil where nothing was decided.
type written struct {
	state  state
	head   uint64
	events []Appended
}

// Stats counts what a ledger did since it was made.
type Stats struct {
	Appends, Conflicts, Transients, Unknowns, Duplicates, Reads, Bytes uint64
}

// check says what is missing, and fills in the clock.
func (l *ledger) check() error {
	if err := events.CheckID("station", l.station); err != nil {
		return err
	}
	if l.journal == nil || l.entropy == nil {
		return errors.New("a ledger needs a journal and a source of entropy")
	}
	if l.now == nil {
		l.now = time.Now
	}
	return nil
}

// Stats returns the counters.
func (l *ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

func (l *ledger) count(f func(*Stats)) {
	l.mu.Lock()
	f(&l.stats)
	l.mu.Unlock()
}

// sequence is how many events the state of a page includes.
func (l *ledger) sequence(p *page) uint64 { return l.aggregate.chain(p.state).Sequence }

// receive is Ledger.Receive.
func (l *ledger) receive(ctx context.Context, id string, r Record) (state, error) {
	if err := events.CheckID(l.aggregate.name(), id); err != nil {
		return nil, err
	}
	p := l.pages.page(id)
	if err := p.hold(ctx); err != nil {
		return nil, err
	}
	defer l.pages.free(p)
	before := p.head
	if err := l.renumber(ctx, p); err != nil {
		return nil, err
	}
	if p.loaded && p.head != before { // the log has it now, and may have more
		if err := l.refresh(ctx, p); err != nil {
			return nil, err
		}
	}
	seq, there, err := Position(ctx, l.journal, id, r.Seq)
	if err != nil {
		return nil, err
	}
	if r.Seq = seq; p.loaded && there && p.head >= r.Seq {
		return p.state, nil
	}
	if there && (p.loaded || p.head == 0) {
		if next, err := l.aggregate.fold(id, p.state, r); err == nil {
			p.at(next, r.Seq, p.bytes+len(r.Bytes))
			return p.state, nil
		}
	}
	if err := l.refresh(ctx, p); err != nil {
		return nil, err
	}
	if there && p.head < r.Seq {
		// The reader was stale, or the event is not in the log at all: ask the leader, then read again.
		if err := l.catchUp(ctx, p, r.Seq); err != nil {
			return nil, err
		}
	}
	return p.state, nil
}

// write is Ledger.Write. It returns the page's state and head as they are then, and what was stored.
func (l *ledger) write(ctx context.Context, id string,
	decide func(s state, now time.Time) ([]events.Payload, error)) (w written, err error) {
	if err := events.CheckID(l.aggregate.name(), id); err != nil {
		return w, err
	}
	p := l.pages.page(id)
	if err := p.hold(ctx); err != nil {
		return w, err
	}
	defer l.pages.free(p)
	if err := l.renumber(ctx, p); err != nil {
		return w, err
	}
	if !p.loaded {
		if err := l.refresh(ctx, p); err != nil {
			return w, err
		}
	}
	for range maxRounds {
		answer, err := decide(p.state, l.now().UTC())
		if err != nil {
			return w, err
		}
		again, err := l.appendAnswer(ctx, p, answer, &w)
		w.state, w.head = p.state, p.head
		if err != nil || !again {
			return w, err
		}
	}
	return w, fmt.Errorf("write to %s %s: %w", l.aggregate.name(), id, ErrContended)
}

// appendAnswer appends an answer event by event. again means that the decision must be made again.
func (l *ledger) appendAnswer(ctx context.Context, p *page, answer []events.Payload,
	w *written) (again bool, err error) {
	a := l.aggregate
	for _, payload := range answer {
		event, written, stored, err := l.compose(p, payload)
		if err != nil {
			return false, err
		}
		next, err := a.apply(p.state, event, written, events.HashOf(stored))
		if err != nil {
			return false, fmt.Errorf("decision of %s does not fit: %w", l.by, err)
		}
		seq, err := l.append(ctx, p, Entry{Aggregate: a.name(), ID: p.id, Kind: payload.Kind(), Head: p.head, Bytes: stored})
		if errors.Is(err, errLost) {
			return true, l.refreshAfterLoss(ctx, p, seq)
		}
		if err != nil {
			p.loaded = false
			return false, fmt.Errorf("append %s to %s %s: %w", payload.Kind(), a.name(), p.id, err)
		}
		if l.onStored != nil {
			l.onStored(event, payload, p.state)
		}
		p.at(next, seq, p.bytes+len(stored))
		w.events = append(w.events, Appended{Payload: payload, Sequence: event.Sequence, Seq: seq})
	}
	return false, nil
}

// compose makes the next event of an aggregate, and its payload as whoever reads it has it: the state is the fold of
// the stored bytes, encoding may change what is in hand, and the caller keeps that.
func (l *ledger) compose(p *page,
	payload events.Payload) (f events.Event, written events.Payload, stored []byte, err error) {
	a := l.aggregate
	word, ok := a.typeOf(payload.Kind())
	if !ok || word.Author != l.by {
		return f, nil, nil, fmt.Errorf("%s by %s: %w", payload.Kind(), l.by, ErrDenied)
	}
	f = a.compose(l.station, p.id, p.state, payload)
	f.ID, f.Source, f.Time = l.newID(), events.Source(l.station, l.by), l.now().UTC().Round(0)
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
func (l *ledger) append(ctx context.Context, p *page, e Entry) (uint64, error) {
	stored := e.Bytes
	wait := 200 * time.Microsecond
	// an earlier try is not accounted for: it may still be stored, so no refusal of a later one is the last word
	doubt := false
	for range maxSame {
		ack := l.journal.Append(ctx, e)
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
func (l *ledger) settle(ctx context.Context, p *page, ack Ack,
	stored []byte) (seq uint64, settled bool, err error) {
	if ack.Outcome == Conflict {
		l.count(func(s *Stats) { s.Conflicts++ })
	} else {
		l.count(func(s *Stats) { s.Unknowns++ })
	}
	last, ok, err := l.journal.Last(ctx, p.id)
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
	after, _, err := l.journal.Read(ctx, p.id, p.head)
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
func (l *ledger) newID() string {
	var b [16]byte
	l.mu.Lock()
	_, err := io.ReadFull(l.entropy, b[:])
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
