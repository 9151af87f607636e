package sessions

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// warnStale warns of a session that was not used for long (SESS-14).
func warnStale(a *app.App, e events.Session) {
	if e.Stale(time.Now()) {
		fmt.Fprintf(a.Err, "inspan: session %s was last used %s ago: its files and its conversation may be out of date\n",
			e.ID, app.Age(e.UsedAt))
	}
}

// WarnOfAge warns where a run is about to use a stale session. A session that cannot be read is no reason to wait.
func WarnOfAge(ctx context.Context, a *app.App, c *client.Client, id string) {
	if id == "" {
		return
	}
	if e, err := c.Sessions().Get(ctx, id); err == nil {
		warnStale(a, e)
	}
}

// settleWait bounds how long a command stays after the end of its run until the session has its conversation.
const settleWait = 2 * time.Second

// Settle lets whoever comes next find the session as the run left it. Where that takes long, it comes about all the
// same.
func Settle(ctx context.Context, a *app.App, c *client.Client, last run.State) {
	if last.Created == nil || last.Created.SessionFence == 0 || !last.Status.Ended() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	_ = c.Sessions().Settled(ctx, last.Created.Session, last.HarnessID)
}
