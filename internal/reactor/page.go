package reactor

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

// page is the cached state of one run; mu is held while it is read or written.
type page struct {
	id     string
	mu     sync.Mutex
	loaded bool
	state  run.State
	head   uint64
	// used is guarded by Pages.mu; it gives the page another round before it is dropped.
	used bool
}

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
	if p := c.runs[runID]; p != nil {
		p.used = true
		return p
	}
	p := &page{id: runID, used: true}
	c.runs[runID] = p
	if len(c.ring) < c.most {
		c.ring = append(c.ring, p)
		return p
	}
	for c.ring[c.hand].used {
		c.ring[c.hand].used = false
		c.hand = (c.hand + 1) % len(c.ring)
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
	if p == nil || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if !p.loaded || p.head >= r.Seq || p.state.Sequence == 0 {
		return
	}
	if next, err := p.state.Apply(r.Bytes); err == nil {
		p.state, p.head = next, r.Seq
	}
}

// refresh folds what the reader has after the page's head. A page that is not loaded starts from a snapshot.
func (l *Ledger) refresh(ctx context.Context, p *page) error {
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
			next, err := s.Apply(r.Bytes)
			if err != nil {
				p.loaded, p.state, p.head = false, run.State{}, 0
				return fmt.Errorf("%w: %w", ErrHeld, err)
			}
			s, head = next, r.Seq
		}
		if !more {
			p.state, p.head, p.loaded = s, head, true
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
	fresh := &page{id: p.id}
	if err := l.refresh(ctx, fresh); err != nil {
		return err
	}
	if fresh.head < heard {
		if err := l.catchUp(ctx, fresh, heard); err != nil {
			return err
		}
	}
	p.state, p.head = fresh.state, fresh.head
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

// Fresh returns the state of a run up to what the leader has now.
func (l *Ledger) Fresh(ctx context.Context, runID string) (run.State, error) {
	p := l.cfg.Pages.page(runID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := l.refreshAfterLoss(ctx, p, 0); err != nil {
		return run.State{}, err
	}
	return p.state, nil
}
