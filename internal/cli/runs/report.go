package runs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/client"
)

// reportCommand is inspan report.
type reportCommand struct {
	App *app.App
}

// Report makes inspan report.
func Report(a *app.App) *cobra.Command {
	c := &reportCommand{App: a}
	return &cobra.Command{
		Use: "report RUN", Short: "Print what was done in a run, what was verified, what it cost and what is left",
		Long: `Prints a report of a run in Markdown, made from its events: for each phase what was done, which checks
passed, what it cost, and what is left. Of a run that goes on it says how far it is. A run in Dream Mode or overnight
has it as an artifact once it has ended: inspan artifacts get RUN report.md.`,
		Example: "  inspan report run-k3v9x2m1qa\n  inspan report run-k3v9x2m1qa > report.md",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
}

func (a *reportCommand) run(ctx context.Context, c *client.Client, args []string) error {
	text, err := c.Runs().Report(ctx, args[0])
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(map[string]string{"run": args[0], "report": text})
	}
	fmt.Fprint(a.App.Out, text)
	return nil
}
