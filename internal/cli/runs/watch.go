package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// watchCommand is inspan watch.
type watchCommand struct {
	App       *app.App
	selection client.Of
	yes       bool
}

// Watch makes inspan watch.
func Watch(a *app.App) *cobra.Command {
	c := &watchCommand{App: a}
	cmd := &cobra.Command{
		Use: "watch [RUN]", Short: "Watch a run with the text of its models and tools as it comes",
		Long: `Shows a run that goes on: its events, and between them what models write and tools print while they do. Who comes late
gets the text under way from its beginning. RUN is the id of a run, or its station run id; without it the newest run that
has not ended is meant, of --session or --workflow-run where they are given.

On a terminal text comes as it is written, thinking dim; anywhere else line by line. With --json, events are printed as
they are stored and text as {"live":{...}} between them. Ctrl+C ends the watching, not the run.`,
		Example: "  inspan watch run-k3v9x2m1qa\n  inspan watch --session demo\n  inspan watch --workflow-run nightly-7 --json | jq -r '.live.text // empty'",
		Args:    cobra.MaximumNArgs(1),
		RunE:    a.Connected(c.run),
	}
	selectionFlags(cmd, &c.selection)
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "approve every gate")
	return cmd
}

func (a *watchCommand) run(ctx context.Context, c *client.Client, args []string) error {
	a.selection.Run = strings.Join(args, "")
	found, err := c.Runs().Find(ctx, a.selection)
	if err != nil {
		return err
	}
	i, ok := watched(found)
	if !ok {
		return fmt.Errorf("no run of those asked for: %w; inspan runs lists those of the station", client.ErrNotFound)
	}
	a.App.Stream = true
	_, err = follow.Run(ctx, a.App, c, i.HarnessID, follow.Gates{Yes: a.yes})
	return err
}

// watched is the newest run that goes on, or the newest of all.
func watched(found []run.Info) (run.Info, bool) {
	for _, i := range found {
		if !i.Status.Ended() {
			return i, true
		}
	}
	if len(found) == 0 {
		return run.Info{}, false
	}
	return found[0], true
}
