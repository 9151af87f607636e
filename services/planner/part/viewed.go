package part

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// MaxSwaps bounds how often an aggregate is changed again because another writer was faster.
	MaxSwaps = 8
	// Again is when an aggregate that others change all the time is looked at again.
	Again = 250 * time.Millisecond
)

// ErrMoved means that an aggregate is not what was decided on any more.
var ErrMoved = errors.New("it was changed meanwhile")

// Viewed is an aggregate whose state holds what was decided on it, and that has a row which people read.
type Viewed[S any] struct {
	view   kernel.View[S]
	ledger *kernel.Ledger[S]
	rows   kernel.KV
}

// NewViewed returns an aggregate whose states are in a ledger and whose rows are in a bucket.
func NewViewed[S any](v kernel.View[S], l *kernel.Ledger[S], rows kernel.KV) Viewed[S] {
	return Viewed[S]{v, l, rows}
}

// Change makes one change: appended only where the aggregate still is what it was decided on, and decided again where
// it is not. It returns once the row shows the log, also where there is nothing to change.
func (v Viewed[S]) Change(ctx context.Context, id string, decide func(S) (S, error)) (s S, err error) {
	for range MaxSwaps {
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
				return nil, ErrMoved
			}
			return changes, nil
		})
		switch {
		case errors.Is(err, ErrMoved):
			continue
		case err != nil:
			return s, fmt.Errorf("%s %s: %w", v.view.Name, id, err)
		}
		return w.State, v.Show(ctx, id, w.State, w.Head)
	}
	return s, &kernel.RetryAfter{After: Again}
}

// Shown has the row show the log. Who finds that a change was made already calls it: whoever made it may have died
// before it came to the row, and the message that led to the change is acknowledged now.
func (v Viewed[S]) Shown(ctx context.Context, id string) error {
	_, err := v.Change(ctx, id, func(s S) (S, error) { return s, nil })
	return err
}

// Show writes the row of an aggregate where it does not show the state yet. A row that shows more is left.
func (v Viewed[S]) Show(ctx context.Context, id string, s S, position uint64) error {
	sequence := v.view.At(s).Sequence
	if sequence == 0 {
		return nil
	}
	for range MaxSwaps {
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
	return &kernel.RetryAfter{After: Again}
}
