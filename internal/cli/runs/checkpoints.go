package runs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
)

// checkpointsCommand is inspan checkpoints.
type checkpointsCommand struct {
	App *app.App
}

// Checkpoints makes inspan checkpoints.
func Checkpoints(a *app.App) *cobra.Command {
	c := &checkpointsCommand{App: a}
	return &cobra.Command{
		Use: "checkpoints RUN", Short: "List the checkpoints of a run: one for each step that ended, in Dream Mode also one at each interval",
		Long: `Lists the checkpoints of a run. The event with which a step ends is a checkpoint: the log holds the whole state after it.
In Dream Mode and overnight (inspan run --mode) there is one at each interval as well.
To look at one: inspan inspect RUN --at NAME. To go on from one: inspan fork RUN --at NAME. A run on the direct path has
none, and neither has one without durable persistence.`,
		Example: "  inspan checkpoints run-k3v9x2m1qa\n  inspan checkpoints run-k3v9x2m1qa --json | jq -r '.[].name'",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
}

func (a *checkpointsCommand) run(ctx context.Context, c *client.Client, argv []string) error {
	all, err := c.Runs().Checkpoints(ctx, argv[0])
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{">NUMBER", "NAME", ">EVENT", ">AGE"}, Empty: "The run has no checkpoints."}
	for _, k := range all {
		l.Add(k.Name, k, fmt.Sprint(k.Number), view.Clip(k.Name, 80), fmt.Sprint(k.Sequence), app.Age(k.At))
	}
	return a.App.Print(l)
}
