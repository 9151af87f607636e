// Package halts has inspan halt and inspan release: the emergency stop of a station.
package halts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// control is a command that publishes one control.
type control struct {
	App *app.App
	ctl events.HaltControl
}

// Halt makes inspan halt.
func Halt(a *app.App) *cobra.Command {
	c := &control{App: a, ctl: events.HaltControl{Action: events.HaltAction}}
	cmd := &cobra.Command{
		Use: "halt REASON", Short: "Stop the whole station at once, until it is released",
		Long: `Stops the whole station: no run begins, no model is asked, no call is made. Calls that are under way are ended, as if their toolrunner had been
killed, and their sandboxes with them. Tasks, answers and controls that come meanwhile are kept and judged after the release. A service that
starts while the station is halted does nothing, either. Who halted it and why stands in the log, and in inspan top, why and doctor.`,
		Example: "  inspan halt \"the agents order from the wrong shop\"\n  inspan top --once\n  inspan release --reason \"the address is corrected\"",
		Args:    app.Args(1), RunE: a.Connected(c.halt),
	}
	cmd.Flags().StringVar(&c.ctl.By, "by", a.Me(), "who halts it (INSPAN_APPROVER, USER)")
	return cmd
}

// Release makes inspan release.
func Release(a *app.App) *cobra.Command {
	c := &control{App: a, ctl: events.HaltControl{Action: events.ReleaseAction}}
	cmd := &cobra.Command{
		Use: "release", Short: "Let a halted station go on where it was",
		Long: `Ends the halt of a station. Calls that the halt ended are made again where that is harmless; of those that may be made only once, the
agent is told that the outcome is unknown. Runs that somebody paused stay paused. The time of the halt counts towards no deadline and no gate.

A station that has moved (inspan stations move) is not released: its runs go on at the other place, and would go on here as well.`,
		Example: "  inspan release\n  inspan release --reason \"the address is corrected\"",
		Args:    app.Args(0), RunE: a.Connected(c.release),
	}
	cmd.Flags().StringVar(&c.ctl.By, "by", a.Me(), "who releases it (INSPAN_APPROVER, USER)")
	cmd.Flags().StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the log")
	cmd.Flags().BoolVar(&c.ctl.AlthoughMoved, "although-moved", false,
		"release it although it has moved: only where the copy at the other place is gone for good")
	return cmd
}

func (c *control) halt(ctx context.Context, cl *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	ctl := c.ctl
	ctl.Reason = args[0]
	if err := ctl.Check(); err != nil {
		return app.Usage("%w", err)
	}
	h, err := client.NewHalts(cl).Control(ctx, ctl)
	if no, ok := errors.AsType[*client.RefusedError](err); ok && no.Code == halt.Halted { // it is as the person wants it
		if now, look := client.NewHalts(cl).Get(ctx); look == nil && now.Halted {
			return c.print(now, "The station was halted already: "+Line(now, time.Now()))
		}
	}
	if err != nil {
		return err
	}
	return c.print(h, "The station is halted: every service stops within a second. Go on with: inspan release")
}

func (c *control) release(ctx context.Context, cl *client.Client, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, c.App.Wait)
	defer cancel()
	now, err := client.NewHalts(cl).Get(ctx)
	if err != nil {
		return err
	}
	ctl := c.ctl
	ctl.Number = max(now.Number, 1) // of a station that was never halted the planner says so
	if err := ctl.Check(); err != nil {
		return app.Usage("%w", err)
	}
	h, err := client.NewHalts(cl).Control(ctx, ctl)
	if err != nil {
		return err
	}
	took := "a moment"
	if n := len(h.Past); n > 0 {
		took = h.Past[n-1].To.Sub(h.Past[n-1].From).Round(time.Second).String()
	}
	return c.print(h, fmt.Sprintf("The station is released after %s: all goes on where it was.", took))
}

func (c *control) print(h events.Halt, text string) error {
	if c.App.JSON {
		return c.App.PrintJSON(h)
	}
	fmt.Fprintln(c.App.Out, text)
	return nil
}

// Line says in one line that a station is halted, since when, by whom and why; empty where it is not.
func Line(h events.Halt, now time.Time) string {
	if !h.Halted {
		return ""
	}
	reason := strings.Join(strings.Fields(terminal.Sanitize(h.Reason)), " ")
	line := fmt.Sprintf("halted %s ago by %s: %s", now.Sub(h.Since).Round(time.Second), terminal.Sanitize(h.By), reason)
	if h.MovedTo != "" {
		line += "; it has moved to " + terminal.Sanitize(h.MovedTo)
	}
	return line
}

// Hint says what lets a halted station go on.
func Hint(h events.Halt) string {
	if h.MovedTo != "" {
		return "its runs go on there: use that place (inspan stations route PROJECT STATION --context NAME --force)"
	}
	return "inspan release lets it go on"
}
