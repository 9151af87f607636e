package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/pkg/client"
)

// logsCommand is inspan logs.
type logsCommand struct {
	App    *app.App
	follow bool
	from   uint64
}

// Logs makes inspan logs.
func Logs(a *app.App) *cobra.Command {
	c := &logsCommand{App: a}
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Show what happened in a run, a line for each event",
		Example: "  inspan logs run-k3v9x2m1qa --follow\n  inspan logs run-k3v9x2m1qa --from 40 --json",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().BoolVarP(&c.follow, "follow", "f", false, "go on as events come, until the run ends")
	cmd.Flags().Uint64Var(&c.from, "from", 1, "first event to show, by its sequence in the run")
	return cmd
}

func (a *logsCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if _, err := c.State(ctx, args[0]); err != nil {
		return err
	}
	items := c.Events(ctx, args[0], a.from)
	if a.follow {
		items = c.Watch(ctx, args[0], a.from)
	}
	for item, err := range items {
		if ctx.Err() != nil {
			return nil // a person has seen enough
		}
		if err != nil {
			return err
		}
		follow.PrintItem(a.App, item)
	}
	return nil
}
