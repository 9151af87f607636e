package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// ErrNoFact means that an aggregate has fewer events than the one that was asked for.
var ErrNoEvent = errors.New("there is no such event")

// At returns the state of an aggregate as it was after one of its events, folded from the first. One that does not
// exist is ErrNotFound, a sequence beyond its end ErrNoFact, a log that does not fold up to there ErrHeld; all are
// wrapped.
func (l *Ledger[S]) At(ctx context.Context, id string, sequence uint64) (S, error) {
	var s, none S
	a := l.cfg.Aggregate
	if err := events.CheckID(a.Name, id); err != nil {
		return none, err
	}
	there := uint64(0)
	for after := uint64(0); there < sequence; {
		batch, more, err := l.cfg.Journal.Read(ctx, id, after)
		if err != nil {
			return none, fmt.Errorf("read %s %s: %w", a.Name, id, err)
		}
		for _, r := range batch {
			if there == sequence {
				break
			}
			if s, err = a.fold(id, s, r); err != nil {
				return none, fmt.Errorf("%w: %w", ErrHeld, err)
			}
			there, after = a.Chain(&s).Sequence, r.Seq
		}
		if !more {
			break
		}
	}
	switch {
	case there == 0:
		return s, fmt.Errorf("%s %s: %w", a.Name, id, ErrNotFound)
	case there < sequence:
		return none, fmt.Errorf("%s %s has %d events, not %d: %w", a.Name, id, there, sequence, ErrNoEvent)
	}
	return s, nil
}
