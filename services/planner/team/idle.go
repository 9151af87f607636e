package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/patrol"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// idlers is the part that knows what idle agents left.
type idlers struct{ *Postmaster }

// leftRuns is how many runs of an agent are asked what they left.
const leftRuns = 3

// left is what the last run of an idle agent left in its working tree, and when that run ended. A run that says
// nothing of it, since no call of it may have changed anything, left what the one before left. It is nil for nothing
// known.
func (p idlers) left(ctx context.Context, s mailbox.State) (*events.Uncommitted, time.Time, error) {
	ended, ok := mailbox.LeftAt(s)
	if !ok {
		return nil, ended, nil
	}
	for _, past := range slices.Backward(s.Life.Past[max(0, len(s.Life.Past)-leftRuns):]) {
		of, err := p.runs.Fresh(ctx, past.Run)
		if errors.Is(err, kernel.ErrHeld) {
			return nil, ended, nil // the alert that it is held is about that run
		}
		if err != nil {
			return nil, ended, fmt.Errorf("the last run of %s: %w", s.Address, err)
		}
		if u := patrol.Left(of); u != nil {
			return u, ended, nil
		}
	}
	return nil, ended, nil
}
