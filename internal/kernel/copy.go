package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// ErrDiverged means that an aggregate exists already with other events than those that were to be copied.
var ErrDiverged = errors.New("it exists already with other events")

// Copy stores an event that was appended elsewhere, byte for byte, as the next one of its aggregate. Its author must be
// this ledger's service. It is stored under the same guard as any other, and only if it fits what is there. An event
// that stands there already with these very bytes is as good as stored; with others the error is ErrDiverged. whole is
// how many events the aggregate will have: until then no role acts on any of them.
func (l *ledger) Copy(ctx context.Context, id string, stored []byte, whole uint64) error {
	a := l.aggregate
	if err := events.CheckID(a.name(), id); err != nil {
		return err
	}
	f, payload, err := a.Read(id, Record{Bytes: stored})
	if err != nil {
		return err
	}
	if w, ok := a.typeOf(payload.Kind()); !ok || w.Author != l.by {
		return fmt.Errorf("copy of %s by %s: %w", payload.Kind(), l.by, ErrDenied)
	}
	p := l.pages.page(id)
	if err := p.hold(ctx); err != nil {
		return err
	}
	defer l.pages.free(p)
	if err := l.renumber(ctx, p); err != nil {
		return err
	}
	if !p.loaded || l.sequence(p) != f.Sequence-1 {
		if err := l.refresh(ctx, p); err != nil {
			return err
		}
	}
	if l.sequence(p) >= f.Sequence {
		return l.same(ctx, p, f.Sequence, stored)
	}
	next, err := a.fold(id, p.state, Record{Bytes: stored})
	if err != nil {
		return fmt.Errorf("copy of event %d: %w", f.Sequence, err)
	}
	seq, err := l.append(ctx, p, Entry{Aggregate: a.name(), ID: id, Kind: payload.Kind(), Head: p.head, Bytes: stored,
		Whole: whole})
	if err != nil {
		p.loaded = false
	}
	if errors.Is(err, errLost) {
		return fmt.Errorf("copy of event %d: %w", f.Sequence, ErrDiverged)
	}
	if err != nil {
		return fmt.Errorf("copy of event %d (%s) to %s %s: %w", f.Sequence, payload.Kind(), a.name(), id, err)
	}
	p.at(next, seq, p.bytes+len(stored))
	return nil
}

// same returns nil where the event of that sequence has these very bytes. The ledger knows that there is one: a reader
// that does not show it is behind, and is asked again.
func (l *ledger) same(ctx context.Context, p *page, sequence uint64, stored []byte) error {
	n, after := uint64(0), uint64(0)
	wait := catchUpWait
	for behind := 0; behind < maxSame; {
		batch, more, err := l.journal.Read(ctx, p.id, after)
		if err != nil {
			return fmt.Errorf("read %s %s: %w", l.aggregate.name(), p.id, err)
		}
		for _, r := range batch {
			if n, after = n+1, r.Seq; n < sequence {
				continue
			}
			if bytes.Equal(r.Bytes, stored) {
				return nil
			}
			return fmt.Errorf("event %d: %w", sequence, ErrDiverged)
		}
		if more {
			continue
		}
		behind++
		if err := Sleep(ctx, wait); err != nil {
			return fmt.Errorf("read %s %s: %w", l.aggregate.name(), p.id, err)
		}
		wait = min(2*wait, maxCatchUpWait)
	}
	return fmt.Errorf("read %s %s: still behind event %d", l.aggregate.name(), p.id, sequence)
}
