// Package dead has inspan dead: the messages that the station refused.
package dead

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
)

// Command makes inspan dead and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Look at input that the station refused",
		Long:    "What a station refuses is kept for a week with the reason and what to do: tasks, controls and answers to gates.",
		Example: "  inspan dead list\n  inspan dead show 3\n  inspan dead replay 3", Args: cobra.ArbitraryArgs,
		RunE: app.Group,
	}
	cmd.AddCommand(listCmd(a), showCmd(a), replayCmd(a))
	return cmd
}

// listCommand is inspan dead list.
type listCommand struct {
	App *app.App
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	return &cobra.Command{
		Use: "list", Short: "List refused input, the oldest first", Example: "  inspan dead list\n  inspan dead list --json",
		Args: app.Args(0),
		RunE: a.Connected(c.run),
	}
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	letters, err := c.DeadLetters().List(ctx)
	if err != nil {
		return err
	}
	list := app.Listing{Heads: []string{">NO", ">AGE", "BY", "CODE", "SUBJECT", "REASON"}, Empty: "Nothing was refused."}
	for _, l := range letters {
		code := l.Code
		if l.Replayed != nil {
			code += ", replayed"
		}
		list.Add(fmt.Sprint(l.Seq), l, fmt.Sprint(l.Seq), app.Age(l.Time), string(l.By), code, view.Clip(l.Subject, 60),
			view.Clip(l.Reason, 100))
	}
	return a.App.Print(list)
}

// showCommand is inspan dead show.
type showCommand struct {
	App *app.App
}

func showCmd(a *app.App) *cobra.Command {
	c := &showCommand{App: a}
	return &cobra.Command{
		Use: "show NO", Short: "Show one refused message whole", Example: "  inspan dead show 3\n  inspan dead show 3 --json",
		Args: app.Args(1),
		RunE: c.run,
	}
}

func (a *showCommand) run(cmd *cobra.Command, argv []string) error {
	no, err := letterNo(argv[0])
	if err != nil {
		return err
	}
	return a.App.Connected(func(ctx context.Context, c *client.Client, _ []string) error {
		return showDead(ctx, a.App, c,
			no)
	})(cmd, argv)
}

func replayedAt(l client.Letter, zone *time.Location) string {
	if l.Replayed == nil {
		return ""
	}
	return l.Replayed.In(zone).Format("2006-01-02 15:04:05")
}

func letterNo(text string) (uint64, error) {
	no, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, app.Usage("%q is not a number of inspan dead list", text)
	}
	return no, nil
}

// replayCommand is inspan dead replay.
type replayCommand struct {
	App *app.App
	yes bool
}

func replayCmd(a *app.App) *cobra.Command {
	c := &replayCommand{App: a}
	cmd := &cobra.Command{
		Use: "replay NO", Short: "Publish a refused message again, on its subject",
		Long: `Publishes a refused message again, once the reason for its refusal is fixed, and waits until the station has accepted it. Then
the list shows it as replayed, and it is not published a third time. Refused again, it is a new entry of the list.`,
		Example: "  inspan dead replay 3\n  inspan dead replay 3 --yes", Args: app.Args(1),
		RunE: c.run,
	}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *replayCommand) run(cmd *cobra.Command, argv []string) error {
	no, err := letterNo(argv[0])
	if err != nil {
		return err
	}
	return a.App.Connected(func(ctx context.Context, c *client.Client, _ []string) error {
		if !a.yes {
			if err := showDead(ctx, a.App, c, no); err != nil {
				return err
			}
			err := a.App.Confirm("Publish this again?",
				"the message was not published again; --yes publishes it without asking")
			if err != nil {
				return err
			}
		}
		wait, cancel := context.WithTimeout(ctx, a.App.Wait)
		defer cancel()
		l, err := c.DeadLetters().Replay(wait, no)
		if errors.Is(err, client.ErrReplayed) || errors.Is(err, client.ErrNotWhole) {
			return app.Exit(app.ExitRefused, err)
		}
		if err != nil {
			return err
		}
		if a.App.JSON {
			return a.App.PrintJSON(map[string]any{"letter": no, "subject": l.Subject, "taken": true})
		}
		fmt.Fprintf(a.App.Out, "Message %d was published again on %s and accepted.\n", no, view.Clip(l.Subject, 200))
		return nil
	})(cmd, argv)
}

func showDead(ctx context.Context, a *app.App, c *client.Client, no uint64) error {
	letters, err := c.DeadLetters().List(ctx)
	if err != nil {
		return err
	}
	for _, l := range letters {
		if l.Seq != no {
			continue
		}
		if a.JSON {
			return a.PrintJSON(l)
		}
		a.Pairs([][2]string{{"No", fmt.Sprint(l.Seq)}, {"When", l.Time.In(a.Zone()).Format("2006-01-02 15:04:05")},
			{"Refused by", string(l.By)},
			{"Subject", view.Clip(l.Subject, 200)}, {"Run", l.Run}, {"Code", l.Code}, {"Replayed", replayedAt(l, a.Zone())},
			{"Reason", view.Clip(l.Reason, 1000)}, {"What to do", view.Clip(l.Hint, 1000)},
			{"Message", view.Bytes(int64(l.DataBytes))}})
		fmt.Fprintf(a.Out, "\n%s\n", terminal.Sanitize(l.Data))
		return nil
	}
	return fmt.Errorf("dead letter %d: %w; inspan dead list lists those of the last week", no, client.ErrNotFound)
}
