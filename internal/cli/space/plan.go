package space

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/capacity"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// planCommand is inspan space plan.
type planCommand struct {
	App  *app.App
	load capacity.Load
	// work has what a turn and a call take; the rest of it is of load.
	work capacity.Work
}

// planned is what is computed. Roles are there where a turn or a call was said to take its time.
type planned struct {
	capacity.Need
	Roles []capacity.RoleNeed `json:"roles,omitempty"`
	// ServerCores is the CPU of each server at the busiest time.
	ServerCores float64 `json:"cores_per_server,omitempty"`
}

// Defaults of a plan: what test/bench and test/scale measure with.
const (
	defaultSteps = 10
	defaultText  = 1224
	defaultDays  = 30
	defaultPeak  = 4
)

// Limits of what is computed: above them it is a slip of the pen, and no sum of bytes is exact.
const (
	maxNumber = 1e9
	maxBytes  = 1e18
)

func planCmd(a *app.App) *cobra.Command {
	c := &planCommand{App: a}
	cmd := &cobra.Command{
		Use: "plan", Short: "Compute the disks and stations that a load needs",
		Long: `Computes disk, memory of runs at gates, stations and servers from the runs of a day. It asks no station. What a run costs was measured
with this version; docs/capacity.md has the figures, the formula, and what is not in it: artifacts, workspaces and archives elsewhere.
With --model-seconds or --tool-seconds it also computes how many processes of each role one station needs at its busiest time,
from the CPU of a step in each role: each process has one core and is busy for at most 70 % of the time.`,
		Example: "  inspan space plan --runs-per-day 20000 --steps 12 --days 30\n  inspan space plan --runs-per-day 20000 --steps 12 --text 4096 --parked 5000 --replicas 3 --json\n  inspan space plan --runs-per-day 20000 --steps 12 --model-seconds 20 --tool-seconds 5",
		Args:    app.Args(0), RunE: c.run,
	}
	f := cmd.Flags()
	f.Float64Var(&c.load.RunsPerDay, "runs-per-day", 0, "runs that begin in a day, children too")
	f.Float64Var(&c.load.StepsPerRun, "steps", defaultSteps, "steps of a run: turns of the model with a call")
	f.Float64Var(&c.load.Content, "text", defaultText, "bytes that the model and the tool write in a step")
	f.Float64Var(&c.load.Days, "days", defaultDays, "how long ended runs stay in the log (inspan space make)")
	f.Float64Var(&c.load.Parked, "parked", 0, "runs that wait at gates at a time")
	f.IntVar(&c.load.Replicas, "replicas", 1, "copies of each stream: 1 or 3 (INSPAN_REPLICAS)")
	f.Float64Var(&c.load.Peak, "peak", defaultPeak, "how many times the mean the busiest time has")
	f.Float64Var(&c.load.StationSteps, "steps-per-second", 0,
		"steps a second that one station carries on your machine, by test/bench; without it the plan has one station")
	f.Float64Var(&c.work.Model, "model-seconds", 0, "how long a turn of the model takes; computes the processes of each role")
	f.Float64Var(&c.work.Tool, "tool-seconds", 0, "how long a call of a tool takes; computes the processes of each role")
	f.IntVar(&c.work.Turns, "executor-workers", topology.SubscriptionsOf(events.Executor).Workers,
		"turns that an executor has at a time (its INSPAN_WORKERS)")
	f.IntVar(&c.work.Calls, "toolrunner-workers", topology.SubscriptionsOf(events.Toolrunner).Workers,
		"calls that a toolrunner has at a time (its INSPAN_WORKERS)")
	return cmd
}

func (c *planCommand) run(cmd *cobra.Command, _ []string) error {
	l, w := c.load, c.work
	for _, n := range []float64{l.RunsPerDay, l.StepsPerRun, l.Content, l.Days, l.Parked, l.Peak, l.StationSteps,
		w.Model, w.Tool, float64(w.Turns), float64(w.Calls)} {
		if !(n >= 0 && n <= maxNumber) { // NaN is neither
			return app.Usage("%g: every number is from 0 to %g", n, float64(maxNumber))
		}
	}
	switch {
	case l.RunsPerDay == 0:
		return app.Usage("--runs-per-day says how many runs begin in a day: more than 0")
	case l.Days == 0 || l.Peak < 1:
		return app.Usage("--days must be above 0, --peak at least 1")
	case l.Replicas != 1 && l.Replicas != 3:
		return app.Usage("--replicas %d: want 1 or 3", l.Replicas)
	case w.Turns == 0 || w.Calls == 0:
		return app.Usage("--executor-workers and --toolrunner-workers must be above 0")
	}
	if bytes := capacity.Measured().Disk(l.StepsPerRun, l.Content) * l.RunsPerDay * l.Days; bytes > maxBytes {
		return app.Usage("these runs have %.1g bytes, more than an exabyte: look at the numbers again", bytes)
	}
	n := planned{Need: capacity.Measured().Of(l)}
	if flags := cmd.Flags(); flags.Changed("model-seconds") || flags.Changed("tool-seconds") {
		w.StepsPerSecond, w.StepsPerRun = n.StepsPerSecond/float64(n.Stations), l.StepsPerRun
		n.Roles, n.ServerCores = capacity.MeasuredCosts().Roles(w), capacity.MeasuredCosts().ServerCores(w)
	}
	if c.App.JSON {
		return c.App.PrintJSON(n)
	}
	c.App.Pairs([][2]string{
		{"a run", view.Bytes(n.BytesPerRun)},
		{"a day", view.Bytes(n.BytesPerDay)},
		{fmt.Sprintf("log after %g days", l.Days), view.Bytes(n.Log) + " of each copy"},
		{"buckets", view.Bytes(n.Buckets) + " of each copy, mostly archives of runs"},
		{"busiest time", fmt.Sprintf("%.1f steps/s", n.StepsPerSecond)},
		{"stations", fmt.Sprint(n.Stations)},
		{"servers", fmt.Sprintf("%d for each station, each with a copy", n.Servers)},
		{"disk of a server", view.Bytes(n.Disk)},
		{"memory for runs at gates", view.Bytes(n.Memory)},
	})
	c.roles(n)
	if l.StationSteps == 0 {
		fmt.Fprintln(c.App.Err, "How many stations that takes is not known without --steps-per-second: go run ./test/bench -only W1 -up measures it.")
	}
	return nil
}

// roles prints what each role needs, where that was computed.
func (c *planCommand) roles(n planned) {
	if n.Roles == nil {
		return
	}
	var rows [][]string
	for _, r := range n.Roles {
		most, processes, underWay := "-", fmt.Sprint(r.Processes), "-"
		if r.Most > 0 {
			most = fmt.Sprintf("%.0f", r.Most)
		}
		if r.Processes == 0 {
			processes = "more stations"
		}
		if r.UnderWay > 0 {
			underWay = fmt.Sprintf("%.1f", r.UnderWay)
		}
		rows = append(rows, []string{r.Role, fmt.Sprintf("%.1f", r.StepsPerSecond), r.Limit, most, processes, fmt.Sprintf("%.2f", r.Cores), underWay})
	}
	fmt.Fprintln(c.App.Out)
	c.App.Table([]string{"ROLE", "STEPS/S OF ONE", "LIMIT", "AT MOST", "PROCESSES", "CORES", "UNDER WAY"}, rows)
	fmt.Fprintf(c.App.Out, "\nCPU of each server: %.2f cores.\n", n.ServerCores)
}
