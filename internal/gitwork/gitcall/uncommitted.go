package gitcall

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// lookTime bounds how long a call waits until its working tree was looked at.
const lookTime = 10 * time.Second

// Uncommitted is what the working tree of the run of a named agent has that no commit has: its supervision finds an
// idle agent that left some. It is nil where nothing is known: for other runs, in a directory of a person, outside of
// a repository, and where git cannot say it in time.
func (c *Calls) Uncommitted(ctx context.Context, s run.State, at workdir.Dir) *events.Uncommitted {
	if c.cfg.Desk == nil || s.Created == nil || s.Created.Address == nil || inPlace(at) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	u, err := c.cfg.Desk.Uncommitted(ctx, c.job(s, at).Dir)
	if err != nil {
		return nil
	}
	return u
}
