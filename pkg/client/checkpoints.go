package client

import (
	"context"

	"github.com/inspan/inspan/pkg/run"
)

// Checkpoints lists the checkpoints of a run, oldest first (PERS-10). ErrNotFound where there is no such run. Fork goes on from
// one of them.
func (c *Client) Checkpoints(ctx context.Context, runID string) ([]run.Checkpoint, error) {
	s, err := c.State(ctx, runID)
	if err != nil {
		return nil, err
	}
	return append([]run.Checkpoint{}, s.Checkpoints.Slice()...), nil
}
