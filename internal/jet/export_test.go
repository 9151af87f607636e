package jet

import (
	"context"

	"github.com/inspan/inspan/internal/kernel"
)

// MaxAgain is for tests.
const MaxAgain = maxAgain

// Back is journal.back of a journal of runs.
func Back(ctx context.Context, j kernel.Journal, id string, after uint64) (evs []kernel.Record, whole bool) {
	return j.(journal).back(ctx, id, after) //nolint:forcetypeassert // tests give no other
}

// Apart is for tests.
const Apart = apart
