package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// cleanupCommand is inspan session cleanup.
type cleanupCommand struct {
	App   *app.App
	older string
	dry   bool
}

func cleanupCmd(a *app.App) *cobra.Command {
	c := &cleanupCommand{App: a}
	cmd := &cobra.Command{
		Use: "cleanup", Short: "Delete the sessions that were not used for long", Args: app.Args(0),
		Long:    "Deletes the sessions that were not used for as long as --older-than says. One that a run works in is never among them.",
		Example: "  inspan session cleanup --older-than 7d --dry-run\n  inspan session cleanup --older-than 720h",
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.older, "older-than", days(events.StaleAfter),
		"how long a session must have lain unused, such as 7d or 36h")
	cmd.Flags().BoolVar(&c.dry, "dry-run", false, "only say which would be deleted")
	return cmd
}

func (a *cleanupCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	d, err := Span(a.older)
	if err != nil {
		return app.Usage("--older-than: %w", err)
	}
	before := time.Now().Add(-d).UTC()
	all, err := c.Sessions().List(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e events.Session) bool { return len(e.Holders) > 0 || e.UsedAt.After(before) })
	gone := []string{}
	for _, e := range all {
		if !a.dry {
			err := deleteSession(ctx, a.App, c, e.ID, events.SessionControl{Action: "delete", Before: &before, By: a.App.Me()})
			if r, ok := errors.AsType[*client.RefusedError](err); ok {
				fmt.Fprintf(a.App.Err, "inspan: %s is kept: %s\n", e.ID, r.Reason)
				continue
			}
			if err != nil {
				return err
			}
		}
		gone = append(gone, e.ID)
		if !a.App.JSON {
			fmt.Fprintf(a.App.Out, "%s  %s\n", e.ID, a.App.Paint().Dim("last used "+app.Age(e.UsedAt)+" ago"))
		}
	}
	if a.App.JSON {
		return a.App.PrintJSON(map[string]any{"sessions": gone, "deleted": !a.dry, "older_than": d.String()})
	}
	word := "Deleted"
	if a.dry {
		word = "Would delete"
	}
	fmt.Fprintf(a.App.Out, "%s %s.\n", word, view.Plural(len(gone), "session"))
	return nil
}

// deleteSession deletes one session among several.
func deleteSession(ctx context.Context, a *app.App, c *client.Client, id string, ctl events.SessionControl) error {
	ctx, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	if _, err := c.Sessions().Control(ctx, id, ctl); err != nil {
		return err
	}
	if err := c.Sessions().Sweep(ctx, id); err != nil {
		fmt.Fprintf(a.Err, "inspan: the files of session %s stay until its name is used again: %v\n", id, err)
	}
	return nil
}

// Span reads a length of time, in days too.
func Span(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if n, isDays := strings.CutSuffix(text, "d"); isDays {
		var whole int
		whole, err = strconv.Atoi(n)
		d = time.Duration(whole) * 24 * time.Hour
		if whole > 36500 {
			err = strconv.ErrRange
		}
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a length of time such as 7d or 36h", text)
	}
	return d, nil
}
