package sessions

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// listCommand is inspan session list.
type listCommand struct {
	App   *app.App
	watch bool
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the sessions, those used last first",
		Example: "  inspan session list\n  inspan session list --json", Args: app.Args(0),
		RunE: a.Connected(c.run),
	}
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	var stale []string
	err := a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"NAME", "STATUS", "MODE", ">USED", ">RUNS", ">MESSAGES", ">TOKENS", "LOCKED BY",
			"BRANCH"}, Empty: `No sessions. Start one with: inspan run AGENT "TASK" --session NAME`}
		all, err := c.Sessions().List(ctx)
		stale = nil
		for _, e := range all {
			if e.Stale(time.Now()) {
				stale = append(stale, e.ID)
			}
			l.Add(e.ID, e, e.ID, sessionState(a.App, e), string(e.Mode), app.Age(e.UsedAt), fmt.Sprint(e.Runs),
				fmt.Sprint(e.Messages), view.Count(e.InputTokens+e.OutputTokens), holders(e), view.Clip(e.Branch, 40))
		}
		return l, err
	})
	if err != nil || a.App.JSON {
		return err
	}
	if len(stale) > 0 {
		fmt.Fprintf(a.App.Err, "inspan: %s not used for %s: what is in them may be out of date; inspan session cleanup --older-than %s deletes them\n",
			view.Plural(len(stale), "session"), days(events.StaleAfter), days(events.StaleAfter))
	}
	return nil
}

// sessionState is the status that a list shows: a stale one says so.
func sessionState(a *app.App, e events.Session) string {
	p := a.Paint()
	switch {
	case len(e.Holders) > 0 && e.Status == events.SessionOpen:
		return p.Yellow("locked")
	case e.Stale(time.Now()):
		return p.Yellow(string(e.Status) + ", stale")
	}
	return string(e.Status)
}

func holders(e events.Session) string {
	var ids []string
	for _, h := range e.Holders {
		ids = append(ids, h.Run)
	}
	return view.Clip(strings.Join(ids, " "), 60)
}

func days(d time.Duration) string { return fmt.Sprintf("%dd", int(d/(24*time.Hour))) }
