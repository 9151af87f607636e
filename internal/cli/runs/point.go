package runs

import (
	"context"
	"strconv"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
)

// Sequence reads --at: the sequence of an event, or the name of a checkpoint of the run.
func Sequence(ctx context.Context, a *app.App, c *client.Client, runID, at string) (uint64, error) {
	if at == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(at, 10, 64); err == nil {
		return n, nil
	}
	all, err := c.Runs().Checkpoints(ctx, runID)
	if err != nil {
		return 0, err
	}
	for _, k := range all {
		if k.Name == at {
			return k.Sequence, nil
		}
	}
	return 0, app.Usage("run %s has no checkpoint %q, and an event is named by its number; inspan checkpoints %s lists its checkpoints", runID, at, runID)
}

// NoSuchSequence is the error of a sequence that the run does not have.
func NoSuchSequence(runID string, at, last uint64) error {
	return app.Usage("run %s has %s, --at %d is beyond its end; inspan logs %s shows them", runID, view.Plural(int(last), "event"), at, runID) //nolint:gosec // far below the limit
}
