package steer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// signalCommand is inspan signal.
type signalCommand struct {
	App      *app.App
	data, by string
}

// Signal makes inspan signal.
func Signal(a *app.App) *cobra.Command {
	c := &signalCommand{App: a}
	cmd := &cobra.Command{
		Use: "signal RUN NAME", Short: "Send a run the signal that a step of it waits for",
		Long: `A step of a formula of the kind wait with a signal goes on when that signal comes; what the signal carries is its output. A signal
goes to one step, the first that waits for it. One that no step waits for yet, or any more, is refused and not kept.`,
		Example: "  inspan signal run-k3v9x2m1qa deployed\n  inspan signal run-k3v9x2m1qa deployed --data '{\"version\": \"1.2.0\"}'",
		Args:    app.Args(2), RunE: a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.data, "data", "", "JSON that becomes the output of the step")
	cmd.Flags().StringVar(&c.by, "by", a.Me(), "who sends it; recorded in the run (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *signalCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if a.data != "" && !json.Valid([]byte(a.data)) {
		return app.Usage("--data is no JSON: a text stands in quotes, such as --data '\"done\"'")
	}
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	s, err := c.Control(ctx, args[0],
		events.Control{Action: "signal", Signal: args[1], Data: json.RawMessage(a.data), By: a.by})
	if err != nil {
		return err
	}
	return printRun(a.App, s, fmt.Sprintf("Signal %s was taken.", args[1]))
}
