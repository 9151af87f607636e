// Package space has inspan space: what takes the room of a station, and how long it lasts.
package space

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// command is inspan space.
type command struct {
	App   *app.App
	watch bool
}

// Command makes inspan space. more are the commands below it.
func Command(a *app.App, more ...*cobra.Command) *cobra.Command {
	c := &command{App: a}
	cmd := &cobra.Command{Use: "space", Short: "Show what takes the room of a station, and when it is full",
		Long: `Shows what each stream of a station takes, how much of its limit that is, by how much the log grew in the last day, and when it is full if it
goes on like that. Where somebody must make room, the exit code is 1. The buckets (KV_ and OBJ_) are those of all stations of the account.`,
		Example: "  inspan space\n  inspan space --json | jq '.[] | select(.limit) | {stream, used: (.bytes / .limit)}'",
		Args:    app.Args(0), RunE: a.Connected(c.run)}
	app.WatchFlag(cmd, &c.watch)
	cmd.AddCommand(append([]*cobra.Command{planCmd(a)}, more...)...)
	return cmd
}

func (c *command) run(ctx context.Context, cl *client.Client, _ []string) error {
	var warned []events.Space
	err := c.App.List(ctx, c.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"STREAM", ">MESSAGES", ">USED", ">LIMIT", ">SHARE", ">A DAY", ">FULL IN"},
			Empty: "This station has no streams: it is one file."}
		all, err := client.SpaceOf(ctx, cl)
		warned = nil
		for _, s := range all {
			if s.Warns() {
				warned = append(warned, s)
			}
			limit, share, grows := "-", "-", "-"
			if s.Limit > 0 {
				limit, share = view.Bytes(s.Limit), fmt.Sprintf("%.0f %%", 100*s.Share())
			}
			if s.PerDay > 0 {
				grows = view.Bytes(s.PerDay)
			}
			l.Add(s.Stream, s, s.Stream, fmt.Sprint(s.Messages), view.Bytes(s.Bytes), limit, share, grows, Lasts(s))
		}
		return l, err
	})
	if err != nil || len(warned) == 0 {
		return err
	}
	return fmt.Errorf("%s: raise its limit, or make room before it refuses events (inspan space make, see The log is full in docs/runbook.md)", Warning(warned[0]))
}

// Lasts says how long a stream has room for; "-" where that is not known.
func Lasts(s events.Space) string {
	d, ok := s.FullIn()
	switch {
	case !ok:
		return "-"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
	return view.Span(d.Round(time.Minute))
}

// Warning says in one line why somebody should make room.
func Warning(s events.Space) string {
	text := fmt.Sprintf("%s has %s of %s (%.0f %%)", s.Stream, view.Bytes(s.Bytes), view.Bytes(s.Limit), 100*s.Share())
	if _, ok := s.FullIn(); ok {
		text += ", full in " + Lasts(s)
	}
	return text
}
