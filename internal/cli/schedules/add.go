package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// addCommand is inspan schedule add.
type addCommand struct {
	App                        *app.App
	name, file, at, until, usd string
	missed, overlap, mode      string
	phases                     []string
	vars                       []string
	spec                       events.ScheduleSpec
	replace                    bool
	by                         string
}

func addCmd(a *app.App) *cobra.Command {
	c := &addCommand{App: a}
	cmd := &cobra.Command{
		Use: "add AGENT TASK | --file FILE", Short: "Make a schedule, or change one with --replace",
		Long: `Makes a schedule that begins a run of an agent at times. One of --cron, --every and --at says when.

--cron has five fields: minute, hour, day of the month, month, day of the week (0-6 or SUN-SAT); or @hourly, @daily, @weekly, @monthly,
@yearly. A local time that does not exist, when clocks are put forward, fires at that moment; one that comes twice fires once, the first
time. An expression for every hour follows real time. --every counts from when the schedule was made, --at is one time.

--missed says what becomes of times that passed while the station was down: skip them, begin one run for all (one), or one for each (all, at most
--missed-limit). --overlap says what happens while the run before has not ended: skip the time, queue its run, replace the one before, which is stopped first, or allow both.

--mode dream has each run take checkpoints while it works, and makes a report of it; --mode overnight does so for --phase after --phase.

--file reads all of it from a YAML file with the keys name, cron, every, at, timezone, until, missed, missed_limit, overlap, jitter, mode,
checkpoint_interval, phases (name, agent, task, accept), budget (usd, tokens), workspace (repo, ref, branch) and task (agent, task, session, model, repo,
ref, branch, timeout, autonomy, variables).`,
		Example: "  inspan schedule add reviewer \"review what changed since yesterday\" --cron \"0 2 * * *\" --timezone Europe/Berlin --name nightly\n" +
			"  inspan schedule add watcher \"is the site up?\" --every 15m --session watch --overlap queue\n" +
			"  inspan schedule add reporter \"write the report\" --at \"2026-12-01 08:00\"\n" +
			"  inspan schedule add reviewer \"review all of it\" --name nightly --cron \"0 3 * * 1-5\" --replace\n" +
			"  inspan schedule add --file schedules/nightly.yaml --replace",
		Args: app.ArgsBetween(0, 2), RunE: a.Connected(c.run),
	}
	f, t := cmd.Flags(), &c.spec.Task
	f.StringVar(&c.name, "name", "", "name of the schedule; that of the agent if none")
	f.StringVar(&c.file, "file", "", "read the schedule from a YAML file, in place of the arguments and the other flags")
	f.StringVar(&c.spec.Cron, "cron", "", `cron expression, such as "0 2 * * *"`)
	f.StringVar(&c.spec.Every, "every", "", "interval, such as 15m or 36h; at least 10s")
	f.StringVar(&c.at, "at", "", `one time: "2026-12-01 08:00" in the zone of --timezone or here, or 2026-12-01T08:00:00Z`)
	f.StringVar(&c.spec.TimeZone, "timezone", "", "zone that --cron is read in, such as Europe/Berlin; UTC if none")
	f.StringVar(&c.until, "until", "", "last time, in the forms of --at, or a day")
	f.StringVar(&c.missed, "missed", "", "times that passed while the station was down: skip, one (default) or all")
	f.IntVar(&c.spec.MissedLimit, "missed-limit", 0, "with --missed all: how many of them at most (default 10)")
	f.StringVar(&c.overlap, "overlap", "",
		"while the run before has not ended: skip (default), queue, replace (stop it first) or allow")
	f.StringVar(&c.spec.Jitter, "jitter", "", "each time fires up to so much later, such as 5m")
	f.StringVar(&c.mode, "mode", "",
		"normal, dream (a checkpoint at each interval and a report) or overnight (the same for --phase)")
	f.StringVar(&c.spec.CheckpointInterval, "checkpoint-interval", "",
		"with --mode: how far apart checkpoints are (default 5m at autonomy 3)")
	f.StringArrayVar(&c.phases, "phase", nil,
		"with --mode: NAME[=AGENT][: COMMAND], a part of each run that the command decides about; may be repeated")
	f.StringVar(&t.Session, "session", "", "session that each run goes on in")
	f.StringVar(&t.Model, "model", "", "model in place of the agent's, provider/name")
	f.StringVar(&t.Repo, "repo", "", "git repository to work in")
	f.StringVar(&t.Ref, "ref", "", "branch, tag or commit of it")
	f.StringVar(&t.Timeout, "timeout", "", "time limit of each run, such as 30m")
	f.Int64Var(&t.MaxTokens, "budget-tokens", 0, "most tokens of each run")
	f.StringVar(&c.usd, "budget-usd", "", "most money of each run, in US dollars")
	f.StringArrayVar(&c.vars, "var", nil, "variable of the task, name=value; may be repeated")
	f.BoolVar(&c.replace, "replace", false, "change the schedule where there is one of that name")
	f.StringVar(&c.by, "by", a.Me(), "who asks (INSPAN_APPROVER, USER)")
	return cmd
}

func (a *addCommand) run(ctx context.Context, c *client.Client, args []string) error {
	name, spec, err := a.described(args)
	if err != nil {
		return app.Usage("%w", err)
	}
	return set(ctx, a.App, c, name, events.ScheduleControl{Action: schedule.Set, Spec: &spec, New: !a.replace, By: a.by})
}

// described is the schedule that the command line or a file describes.
func (a *addCommand) described(args []string) (name string, spec events.ScheduleSpec, err error) {
	switch {
	case a.file == "" && len(args) != 2:
		return "", spec, fmt.Errorf("%d arguments, want 2: inspan schedule add AGENT TASK, or --file FILE", len(args))
	case a.file == "":
		spec, err = a.read(args[0], args[1])
		return cmp.Or(a.name, args[0]), spec, err
	case len(args) > 0 || a.spec.Cron != "" || a.spec.Every != "" || a.at != "":
		return "", spec, errors.New("--file says all of a schedule: leave the agent, the task and the other flags out")
	}
	file, spec, err := readFile(a.file)
	return cmp.Or(a.name, file), spec, err
}

// readFile reads the file of a schedule and checks all of it that can be checked without a station.
func readFile(file string) (name string, spec events.ScheduleSpec, err error) {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = fmt.Errorf("%s is no file of at most %d bytes", file, maxFile)
	}
	if err != nil {
		return "", spec, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", spec, err
	}
	s, err := Parse(file, data)
	return s.Name, s.Spec, err
}

// Parse reads the file of a schedule, or the schedule that an agent's file asks for, and checks all of it that can be
// checked without a station. An error has the file and its line.
func Parse(file string, data []byte) (s agentfile.Scheduled, err error) {
	if filepath.Ext(file) != agentfile.Ext {
		s, err = agentfile.ParseSchedule(file, data)
	} else if s, err = OfAgent(file, data); err == nil && s.Name == "" {
		err = fmt.Errorf("%s: the agent has no schedule: add the key schedule to its file", file)
	}
	if err != nil {
		return s, err
	}
	return s, checked(file, s)
}

// OfAgent reads and checks the schedule that an agent's file asks for; one without a name is none.
func OfAgent(file string, data []byte) (s agentfile.Scheduled, err error) {
	s, ok, err := agentfile.ScheduleOf(file, data)
	if err != nil || !ok {
		return s, err
	}
	return s, checked(file, s)
}

func checked(file string, s agentfile.Scheduled) error {
	if err := schedule.CheckSpec(s.Spec); err != nil {
		return fmt.Errorf("%s:%d: %w", file, max(s.Line, 1), err)
	}
	return nil
}

// maxFile bounds the file of a schedule, in bytes.
const maxFile = agentfile.MaxFile

// set makes or changes a schedule and prints when it fires.
func set(ctx context.Context, a *app.App, c *client.Client, name string, ctl events.ScheduleControl) error {
	ctx, cancel := context.WithTimeout(ctx, a.Wait)
	defer cancel()
	s, err := client.NewSchedules(c).Control(ctx, name, ctl)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(listed{Schedule: s, Next: app.OrEmpty(schedule.Next(s, 3))})
	}
	fmt.Fprintf(a.Out, "Schedule %s: agent %s, %s.\n", a.Paint().Bold(s.ID), s.Spec.Task.Agent, s.Spec.When())
	printNext(a, s, 3)
	return nil
}

// read is the spec that the flags describe, checked as far as it can be without a station.
func (a *addCommand) read(agent, task string) (events.ScheduleSpec, error) {
	s := a.spec
	s.Missed, s.Overlap = events.MissedPolicy(a.missed), events.OverlapPolicy(a.overlap)
	s.Task.Agent, s.Task.Task = agent, task
	if s.Mode = events.RunMode(a.mode); s.Mode == events.ModeNormal {
		s.Mode = ""
	}
	for _, text := range a.phases {
		s.Phases = append(s.Phases, app.Phase(text))
	}
	zone := a.App.Zone()
	if s.TimeZone != "" {
		in, err := time.LoadLocation(s.TimeZone)
		if err != nil {
			return s, fmt.Errorf("--timezone %q is not known: name one such as Europe/Berlin or UTC", s.TimeZone)
		}
		zone = in
		if s.Cron == "" {
			s.TimeZone = "" // it was for --at and --until alone
		}
	}
	for _, f := range []struct {
		flag, text string
		to         **time.Time
	}{{"--at", a.at, &s.At}, {"--until", a.until, &s.Until}} {
		if f.text == "" {
			continue
		}
		at, err := agentfile.Moment(f.text, zone)
		if err != nil {
			return s, fmt.Errorf("%s: %w", f.flag, err)
		}
		*f.to = &at
	}
	for _, kv := range a.vars {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return s, fmt.Errorf("--var %q: want name=value", kv)
		}
		if s.Task.Variables == nil {
			s.Task.Variables = map[string]string{}
		}
		s.Task.Variables[k] = v
	}
	if a.usd != "" {
		if _, err := events.ParseUSD(a.usd); err != nil {
			return s, fmt.Errorf("--budget-usd: %w", err)
		}
		s.Task.MaxUSD = strings.TrimPrefix(a.usd, "$")
	}
	if err := schedule.CheckSpec(s); err != nil {
		return s, err
	}
	if t, err := schedule.TimingOf(s, time.Now()); err == nil && t.Next(time.Now()).IsZero() {
		return s, fmt.Errorf("schedule: %w", schedule.NeverFires(s))
	}
	return s, nil
}
