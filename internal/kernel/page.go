package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Pages caches the states of aggregates of one name. A state is of the aggregate alone, not of a service, so all
// ledgers of a process that write to the same journal can share one Pages: what one of them wrote the others need not
// read.
type Pages struct {
	aggregate anyAggregate
	mu        sync.Mutex
	pages     map[string]*page
	// ring has all pages in no order, most is how many there may be.
	ring []*page
	most int
	// touched counts how often a page was asked for since the marks of use were taken off, drawn the pages that were drawn
	// to be dropped.
	touched int
	drawn   uint64
	// bytes is what the pages take together, mostBytes how much they may; ended are the pages that nothing can follow,
	// oldest first, with others that are gone, and endedBytes what they take.
	bytes, mostBytes int
	ended            []*page
	endedBytes       int
}

// page is the cached state of one aggregate.
type page struct {
	id string
	// held has one place: who has put something in may read and write the state, also across appends and reads.
	held   chan struct{}
	loaded bool
	state  state
	head   uint64
	// known is the highest position of the log that was ever stored, received or read here: no state behind it is given
	// out, also where a reader is behind.
	known uint64
	// bytes of the events that the state was folded from.
	bytes int
	// All below is guarded by Pages.mu: a page that is in use is dropped where no other is found, a pinned one stays.
	// counted is what of bytes is in Pages.bytes, place where it is in the ring.
	used, ended    bool
	pins           int
	counted, place int
}

// at puts a state in the page that was folded from events of so many bytes.
func (p *page) at(s state, head uint64, bytes int) {
	p.state, p.head, p.loaded, p.bytes = s, head, true, bytes
	p.known = max(p.known, head)
}

// hold waits for the page, for as long as ctx lives. free must be called after a nil error.
func (p *page) hold(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for %s: %w", p.id, context.Cause(ctx))
	}
	select {
	case p.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", p.id, context.Cause(ctx))
	}
}

// NewPages makes room for the states of that many aggregates; 0 means DefaultCache.
func NewPages[S any](a *Aggregate[S], most int) *Pages {
	if most <= 0 {
		most = DefaultCache
	}
	return &Pages{aggregate: a, pages: make(map[string]*page), most: most, mostBytes: DefaultCacheBytes}
}

// SetLimit sets about how many bytes of events the states may be folded from; it is DefaultCacheBytes before.
func (c *Pages) SetLimit(bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mostBytes = bytes
}

// page returns the cache entry of an aggregate and makes room for it.
func (c *Pages) page(id string) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(id)
}

// Pin keeps what is known of an aggregate until the function returned is called: who works on what was received must
// not meet a state from before it.
func (c *Pages) Pin(id string) (unpin func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(id)
	p.pins++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		p.pins--
	}
}

// find is page with mu held.
func (c *Pages) find(id string) *page {
	if c.touched++; c.touched > usedFor*len(c.ring) {
		c.touched = 0
		for _, p := range c.ring {
			p.used = false
		}
	}
	if p := c.pages[id]; p != nil {
		p.used = true
		return p
	}
	p := &page{id: id, state: c.aggregate.none(), used: true, held: make(chan struct{}, 1)}
	c.pages[id] = p
	if len(c.ring) >= c.most {
		c.turn() // where all are in use there is one more
	}
	p.place = len(c.ring)
	c.ring = append(c.ring, p)
	return p
}

// ApplyRepublished takes an event that was stored by another process as news about an aggregate that is cached, if it
// is the next one. It never waits: an event that is not taken is read when it is needed.
func (c *Pages) ApplyRepublished(id string, r Record) {
	c.mu.Lock()
	p := c.pages[id]
	c.mu.Unlock()
	if p == nil {
		return
	}
	select {
	case p.held <- struct{}{}:
	default:
		return
	}
	defer c.free(p)
	if !p.loaded || p.head >= r.Seq || c.aggregate.chain(p.state).Sequence == 0 {
		return
	}
	if next, err := c.aggregate.fold(id, p.state, r); err == nil {
		p.at(next, r.Seq, p.bytes+len(r.Bytes))
	}
}

// refresh brings the page up to what the reader has, and at least to what was known here before.
func (l *ledger) refresh(ctx context.Context, p *page) error {
	known := p.known
	if err := l.load(ctx, p); err != nil || p.head >= known {
		return err
	}
	if err := l.renumber(ctx, p); err != nil || p.loaded && p.head >= p.known {
		return err
	}
	if !p.loaded { // what was just read has been dropped
		return l.load(ctx, p)
	}
	return l.catchUp(ctx, p, p.known)
}

// load folds what the reader has after the page's head. A page that is not loaded starts from a snapshot.
func (l *ledger) load(ctx context.Context, p *page) error {
	if !p.loaded {
		p.state, p.head = l.aggregate.none(), 0
		if l.snapshots != nil {
			if s, head, ok := l.snapshots(ctx, p.id); ok {
				if behind, more, ok := l.covers(ctx, p, s, head); ok && l.foldOn(ctx, p, s, head, behind, more) == nil {
					return nil
				}
			}
		}
	}
	cached := p.loaded
	err := l.fold(ctx, p, p.state, p.head)
	if cached && errors.Is(err, ErrHeld) {
		// The log decides, not what was kept or overheard of it: only a log that does not fold from its beginning is
		// damaged.
		return l.fold(ctx, p, l.aggregate.none(), 0)
	}
	return err
}

// covers reports whether a snapshot ends with the very event that the log has at its position, and returns what it has
// behind it, as Journal.Read does. The log decides; a snapshot that does not agree with it is as good as none.
func (l *ledger) covers(ctx context.Context, p *page, s state, head uint64) (behind []Record, more, ok bool) {
	at := l.aggregate.chain(s)
	if head == 0 || at.ID != p.id {
		return nil, false, false
	}
	batch, more, err := l.journal.Read(ctx, p.id, head-1)
	if err != nil || len(batch) == 0 || batch[0].Seq != head || events.HashOf(batch[0].Bytes) != at.Hash {
		return nil, false, false
	}
	f, _, err := l.aggregate.Read(p.id, batch[0])
	return batch[1:], more, err == nil && f.Sequence == at.Sequence
}

// fold reads and folds on from a state. On damage the page keeps nothing, and the error is ErrHeld.
func (l *ledger) fold(ctx context.Context, p *page, s state, head uint64) error {
	return l.foldOn(ctx, p, s, head, nil, true)
}

// foldOn is fold where the first events behind the state were read before; more says that there are others.
func (l *ledger) foldOn(ctx context.Context, p *page, s state, head uint64, batch []Record, more bool) (err error) {
	bytes := int(l.aggregate.chain(s).Sequence) * eventBytes //nolint:gosec // far from the largest number
	if p.loaded && p.head == head {
		bytes = p.bytes
	}
	for {
		for _, r := range batch {
			next, err := l.aggregate.fold(p.id, s, r)
			if err != nil {
				p.loaded, p.state, p.head = false, l.aggregate.none(), 0
				return fmt.Errorf("%w: %w", ErrHeld, err)
			}
			s, head = next, r.Seq
			bytes += len(r.Bytes)
		}
		if !more {
			p.at(s, head, bytes)
			return nil
		}
		l.count(func(st *Stats) { st.Reads++ })
		if batch, more, err = l.journal.Read(ctx, p.id, head); err != nil {
			return fmt.Errorf("read %s %s: %w", l.aggregate.name(), p.id, err)
		}
	}
}

// A reader that is behind is asked again after catchUpWait, later after twice that, at most maxCatchUpWait.
const (
	catchUpWait    = 200 * time.Microsecond
	maxCatchUpWait = 20 * time.Millisecond
)

// catchUp reads until the page includes a position that was delivered or confirmed. A leader that was deposed and has
// not noticed may know less than was delivered: that is no damage, the event is received again.
func (l *ledger) catchUp(ctx context.Context, p *page, want uint64) error {
	wait := catchUpWait
	for range maxSame {
		if err := l.fold(ctx, p, p.state, p.head); err != nil {
			return err
		}
		if p.head >= want {
			return nil
		}
		if err := Sleep(ctx, wait); err != nil {
			return fmt.Errorf("read %s %s: %w", l.aggregate.name(), p.id, err)
		}
		wait = min(2*wait, maxCatchUpWait)
	}
	return fmt.Errorf("read %s %s: still behind position %d", l.aggregate.name(), p.id, want)
}

// renumber takes the positions of a page for what the journal has given the events now. A page with an event that has
// none any more is read again.
func (l *ledger) renumber(ctx context.Context, p *page) error {
	if _, may := l.journal.(Renumberer); !may {
		return nil
	}
	head, there, err := Position(ctx, l.journal, p.id, p.head)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", l.aggregate.name(), p.id, err)
	}
	known, still, err := Position(ctx, l.journal, p.id, p.known)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", l.aggregate.name(), p.id, err)
	}
	if p.head, p.known = head, known; !still {
		p.known = 0
	}
	if !there {
		p.loaded, p.state, p.head, p.bytes = false, l.aggregate.none(), 0, 0
	}
	return nil
}

// refreshAfterLoss reads until the event that won, and what the leader has after it, is folded: a stale reader must not
// lead to the same conflict again.
func (l *ledger) refreshAfterLoss(ctx context.Context, p *page, won uint64) error {
	if last, ok, err := l.journal.Last(ctx, p.id); err == nil && ok {
		won = max(won, last.Seq)
	}
	if err := l.refresh(ctx, p); err != nil || p.head >= won {
		return err
	}
	return l.catchUp(ctx, p, won)
}

// fresh is Ledger.Fresh.
func (l *ledger) fresh(ctx context.Context, id string) (state, error) {
	if err := events.CheckID(l.aggregate.name(), id); err != nil {
		return nil, err
	}
	p := l.pages.page(id)
	if err := p.hold(ctx); err != nil {
		return nil, err
	}
	defer l.pages.free(p)
	last, ok, err := l.journal.Last(ctx, p.id)
	if err != nil {
		return nil, err
	}
	if err := l.renumber(ctx, p); err != nil {
		return nil, err
	}
	if p.loaded && (!ok || p.head >= last.Seq) {
		return p.state, nil
	}
	if err := l.refresh(ctx, p); err != nil {
		return nil, err
	}
	if p.head < last.Seq {
		if err := l.catchUp(ctx, p, last.Seq); err != nil {
			return nil, err
		}
	}
	return p.state, nil
}

// reach is Ledger.Reach.
func (l *ledger) reach(ctx context.Context, id string, sequence uint64) (state, uint64, error) {
	if err := events.CheckID(l.aggregate.name(), id); err != nil {
		return nil, 0, err
	}
	p := l.pages.page(id)
	if err := p.hold(ctx); err != nil {
		return nil, 0, err
	}
	defer l.pages.free(p)
	if err := l.renumber(ctx, p); err != nil {
		return nil, 0, err
	}
	if p.loaded && l.sequence(p) >= sequence {
		return p.state, p.head, nil
	}
	if err := l.refresh(ctx, p); err != nil {
		return nil, 0, err
	}
	return p.state, p.head, nil
}
