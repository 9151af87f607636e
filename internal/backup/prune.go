package backup

import (
	"context"
	"time"
)

// PruneConfig says what is copied, and what of it is left out.
type PruneConfig struct {
	CopyConfig
	// Age is how long before the point of the backup the runs had ended that are left out, each with its whole tree.
	Age time.Duration
}

// Pruned says what became of a backup.
type Pruned struct {
	// Of is the backup that was read, Copy the one that was written.
	Of, Copy Manifest
	// Left are the runs whose events were left out this time.
	Left int
}

// Prune copies a backup and leaves out the events of runs that had ended long ago, with what only they refer to. One
// event stands for each such run. All other events keep their bytes and follow one another without a gap: nothing in a
// log depends on its position in the stream. The backup that is read stays as it is, and is from then on the only place
// that has those events. The same copy has the same bytes.
func Prune(ctx context.Context, cfg PruneConfig) (Pruned, error) {
	c := newCopy(cfg.CopyConfig)
	err := c.make(ctx, func() error {
		c.left = leave(c.runs, c.of.Cut.Add(-cfg.Age))
		return nil
	})
	if err != nil {
		return Pruned{}, err
	}
	return Pruned{c.of, c.m, c.left}, nil
}
