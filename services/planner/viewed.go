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
	view   kernel.View[S]
	ledger *kernel.Ledger[S]
	rows   kernel.KV
}

// change makes one change: appended only where the aggregate still is what it was decided on, and decided again where
// it is not. It returns once the row shows the log, also where there is nothing to change.
func (v viewed[S]) change(ctx context.Context, id string, decide func(S) (S, error)) (s S, err error) {
	for range maxSwaps {
		s, err := v.ledger.Fresh(ctx, id)
		if err != nil {
			return s, fmt.Errorf("%s %s: %w", v.view.Name, id, err)
		}
		next, err := decide(s)
		if err != nil {
			return s, err
		}
		on, changes := v.view.At(s).Sequence, v.view.At(next).Changes()
		w, err := v.ledger.Write(ctx, id, func(now S, _ time.Time) ([]events.Payload, error) {
			if v.view.At(now).Sequence != on {
				return nil, errMoved
			}
			return changes, nil
		})
		switch {
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return s, fmt.Errorf("%s %s: %w", v.view.Name, id, err)
		}
		return w.State, v.show(ctx, id, w.State, w.Head)
	}
	return s, &kernel.RetryAfter{After: sessionAgain}
}

// shown has the row show the log. Who finds that a change was made already calls it: whoever made it may have died
// before it came to the row, and the message that led to the change is acknowledged now.
func (v viewed[S]) shown(ctx context.Context, id string) error {
	_, err := v.change(ctx, id, func(s S) (S, error) { return s, nil })
	return err
}

// show writes the row of an aggregate where it does not show the state yet. A row that shows more is left.
func (v viewed[S]) show(ctx context.Context, id string, s S, position uint64) error {
	sequence := v.view.At(s).Sequence
	if sequence == 0 {
		return nil
	}
	for range maxSwaps {
		row, revision, err := v.rows.Load(ctx, v.view.Key(id))
		if err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return fmt.Errorf("row of %s %s: %w", v.view.Name, id, err)
		}
		if shown, _, ok := v.view.Read(row); ok && v.view.At(shown).Sequence >= sequence {
			return nil
		}
		b, err := v.view.Row(s, position)
		if err != nil {
			return err
		}
		if _, err = v.rows.Swap(ctx, v.view.Key(id), b, revision); !errors.Is(err, kernel.ErrExists) {
			return err
		}
	}
	return &kernel.RetryAfter{After: sessionAgain}
}
