package sessions

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// setCommand is inspan session start and set.
type setCommand struct {
	App  *app.App
	ctl  events.SessionControl
	mode string
}

func setCmd(a *app.App, action, title, example string) *cobra.Command {
	c := &setCommand{App: a}
	c.ctl = events.SessionControl{Action: action}
	cmd := &cobra.Command{
		Use: action + " NAME", Short: title, Example: example, Args: app.Args(1),
		Long: title + ". A setting that is not given stays as it is, \"-\" takes it away.",
		RunE: a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.mode, "mode", "", "sequential (one run at a time) or parallel")
	cmd.Flags().StringVar(&c.ctl.Branch, "branch", "", "working branch")
	cmd.Flags().StringVar(&c.ctl.Model, "model", "", "model of its runs, provider/name")
	cmd.Flags().StringVar(&c.ctl.Prompt, "system", "", "instructions behind those of its agents")
	cmd.Flags().StringVar(&c.ctl.By, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *setCommand) run(ctx context.Context, c *client.Client, args []string) error {
	a.ctl.Mode = events.SessionMode(a.mode)
	return steerSession(ctx, a.App, c, args[0], a.ctl)
}

// steerCommand is inspan session pause, resume, end, unlock, clear and delete.
type steerCommand struct {
	App *app.App
	ctl events.SessionControl
}

func steerCmd(a *app.App, action, title string, stops bool) *cobra.Command {
	c := &steerCommand{App: a}
	c.ctl = events.SessionControl{Action: action}
	cmd := &cobra.Command{
		Use: action + " NAME", Short: title, Example: "  inspan session " + action + " parser", Args: app.Args(1),
		RunE: a.Connected(c.run),
	}
	if stops {
		cmd.Flags().BoolVar(&c.ctl.Stop, "stop", false, "stop the runs that work in it; without it they are in the way")
		cmd.Example += "\n  inspan session " + action + " parser --stop"
	}
	cmd.Flags().StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the runs that are stopped or paused")
	cmd.Flags().StringVar(&c.ctl.By, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *steerCommand) run(ctx context.Context, c *client.Client, args []string) error {
	return steerSession(ctx, a.App, c, args[0], a.ctl)
}

var sessionDone = map[string]string{"start": "is open", "set": "is set", "pause": "is paused", "resume": "goes on",
	"end":    "has ended, and is kept",
	"unlock": "is free", "clear": "has no history any more", "delete": "is deleted"}

func steerSession(ctx context.Context, a *app.App, c *client.Client, id string, ctl events.SessionControl) error {
	ctx, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	e, err := c.Sessions().Control(ctx, id, ctl)
	if err != nil {
		return err
	}
	if ctl.Action == "delete" {
		if err := c.Sessions().Sweep(ctx, id); err != nil {
			fmt.Fprintf(a.Err, "inspan: the files of session %s stay until its name is used again: %v\n", id, err)
		}
	}
	if a.JSON {
		return a.PrintJSON(e)
	}
	fmt.Fprintf(a.Out, "Session %s %s.\n", id, sessionDone[ctl.Action])
	return nil
}
