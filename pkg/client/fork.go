package client

import (
	"context"

	"github.com/inspan/inspan/pkg/events"
)

// Fork asks for a run that begins where another one stood.
type Fork struct {
	// Run is forked after its event At, or where that is 0 after the Checkpoint named.
	Run        string
	At         uint64
	Checkpoint string
	// Say is a message to the agent that works there, or worked last.
	Say string
	// ID of the new run; empty makes one.
	ID string
	// By is who asks.
	By string
	// SameWorkspace lets both work in one directory.
	SameWorkspace bool
}

// Fork starts a run from where another one stood and returns its id once it exists (PLUS-1). The other run stays as it
// is. Its errors are those of Start; an event that the run does not have, and one after which there is nothing to do,
// is a *RefusedError with the code bad_fork.
func (c *Client) Fork(ctx context.Context, f Fork) (runID string, err error) {
	return c.Start(ctx, events.Task{ID: f.ID, By: f.By, Say: f.Say,
		ForkOf: &events.ForkPoint{Run: f.Run, Sequence: f.At, Checkpoint: f.Checkpoint, SameWorkspace: f.SameWorkspace}})
}
