package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// showCommand is inspan schedule show.
type showCommand struct {
	App *app.App
	n   int
}

// maxShown bounds how many times are shown.
const maxShown = 100

func showCmd(a *app.App) *cobra.Command {
	c := &showCommand{App: a}
	cmd := &cobra.Command{Use: "show SCHEDULE",
		Short:   "Show one schedule: what it begins, its next times and its last ones",
		Example: "  inspan schedule show nightly\n  inspan schedule show nightly -n 20 --json | jq -r '.next[]'",
		Args:    app.Args(1),
		RunE:    a.Connected(c.run)}
	cmd.Flags().IntVarP(&c.n, "count", "n", 5, fmt.Sprintf("how many times of each, at most %d", maxShown))
	return cmd
}

// shown is a schedule as programs read it: all of it, when it fires next, and what became of its last times.
type shown struct {
	events.Schedule
	Next []time.Time            `json:"next"`
	Past []client.ScheduleEntry `json:"past"`
}

func (a *showCommand) run(ctx context.Context, c *client.Client, args []string) error {
	if a.n < 1 || a.n > maxShown {
		return app.Usage("--count %d: want 1 to %d", a.n, maxShown)
	}
	all := client.NewSchedules(c)
	s, err := all.Get(ctx, args[0])
	if err == nil {
		var past []client.ScheduleEntry
		if past, err = all.History(ctx, args[0]); err == nil {
			return a.show(shown{s, app.OrEmpty(schedule.Next(s, a.n)), app.OrEmpty(past[max(0, len(past)-a.n):])})
		}
	}
	if errors.Is(err, client.ErrNotFound) {
		return fmt.Errorf("%w; inspan schedule list lists those of the station", err)
	}
	return err
}

func (a *showCommand) show(s shown) error {
	if a.App.JSON {
		return a.App.PrintJSON(s)
	}
	p, spec := a.App.Paint(), s.Spec
	fmt.Fprintf(a.App.Out, "%s  %s, %s\n", p.Bold(s.ID), status(a.App, s.Schedule, len(s.Next)), spec.When())
	rows := [][2]string{{"agent", spec.Task.Agent}, {"task", view.Clip(spec.Task.Task, 200)},
		{"session", spec.Task.Session},
		{"repo", spec.Task.Repo}, {"jitter", spec.Jitter}, {"missed", string(cmp.Or(spec.Missed, events.MissedOne))},
		{"overlap", string(cmp.Or(spec.Overlap, events.OverlapSkip))}, {"mode", string(spec.Mode)},
		{"checkpoints", spec.CheckpointInterval}, {"budget", budget(spec.Task)}, {"by", s.By}}
	for _, ph := range spec.Phases {
		rows = append(rows, [2]string{"phase", view.Clip(phase(ph, spec.Task.Agent), 200)})
	}
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(a.App.Out, "%s  %s\n", p.Dim(fmt.Sprintf("%-11s", row[0])), row[1])
		}
	}
	for i, at := range s.Next {
		fmt.Fprintf(a.App.Out, "%s  %s\n", p.Dim(fmt.Sprintf("%-11s", word(i, "next"))), when(a.App, spec, at))
	}
	for i, e := range s.Past {
		text := e.Outcome
		if e.Run != "" {
			text += ", run " + e.Run
		}
		if e.Reason != "" {
			text += ", " + view.Clip(e.Reason, 200)
		}
		fmt.Fprintf(a.App.Out, "%s  %s  %s\n", p.Dim(fmt.Sprintf("%-11s", word(i, "last"))), when(a.App, spec, e.At), text)
	}
	return nil
}

// word is a title that stands on the first of its lines alone.
func word(i int, title string) string {
	if i > 0 {
		return ""
	}
	return title
}

func budget(t events.ScheduledTask) string {
	text := ""
	if t.MaxUSD != "" {
		text = "$" + t.MaxUSD
	}
	if t.MaxTokens > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s %d tokens", text, t.MaxTokens))
	}
	return text
}

// phase is a phase in one line: who does it, and what decides that it is done.
func phase(p events.Phase, agent string) string {
	text := p.Name + ": " + cmp.Or(p.Agent, agent)
	if p.Accept != nil {
		for _, c := range p.Accept.Checks {
			text += ", done once this passes: " + c.String()
		}
	}
	return text
}
