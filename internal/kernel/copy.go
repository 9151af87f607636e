package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ErrDiverged means that a run exists already with other facts than those that were to be copied.
var ErrDiverged = errors.New("the run exists already with other facts")

// Copy stores a fact that was said elsewhere, byte for byte, as the next one of its run. Its author must be this
// ledger's service. It is stored under the same guard as any other, and only if it fits what is there. A fact that
// stands there already with these very bytes is as good as stored; with others the error is ErrDiverged. whole is how
// many facts the run will have: until then no role acts on any of them.
func (l *Ledger) Copy(ctx context.Context, runID string, stored []byte, whole uint64) error {
	if err := events.CheckID("run", runID); err != nil {
		return err
	}
	f, payload, err := Record{Bytes: stored}.Read(runID)
	if err != nil {
		return err
	}
	if w, ok := events.Lookup(payload.Kind()); !ok || w.Author != l.cfg.By {
		return fmt.Errorf("copy of %s by %s: %w", payload.Kind(), l.cfg.By, ErrDenied)
	}
	p := l.cfg.Pages.page(runID)
	if err := p.hold(ctx); err != nil {
		return err
	}
	defer p.free()
	if !p.loaded || p.state.Sequence != f.Sequence-1 {
		if err := l.refresh(ctx, p); err != nil {
			return err
		}
	}
	if p.state.Sequence >= f.Sequence {
		return l.same(ctx, p, f.Sequence, stored)
	}
	next, err := p.state.ApplyFact(f, payload, run.HashOf(stored))
	if err != nil {
		return fmt.Errorf("copy of fact %d: %w", f.Sequence, err)
	}
	seq, err := l.append(ctx, p, Entry{ID: runID, Kind: payload.Kind(), Head: p.head, Bytes: stored, Whole: whole})
	if err != nil {
		p.loaded = false
	}
	if errors.Is(err, errLost) {
		return fmt.Errorf("copy of fact %d: %w", f.Sequence, ErrDiverged)
	}
	if err != nil {
		return fmt.Errorf("copy of fact %d (%s) to run %s: %w", f.Sequence, payload.Kind(), runID, err)
	}
	p.at(next, seq)
	return nil
}

// same returns nil where the fact of that sequence has these very bytes.
func (l *Ledger) same(ctx context.Context, p *page, sequence uint64, stored []byte) error {
	want, n, after := run.HashOf(stored), uint64(0), uint64(0)
	for {
		batch, more, err := l.cfg.Journal.Read(ctx, p.id, after)
		if err != nil {
			return fmt.Errorf("read run %s: %w", p.id, err)
		}
		for _, r := range batch {
			if n, after = n+1, r.Seq; n < sequence {
				continue
			}
			if run.HashOf(r.Bytes) == want {
				return nil
			}
			return fmt.Errorf("fact %d: %w", sequence, ErrDiverged)
		}
		if !more {
			return fmt.Errorf("fact %d of run %s can not be read any more: %w", sequence, p.id, ErrDiverged)
		}
	}
}
