package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ErrNoFact means that a run has fewer facts than the one that was asked for.
var ErrNoFact = errors.New("the run has no such fact")

// At returns the state of a run as it was after one of its facts, folded from the first. A run that does not exist is
// ErrNotFound, a sequence beyond its end ErrNoFact, a log that does not fold up to there ErrHeld; all are wrapped.
func (l *Ledger) At(ctx context.Context, runID string, sequence uint64) (run.State, error) {
	if err := events.CheckID("run", runID); err != nil {
		return run.State{}, err
	}
	var s run.State
	for after := uint64(0); s.Sequence < sequence; {
		batch, more, err := l.cfg.Journal.Read(ctx, runID, after)
		if err != nil {
			return run.State{}, fmt.Errorf("read run %s: %w", runID, err)
		}
		for _, r := range batch {
			if s.Sequence == sequence {
				break
			}
			if s, err = r.Apply(runID, s); err != nil {
				return run.State{}, fmt.Errorf("%w: %w", ErrHeld, err)
			}
			after = r.Seq
		}
		if !more {
			break
		}
	}
	switch {
	case s.Sequence == 0:
		return s, fmt.Errorf("run %s: %w", runID, ErrNotFound)
	case s.Sequence < sequence:
		return run.State{}, fmt.Errorf("run %s has %d facts, not %d: %w", runID, s.Sequence, sequence, ErrNoFact)
	}
	return s, nil
}
