// Package schedules has inspan schedule: have agents begin runs at times, and see what became of them.
package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Command makes inspan schedule and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "Have agents begin runs at times: by cron, at intervals or once",
		Long: `A schedule begins a run of an agent at each of its times: once, whatever happens to the station meanwhile. Cron expressions
are read in the time zone of the schedule. What becomes of times that passed while the station was down, and of a time at which the run before
has not ended, is said by --missed and --overlap.`,
		Example: "  inspan schedule add reviewer \"review what changed since yesterday\" --cron \"0 2 * * *\" --timezone Europe/Berlin\n" +
			"  inspan schedule list\n  inspan schedule run reviewer\n  inspan schedule history reviewer\n  inspan schedule pause reviewer",
		Args: cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(addCmd(a), pushCmd(a), listCmd(a), showCmd(a), historyCmd(a),
		steerCmd(a, schedule.Pause, "Hold a schedule: its times pass without a run"),
		steerCmd(a, schedule.Resume, "Let a paused schedule go on with its next time"),
		steerCmd(a, schedule.Run, "Have a schedule begin a run now, also a paused one"),
		steerCmd(a, schedule.Remove, "Remove a schedule; runs that it began go on"))
	return cmd
}

// steerCommand is inspan schedule pause, resume, run and remove.
type steerCommand struct {
	App *app.App
	ctl events.ScheduleControl
}

func steerCmd(a *app.App, action, title string) *cobra.Command {
	c := &steerCommand{App: a, ctl: events.ScheduleControl{Action: action}}
	cmd := &cobra.Command{Use: action + " SCHEDULE", Short: title, Example: "  inspan schedule " + action + " nightly",
		Args: app.Args(1),
		RunE: a.Connected(c.run)}
	cmd.Flags().StringVar(&c.ctl.Reason, "reason", "", "why; recorded in the log of the schedule")
	cmd.Flags().StringVar(&c.ctl.By, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *steerCommand) run(ctx context.Context, c *client.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, a.App.Wait)
	defer cancel()
	s, err := client.NewSchedules(c).Control(ctx, args[0], a.ctl)
	if err == nil && a.ctl.Action == schedule.Run && s.Last != nil {
		_, err = client.NewSchedules(c).Began(ctx, args[0], s.Last.Number)
	}
	if err != nil {
		return err
	}
	if a.App.JSON {
		return a.App.PrintJSON(s)
	}
	switch a.ctl.Action {
	case schedule.Run:
		fmt.Fprintf(a.App.Out, "Schedule %s began run %s. Watch it: inspan watch %s\n", s.ID, s.Last.Run, s.Last.Run)
	case schedule.Resume:
		fmt.Fprintf(a.App.Out, "Schedule %s goes on.\n", s.ID)
		printNext(a.App, s, 1)
	case schedule.Pause:
		fmt.Fprintf(a.App.Out, "Schedule %s is paused. Let it go on: inspan schedule resume %s\n", s.ID, s.ID)
	case schedule.Remove:
		fmt.Fprintf(a.App.Out, "Schedule %s is removed.\n", args[0])
	}
	return nil
}

// printNext prints the next times of a schedule, here and in its own zone.
func printNext(a *app.App, s events.Schedule, n int) {
	for i, at := range schedule.Next(s, n) {
		word := "Next"
		if i > 0 {
			word = "    "
		}
		fmt.Fprintf(a.Out, "%s  %s\n", a.Paint().Dim(word), when(a, s.Spec, at))
	}
}

// when is a time here, and in the zone of a schedule where that shows another.
func when(a *app.App, spec events.ScheduleSpec, at time.Time) string {
	layout := "2006-01-02 15:04 MST"
	if at.Second() != 0 {
		layout = "2006-01-02 15:04:05 MST"
	}
	here := at.In(a.Zone()).Format(layout)
	zone, err := time.LoadLocation(spec.TimeZone)
	if spec.Cron == "" || err != nil {
		return here
	}
	there := at.In(zone).Format(layout)
	if there == here {
		return here
	}
	return here + a.Paint().Dim(" ("+there+")")
}

// listCommand is inspan schedule list.
type listCommand struct {
	App   *app.App
	watch bool
}

func listCmd(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{Use: "list", Aliases: []string{"ls"},
		Short:   "List the schedules with their next time and their last run",
		Example: "  inspan schedule list\n  inspan schedule list --json", Args: app.Args(0), RunE: a.Connected(c.run)}
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

// listed is a schedule as the list has it for programs.
type listed struct {
	events.Schedule
	// Next are the next times, Overdue is true where the first of them has passed.
	Next    []time.Time `json:"next"`
	Overdue bool        `json:"overdue,omitempty"`
}

func (a *listCommand) run(ctx context.Context, c *client.Client, _ []string) error {
	return a.App.List(ctx, a.watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"NAME", "STATUS", "WHEN", "AGENT", "NEXT", ">FIRED", "LAST", "RUN"},
			Empty: `No schedules. Make one with: inspan schedule add AGENT "TASK" --cron "0 2 * * *"`}
		all, err := client.NewSchedules(c).List(ctx)
		for _, s := range all {
			v := listed{Schedule: s, Next: app.OrEmpty(schedule.Next(s, 3))}
			next := "-"
			if len(v.Next) > 0 {
				next, v.Overdue = when(a.App, s.Spec, v.Next[0]), time.Since(v.Next[0]) > schedule.MissedAfter
			}
			if v.Overdue {
				next = a.App.Paint().Yellow("overdue since " + next)
			}
			outcome, run := "-", "-"
			if s.Last != nil {
				outcome, run = paint(a.App, s.Last.Outcome), s.Last.Run
			}
			l.Add(s.ID, v, s.ID, status(a.App, s, len(v.Next)), view.Clip(s.Spec.When(), 40), s.Spec.Task.Agent, next,
				fmt.Sprint(s.Fired),
				outcome, run)
		}
		return l, err
	})
}

// status is what a list shows: one whose times are over is done.
func status(a *app.App, s events.Schedule, left int) string {
	switch {
	case s.Status == events.ScheduleIsPaused:
		return a.Paint().Yellow("paused")
	case left == 0:
		return a.Paint().Dim("done")
	}
	return string(s.Status)
}

func paint(a *app.App, outcome string) string {
	switch outcome {
	case events.FiringIsFailed, events.FiringIsRefused:
		return a.Paint().Red(outcome)
	case events.FiringIsOpen:
		return a.Paint().Yellow(outcome)
	}
	return outcome
}

// historyCommand is inspan schedule history.
type historyCommand struct {
	App  *app.App
	last int
}

func historyCmd(a *app.App) *cobra.Command {
	c := &historyCommand{App: a}
	cmd := &cobra.Command{Use: "history SCHEDULE",
		Short:   "List what a schedule did: its firings with their runs, and times that did not fire",
		Example: "  inspan schedule history nightly\n  inspan schedule history nightly --last 5 --json", Args: app.Args(1),
		RunE: a.Connected(c.run)}
	cmd.Flags().IntVar(&c.last, "last", 20, "how many; 0 for all")
	return cmd
}

func (a *historyCommand) run(ctx context.Context, c *client.Client, args []string) error {
	all, err := client.NewSchedules(c).History(ctx, args[0])
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w; inspan schedule list lists those of the station", err)
	}
	if err != nil {
		return err
	}
	if a.last > 0 {
		all = all[max(0, len(all)-a.last):]
	}
	s, err := client.NewSchedules(c).Get(ctx, args[0])
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	l := app.Listing{Heads: []string{">NO", "TIME", "OUTCOME", "RUN", "REASON"},
		Empty: "Schedule " + args[0] + " has not fired yet."}
	for _, e := range all {
		no, reason := fmt.Sprint(e.Number), e.Reason
		if e.Skipped > 0 {
			no, reason = "-", fmt.Sprintf("%s, %s", view.Plural(e.Skipped, "time"), e.Reason)
		}
		if e.Manual {
			reason = "asked for; " + reason
		}
		l.Add(cmp.Or(e.Run, no), e, no, when(a.App, s.Spec, e.At), paint(a.App, e.Outcome), cmp.Or(e.Run, "-"),
			view.Clip(reason, 200))
	}
	return a.App.Print(l)
}
