package sessions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// infoCommand is inspan session info.
type infoCommand struct {
	App *app.App
}

func infoCmd(a *app.App) *cobra.Command {
	c := &infoCommand{App: a}
	return &cobra.Command{
		Use: "info NAME", Short: "Show where a session stands: its lock, settings, conversation and runs",
		Example: "  inspan session info parser\n  inspan session info parser --json | jq .holders", Args: app.Args(1),
		RunE: a.Connected(c.run),
	}
}

func (a *infoCommand) run(ctx context.Context, c *client.Client, args []string) error {
	e, err := c.Sessions().Get(ctx, args[0])
	if err != nil {
		return noSession(err)
	}
	infos, err := c.Runs().List(ctx)
	if err != nil {
		return err
	}
	runs := []string{}
	for _, i := range infos {
		if i.SessionID == e.ID {
			runs = append(runs, i.HarnessID)
		}
	}
	if a.App.JSON {
		return a.App.PrintJSON(struct {
			events.Session
			Stale bool     `json:"stale"`
			RunID []string `json:"runs"`
		}{e, e.Stale(time.Now()), runs})
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.In(a.App.Zone()).Format("2006-01-02 15:04:05") + a.App.Paint().Dim(", "+app.Age(t)+" ago")
	}
	var locks []string
	for _, h := range e.Holders {
		l := fmt.Sprintf("run %s of %s since %s (fence %d)", h.Run, h.Agent, h.Since.In(a.App.Zone()).Format("15:04:05"), h.Fence)
		if !h.Until.IsZero() {
			l += ", at the latest until " + h.Until.In(a.App.Zone()).Format("2006-01-02 15:04:05")
		}
		locks = append(locks, l)
	}
	a.App.Pairs([][2]string{
		{"Session", a.App.Paint().Bold(e.ID) + "  " + sessionState(a.App, e)}, {"Mode", string(e.Mode)},
		{"Locked by", strings.Join(locks, "; ")},
		{"Created", at(e.CreatedAt)}, {"Last used", at(e.UsedAt)}, {"Workspace", "session/" + e.ID},
		{"Branch", view.Clip(e.Branch, 200)}, {"Model", view.Clip(e.Model, 200)},
		{"System prompt", view.Clip(e.Prompt, 200)}, {"Conversation",
			fmt.Sprintf("%s of %s", view.Plural(e.Messages, "message"), view.Plural(e.Parts, "input"))},
		{"Tokens", fmt.Sprintf("%s in, %s out", view.Count(e.InputTokens), view.Count(e.OutputTokens))},
		{"Runs", fmt.Sprint(e.Runs)}, {"", view.Clip(strings.Join(runs, " "), 400)},
	})
	warnStale(a.App, e)
	return nil
}

func noSession(err error) error {
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w; inspan session list lists those of the station", err)
	}
	return err
}
