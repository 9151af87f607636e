package steer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// printRun prints what was done, and where the run stands now.
func printRun(a *app.App, s run.State, done string) error {
	i := run.InfoOf(s)
	if a.JSON {
		return a.PrintJSON(i)
	}
	fmt.Fprintf(a.Out, "%s Run %s is %s.\n", done, s.HarnessID, a.Paint().State(runtree.StatusOf(i)))
	if view.Replannable(s) {
		fmt.Fprintf(a.Out, "%s\n", a.Paint().Dim(fmt.Sprintf("Go on as planned: inspan resume %s   or replace what has not begun: inspan revise %s --plan FILE --resume", s.HarnessID, s.HarnessID)))
	}
	return nil
}

// controlCommand is inspan pause, resume and stop.
type controlCommand struct {
	App                *app.App
	action, reason, by string
	interrupt          bool
}

// Control makes inspan pause, resume and stop.
func Control(a *app.App, action string) *cobra.Command {
	c := &controlCommand{App: a, action: action}
	title := map[string]string{"pause": "Pause a run: nothing new is permitted until it resumes",
		"resume": "Let a paused run go on",
		"stop":   "Stop a run for good, and the work it has under way"}[c.action]
	cmd := &cobra.Command{
		Use: c.action + " RUN", Short: title, Example: fmt.Sprintf("  inspan %s run-k3v9x2m1qa", c.action), Args: app.Args(1),
		RunE: a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.reason, "reason", "", "why; recorded in the run")
	cmd.Flags().StringVar(&c.by, "by", a.Me(), "who asks; recorded in the run (INSPAN_APPROVER, USER)")
	if action == "pause" {
		cmd.Flags().BoolVar(&c.interrupt, "interrupt", false,
			"end the answer that a model is giving: what it said so far is kept, and the resumed run goes on from it")
	}
	return cmd
}

func (a *controlCommand) run(ctx context.Context, c *client.Client, args []string) error {
	return controlRun(ctx, a.App, c, args[0],
		events.Control{Action: a.action, By: a.by, Reason: a.reason, Interrupt: a.interrupt})
}

// wanted is the status that an action asks for: a run that has it already is as the person wants it.
var wanted = map[string]events.Status{"pause": events.Paused, "resume": events.Running}

func controlRun(ctx context.Context, a *app.App, c *client.Client, runID string, ctl events.Control) error {
	ctx, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	s, err := c.Control(ctx, runID, ctl)
	if refusal, ok := errors.AsType[*client.RefusedError](err); ok && refusal.Code == "bad_move" {
		if now, look := c.State(ctx, runID); look == nil && now.Status == wanted[ctl.Action] {
			return printRun(a, now, fmt.Sprintf("Already %s.", now.Status))
		}
	}
	if err != nil {
		return err
	}
	done := map[string]string{"pause": "Paused.", "resume": "Resumed.", "stop": "Stopped."}[ctl.Action]
	if s.Stopping != nil {
		done = fmt.Sprintf("Stopping: it ends after %s.", view.Plural(len(s.Living()), "child run"))
	}
	if ctl.Action == "autonomy" {
		done = fmt.Sprintf("Autonomy is %d for steps not yet started.", s.Options.Autonomy)
	}
	return printRun(a, s, done)
}

// autonomyCommand is inspan autonomy.
type autonomyCommand struct {
	App *app.App
}

// Autonomy makes inspan autonomy.
func Autonomy(a *app.App) *cobra.Command {
	c := &autonomyCommand{App: a}
	return &cobra.Command{
		Use: "autonomy RUN LEVEL", Short: "Change the autonomy level for steps not yet started",
		Long:    "Levels 1 and 2 ask a person before every step, 3 before critical ones, 4 and 5 never.",
		Example: "  inspan autonomy run-k3v9x2m1qa 4", Args: app.Args(2),
		RunE: a.Connected(c.run),
	}
}

func (a *autonomyCommand) run(ctx context.Context, c *client.Client, args []string) error {
	level, err := strconv.Atoi(args[1])
	if err != nil || level < 1 || level > 5 {
		return app.Usage("level %q: want 1 to 5", args[1])
	}
	return controlRun(ctx, a.App, c, args[0], events.Control{Action: "autonomy", Level: level, By: a.App.Me()})
}
