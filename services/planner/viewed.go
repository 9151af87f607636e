package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// viewed is an aggregate whose state holds what was decided on it, and that has a row which people read.
type viewed[S any] struct {
	name   string
	ledger *kernel.Ledger[S]
	rows   kernel.KV
	// key is that of the row of an id, row the row at the position of the last event. fromRow reads one; ok is false for
	// one that shows no log.
	key     func(id string) string
	row     func(s S, position uint64) ([]byte, error)
	fromRow func(row []byte) (shown S, position uint64, ok bool)
	// of are the number of the last event of a state and what was decided on it.
	of func(s S) (sequence uint64, changes []events.Payload)
}

// change makes one change: appended only where the aggregate still is what it was decided on, and decided again where it
// is not. It returns once the row shows the log, also where there is nothing to change.
func (v viewed[S]) change(ctx context.Context, id string, decide func(S) (S, error)) (s S, err error) {
	for range maxSwaps {
		s, err := v.ledger.Fresh(ctx, id)
		if err != nil {
			return s, fmt.Errorf("%s %s: %w", v.name, id, err)
		}
		next, err := decide(s)
		if err != nil {
			return s, err
		}
		on, _ := v.of(s)
		_, changes := v.of(next)
		w, err := v.ledger.Write(ctx, id, func(now S, _ time.Time) ([]events.Payload, error) {
			if sequence, _ := v.of(now); sequence != on {
				return nil, errMoved
			}
			return changes, nil
		})
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return s, fmt.Errorf("%s %s: %w", v.name, id, err)
		}
		return w.State, v.show(ctx, id, w.State, w.Head)
	}
	return s, &kernel.RetryAfter{After: sessionAgain}
}

// show writes the row of an aggregate where it does not show the state yet. A row that shows more is left.
func (v viewed[S]) show(ctx context.Context, id string, s S, position uint64) error {
	sequence, _ := v.of(s)
	if sequence == 0 {
		return nil
	}
	for range maxSwaps {
		row, revision, err := v.rows.Load(ctx, v.key(id))
		if err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return fmt.Errorf("row of %s %s: %w", v.name, id, err)
		}
		if shown, _, ok := v.fromRow(row); ok {
			if n, _ := v.of(shown); n >= sequence {
				return nil
			}
		}
		b, err := v.row(s, position)
		if err != nil {
			return err
		}
		if _, err = v.rows.Swap(ctx, v.key(id), b, revision); !errors.Is(err, kernel.ErrExists) {
			return err
		}
	}
	return &kernel.RetryAfter{After: sessionAgain}
}
