package runs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/halts"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// whyCommand is inspan why.
type whyCommand struct {
	App *app.App
}

// Why makes inspan why.
func Why(a *app.App) *cobra.Command {
	c := &whyCommand{App: a}
	return &cobra.Command{
		Use: "why RUN", Short: "Say in one line what a run waits for, and for how long",
		Example: "  inspan why run-k3v9x2m1qa\n  inspan why run-k3v9x2m1qa --json | jq '.waits[].on'",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run),
	}
}

func (a *whyCommand) run(ctx context.Context, c *client.Client, args []string) error {
	s, err := c.State(ctx, args[0])
	if err != nil {
		return err
	}
	now := time.Now().In(a.App.Zone())
	waits := view.Waits(s, now)
	missing := absentRoles(ctx, c, waits)
	if a.App.JSON {
		return a.App.PrintJSON(map[string]any{"run": args[0], "status": s.Status, "why": view.Why(s, now), "waits": waits,
			"roles_absent": missing, "halted": halted(ctx, c)})
	}
	line := view.Why(s, now)
	if h := halted(ctx, c); h != nil {
		line = "the station is " + halts.Line(*h, now) + "; " + halts.Hint(*h) + " | " + line
	}
	for _, role := range missing {
		line += fmt.Sprintf(" | no %s is running: start one, or see inspan doctor", role)
	}
	fmt.Fprintln(a.App.Out, line)
	return nil
}

// halted is the halt that holds all runs of the station; nil where there is none, or the user may not ask.
func halted(ctx context.Context, c *client.Client) *events.Halt {
	if h, err := client.NewHalts(c).Get(ctx); err == nil && h.Halted {
		return &h
	}
	return nil
}

// absentRoles lists the roles that a run waits for and of which no instance answers.
func absentRoles(ctx context.Context, c *client.Client, waits []view.Wait) []string {
	missing := []string{}
	h, err := c.Health(ctx)
	if err != nil {
		return missing // a user who may not ask sees the rest
	}
	for _, w := range waits {
		isRole := slices.Contains(events.Services(), events.Service(w.On))
		if isRole && h.Services[w.On] == 0 && !slices.Contains(missing, w.On) {
			missing = append(missing, w.On)
		}
	}
	return missing
}
