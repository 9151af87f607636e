package steer

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// reviseCommand is inspan revise.
type reviseCommand struct {
	App              *app.App
	file, reason, by string
	resume           bool
}

// Revise makes inspan revise.
func Revise(a *app.App) *cobra.Command {
	c := &reviseCommand{App: a}
	cmd := &cobra.Command{
		Use: "revise RUN --plan FILE", Short: "Replace the steps of a paused run that have not begun",
		Long: `Steps that have begun or ended stay, with their output; all others are removed, and those of the file take their place. New
steps name what they need in "needs", which may be a step that stays. Each needs an id that no step of the run has or had.
The plan is checked before anything is stored. The run stays paused unless --resume is given.`,
		Example: `  inspan revise run-k3v9x2m1qa --plan other.json --reason "deploy to staging first" --resume
  echo '{"steps":[{"id":"staging","description":"deploy to staging","needs":["build"]}]}' | inspan revise run-k3v9x2m1qa --plan -`,
		Args: app.Args(1),
		RunE: a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.file, "plan", "",
		"file with {\"steps\":[{\"id\",\"description\",\"needs\",\"critical\"}]}; - reads standard input")
	cmd.Flags().StringVar(&c.reason, "reason", "", "why; recorded in the run")
	cmd.Flags().StringVar(&c.by, "by", a.Me(), "who asks; recorded in the run (INSPAN_APPROVER, USER)")
	cmd.Flags().BoolVar(&c.resume, "resume", false, "let the run go on with the new plan")
	return cmd
}

func (a *reviseCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if a.file == "" {
		return app.Usage("--plan FILE names the steps that replace those that have not begun")
	}
	plan, err := app.ReadPlan(a.file, a.App.In)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	s, err := c.Control(ctx, args[0], events.Control{Action: "revise", Plan: plan, By: a.by, Reason: a.reason})
	if err != nil {
		return err
	}
	done := fmt.Sprintf("The plan has %s now.", view.Plural(len(s.Plan.Steps), "step"))
	if !a.resume {
		return printRun(a.App, s, done)
	}
	if s, err = c.Control(ctx, args[0], events.Control{Action: "resume", By: a.by, Reason: a.reason}); err != nil {
		return fmt.Errorf("the plan is revised, but the run is not resumed: %w", err)
	}
	return printRun(a.App, s, done)
}
