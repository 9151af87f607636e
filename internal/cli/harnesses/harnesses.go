// Package harnesses has inspan harness: see the programs that were written with the Go SDK, and their steps.
package harnesses

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

// Command makes inspan harness and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "harness", Short: "Programs written with the Go SDK: their steps and their state",
		Long: `A harness is a program of others, written with the Go package pkg/harness, whose steps the station records. It is started and
stopped like any program; a program that is started again goes on after the last step that is listed here.`,
		Example: "  inspan harness list\n  inspan harness steps trading-1", Args: cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(listCmd(a), stepsCmd(a))
	return cmd
}

// listCommand is inspan harness list.
type listCommand struct {
	App   *app.App
	watch bool
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"},
		Short:   "List the harnesses with their steps and who records them",
		Example: "  inspan harness list\n  inspan harness list --json", Args: app.Args(0), RunE: a.Connected(c.run)}
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"HARNESS", "KIND", "STATUS", ">STEPS", "RECORDED BY", "LAST"},
			Empty: "No harnesses. docs/harness-sdk.md says how to write one."}
		all, err := client.NewHarnesses(c).List(ctx)
		for _, h := range all {
			l.Add(h.ID, h, h.ID, view.Clip(h.Name, 40), string(h.Status), fmt.Sprint(h.Steps), view.Clip(h.Holder, 40),
				app.Age(h.UpdatedAt))
		}
		return l, err
	})
}

// stepsCommand is inspan harness steps.
type stepsCommand struct {
	App  *app.App
	last int
}

func stepsCmd(a *app.App) *cobra.Command {
	c := &stepsCommand{App: a}
	cmd := &cobra.Command{Use: "steps HARNESS",
		Short:   "List the steps of a harness: input, output and what changed in its state",
		Example: "  inspan harness steps trading-1\n  inspan harness steps trading-1 --last 5 --json", Args: app.Args(1),
		RunE: a.Connected(c.run)}
	cmd.Flags().IntVar(&c.last, "last", 20, "how many; 0 for all")
	return cmd
}

func (a *stepsCommand) run(ctx context.Context, c *client.Client, args []string) error {
	var steps []events.HarnessStep
	there := false
	for e, err := range client.NewHarnesses(c).Events(ctx, args[0]) {
		if err != nil {
			return err
		}
		there = true
		if d, ok := e.Payload.(*events.HarnessSteppedData); ok {
			steps = append(steps, d.HarnessStep)
		}
	}
	if !there {
		return fmt.Errorf("%w; inspan harness list lists those of the station",
			&client.NotFoundError{What: "harness", ID: args[0]})
	}
	if a.last > 0 {
		steps = steps[max(0, len(steps)-a.last):]
	}
	l := app.Listing{Heads: []string{">STEP", "TIME", "INPUT", "OUTPUT", "CHANGED"},
		Empty: "Harness " + args[0] + " has no steps yet."}
	for _, s := range steps {
		changed := strings.Join(s.StateDelta.Modified, ", ")
		if s.StateDelta.Summary != "" {
			changed = s.StateDelta.Summary + ": " + changed
		}
		l.Add(fmt.Sprint(s.Number), s, fmt.Sprint(s.Number), s.Timestamp.In(a.App.Zone()).Format(time.DateTime),
			view.Clip(string(s.Input), 60),
			view.Clip(string(s.Output), 60), view.Clip(changed, 60))
	}
	return a.App.Print(l)
}
