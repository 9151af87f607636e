package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Pages caches the states of runs. A state is of the run alone, not of a service, so all ledgers of a process that
// write to the same journal can share one Pages: what one of them wrote the others need not read.
type Pages struct {
	mu   sync.Mutex
	runs map[string]*page
	// ring and hand are the clock of the second chance.
	ring []*page
	hand int
	most int
}

// page is the cached state of one run.
type page struct {
	id string
	// held has one place: who has put something in may read and write the state, also across appends and reads.
	held   chan struct{}
	loaded bool
	state  run.State
	head   uint64
	// known is the highest position of the log that was ever stored, heard or read here: no state behind it is given out, also where
	// a reader is behind.
	known uint64
	// used and pins are guarded by Pages.mu: a used page gets another round before it is dropped, a pinned one stays.
	used bool
	pins int
}

// at puts a state in the page.
func (p *page) at(s run.State, head uint64) {
	p.state, p.head, p.loaded = s, head, true
	if !IsLocal(head) {
		p.known = max(p.known, head)
	}
}

// hold waits for the page, for as long as ctx lives. free must be called after a nil error.
func (p *page) hold(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for run %s: %w", p.id, context.Cause(ctx))
	}
	select {
	case p.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for run %s: %w", p.id, context.Cause(ctx))
	}
}

func (p *page) free() { <-p.held }

// NewPages makes room for the states of that many runs; 0 means DefaultCache.
func NewPages(most int) *Pages {
	if most <= 0 {
		most = DefaultCache
	}
	return &Pages{runs: make(map[string]*page), most: most}
}

// page returns the cache entry of a run and makes room for it. Second chance: a page that was used since the hand
// passed stays for another round.
func (c *Pages) page(runID string) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(runID)
}

// Pin keeps what is known of a run until the function returned is called: who works on what was heard must not meet a
// state from before it.
func (c *Pages) Pin(runID string) (unpin func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.find(runID)
	p.pins++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		p.pins--
	}
}

// find is page with mu held.
func (c *Pages) find(runID string) *page {
	if p := c.runs[runID]; p != nil {
		p.used = true
		return p
	}
	p := &page{id: runID, used: true, held: make(chan struct{}, 1)}
	c.runs[runID] = p
	if len(c.ring) < c.most {
		c.ring = append(c.ring, p)
		return p
	}
	for range 2 * len(c.ring) {
		if old := c.ring[c.hand]; !old.used && old.pins == 0 {
			break
		}
		c.ring[c.hand].used = false
		c.hand = (c.hand + 1) % len(c.ring)
	}
	if c.ring[c.hand].pins > 0 {
		c.ring = append(c.ring, p) // all are in use: there is one more
		return p
	}
	delete(c.runs, c.ring[c.hand].id)
	c.ring[c.hand] = p
	c.hand = (c.hand + 1) % len(c.ring)
	return p
}

// Overhear takes a fact that was stored by somebody else as news about a run that is cached, if it is the next one. It
// never waits: a fact that is not taken is read when it is needed.
func (c *Pages) Overhear(runID string, r Record) {
	c.mu.Lock()
	p := c.runs[runID]
	c.mu.Unlock()
	if p == nil {
		return
	}
	select {
	case p.held <- struct{}{}:
	default:
		return
	}
	defer p.free()
	if !p.loaded || p.head >= r.Seq || p.state.Sequence == 0 {
		return
	}
	if next, err := r.Apply(runID, p.state); err == nil {
		p.at(next, r.Seq)
	}
}

// refresh brings the page up to what the reader has, and at least to what was known here before.
func (l *Ledger) refresh(ctx context.Context, p *page) error {
	known := p.known
	if err := l.load(ctx, p); err != nil || p.head >= known {
		return err
	}
	return l.catchUp(ctx, p, known)
}

// load folds what the reader has after the page's head. A page that is not loaded starts from a snapshot.
func (l *Ledger) load(ctx context.Context, p *page) error {
	if !p.loaded {
		p.state, p.head = run.State{}, 0
		if l.cfg.Snapshots != nil {
			if s, head, ok := l.cfg.Snapshots.Latest(ctx, p.id); ok && l.covers(ctx, p, s, head) {
				if l.fold(ctx, p, s, head) == nil {
					return nil
				}
			}
		}
	}
	cached := p.loaded
	err := l.fold(ctx, p, p.state, p.head)
	if cached && errors.Is(err, ErrHeld) {
		// The log decides, not what was kept or overheard of it: only a log that does not fold from its beginning is damaged.
		return l.fold(ctx, p, run.State{}, 0)
	}
	return err
}

// covers reports whether a snapshot ends with the very fact that the log has at its position. The log decides; a
// snapshot that does not agree with it is as good as none.
func (l *Ledger) covers(ctx context.Context, p *page, s run.State, head uint64) bool {
	if head == 0 || s.HarnessID != p.id {
		return false
	}
	batch, _, err := l.cfg.Journal.Read(ctx, p.id, head-1)
	if err != nil || len(batch) == 0 || batch[0].Seq != head || run.HashOf(batch[0].Bytes) != s.Hash {
		return false
	}
	f, err := events.Decode(batch[0].Bytes)
	return err == nil && f.Sequence == s.Sequence
}

// fold reads and folds on from a state. On damage the page keeps nothing, and the error is ErrHeld.
func (l *Ledger) fold(ctx context.Context, p *page, s run.State, head uint64) error {
	for {
		l.count(func(st *Stats) { st.Reads++ })
		batch, more, err := l.cfg.Journal.Read(ctx, p.id, head)
		if err != nil {
			return fmt.Errorf("read run %s: %w", p.id, err)
		}
		for _, r := range batch {
			next, err := r.Apply(p.id, s)
			if err != nil {
				p.loaded, p.state, p.head = false, run.State{}, 0
				return fmt.Errorf("%w: %w", ErrHeld, err)
			}
			s, head = next, r.Seq
		}
		if !more {
			p.at(s, head)
			return nil
		}
	}
}

// catchUp reads until the page includes a position that was delivered or confirmed. A leader that was deposed and has
// not noticed may know less than was delivered: that is no damage, the fact is heard again.
func (l *Ledger) catchUp(ctx context.Context, p *page, want uint64) error {
	wait := 200 * time.Microsecond
	for range maxSame {
		if err := l.fold(ctx, p, p.state, p.head); err != nil {
			return err
		}
		if p.head >= want {
			return nil
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("read run %s: %w", p.id, err)
		}
		wait = min(2*wait, 20*time.Millisecond)
	}
	return fmt.Errorf("read run %s: still behind position %d", p.id, want)
}

// comeHome takes the log's word for a run whose cached state is partly from a local store: the log speaks of it again,
// so what it has counts. The page is left as it is until the whole run could be read.
func (l *Ledger) comeHome(ctx context.Context, p *page, heard uint64) error {
	// Nothing else is asked of a log that is still away: each question would wait.
	if _, _, err := l.cfg.Journal.Read(ctx, p.id, heard-1); err != nil {
		return fmt.Errorf("read run %s: %w", p.id, err)
	}
	fresh := &page{id: p.id, held: make(chan struct{}, 1)}
	if err := l.refresh(ctx, fresh); err != nil {
		return err
	}
	if fresh.head < heard {
		if err := l.catchUp(ctx, fresh, heard); err != nil {
			return err
		}
	}
	p.at(fresh.state, fresh.head)
	return nil
}

// refreshAfterLoss reads until the fact that won, and what the leader has after it, is folded: a stale reader must not
// lead to the same conflict again.
func (l *Ledger) refreshAfterLoss(ctx context.Context, p *page, won uint64) error {
	if last, ok, err := l.cfg.Journal.Last(ctx, p.id); err == nil && ok {
		won = max(won, last.Seq)
	}
	if err := l.refresh(ctx, p); err != nil || p.head >= won {
		return err
	}
	return l.catchUp(ctx, p, won)
}

// Fresh returns the state of a run up to what the leader has now. It is an error where the leader can not be asked.
func (l *Ledger) Fresh(ctx context.Context, runID string) (run.State, error) {
	if err := events.CheckID("run", runID); err != nil {
		return run.State{}, err
	}
	p := l.cfg.Pages.page(runID)
	if err := p.hold(ctx); err != nil {
		return run.State{}, err
	}
	defer p.free()
	last, ok, err := l.cfg.Journal.Last(ctx, p.id)
	if err != nil {
		return run.State{}, err
	}
	if p.loaded && (!ok || p.head >= last.Seq) {
		return p.state, nil
	}
	if err := l.refresh(ctx, p); err != nil {
		return run.State{}, err
	}
	if p.head < last.Seq {
		if err := l.catchUp(ctx, p, last.Seq); err != nil {
			return run.State{}, err
		}
	}
	return p.state, nil
}

// Reach is State without a look at the log where that many facts of the run are known here, as the log has them.
func (l *Ledger) Reach(ctx context.Context, runID string, sequence uint64) (run.State, uint64, error) {
	if err := events.CheckID("run", runID); err != nil {
		return run.State{}, 0, err
	}
	p := l.cfg.Pages.page(runID)
	if err := p.hold(ctx); err != nil {
		return run.State{}, 0, err
	}
	defer p.free()
	if p.loaded && p.state.Sequence >= sequence && !IsLocal(p.head) {
		return p.state, p.head, nil
	}
	if err := l.refresh(ctx, p); err != nil {
		return run.State{}, 0, err
	}
	return p.state, p.head, nil
}
