package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// ErrNoEvent means that an aggregate has fewer events than the one that was asked for.
var ErrNoEvent = errors.New("there is no such event")

// at is Ledger.At.
func (l *ledger) at(ctx context.Context, id string, sequence uint64) (state, error) {
	a := l.aggregate
	s := a.none()
	if err := events.CheckID(a.name(), id); err != nil {
		return nil, err
	}
	there := uint64(0)
	for after := uint64(0); there < sequence; {
		batch, more, err := l.journal.Read(ctx, id, after)
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", a.name(), id, err)
		}
		for _, r := range batch {
			if there == sequence {
				break
			}
			if s, err = a.fold(id, s, r); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrHeld, err)
			}
			there, after = a.chain(s).Sequence, r.Seq
		}
		if !more {
			break
		}
	}
	switch {
	case there == 0:
		return nil, fmt.Errorf("%s %s: %w", a.name(), id, ErrNotFound)
	case there < sequence:
		return nil, fmt.Errorf("%s %s has %d events, not %d: %w", a.name(), id, there, sequence, ErrNoEvent)
	}
	return s, nil
}
