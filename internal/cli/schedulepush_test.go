package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

const nightFile = `name: night
cron: "0 2 * * *"
timezone: Europe/Berlin
jitter: 5m
task: {agent: reader, task: look}
mode: overnight
phases: [{name: explore}, {name: build, accept: "true"}]
budget: {tokens: 200000}
`

func TestSchedulePush(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	dir := filepath.Join(d.dir, "plans")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "night.yaml")
	write(file, nightFile)
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, append([]string{"schedule"}, args...)...)
	}
	t.Run("TRIG-5 CLI-11 push registers the files of a folder that are new or changed, and a dry run none", func(t *testing.T) {
		say(t, 0, []string{"new", "night", "1 schedule would be registered"}, "push", dir, "--dry-run")
		say(t, 0, []string{"No schedules"}, "list")
		say(t, 0, []string{"new", "1 schedule registered"}, "push", dir)
		say(t, 0, []string{"unchanged", "0 schedules registered"}, "push", dir)
		write(file, strings.Replace(nightFile, "5m", "7m", 1))
		say(t, 0, []string{"changed", "1 schedule registered"}, "push", file)
	})
	t.Run("TRIG-5 where a file is wrong nothing is registered, and each fault has its position", func(t *testing.T) {
		bad := filepath.Join(dir, "bad.yaml")
		write(bad, "every: 1h\ntask: {agent: reader, task: x}\nmode: overnight\nphase: []\n")
		write(filepath.Join(dir, "zz.yaml"), "every: 1h\ntask: {agent: reader, task: x}\n")
		say(t, 2, []string{"nothing was registered", "bad.yaml:4", "phase"}, "push", dir)
		write(bad, nightFile)
		say(t, 2, []string{"schedule night is in", "another name"}, "push", dir)
		say(t, 5, nil, "show", "zz")
		if err := os.Remove(bad); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("TRIG-5 CLI-11 push takes the schedule of an agent's file, whose name it has, and begins its runs as that agent", func(t *testing.T) {
		prompt := filepath.Join(d.dir, "agents", "reader.prompt")
		say(t, 2, []string{"nothing was registered", "reader.prompt", "the agent has no schedule"}, "push", prompt)
		write(prompt, asking("reader", "{every: 36h, task: look around, session: true}"))
		say(t, 0, []string{"new", "reader", "1 schedule would be registered"}, "push", prompt, "--dry-run")
		say(t, 0, []string{"new", "1 schedule registered"}, "push", prompt)
		say(t, 0, []string{"unchanged", "0 schedules registered"}, "push", prompt)
		s := decode[struct{ events.Schedule }](t, say(t, 0, nil, "show", "reader", "--json").out)
		if s.Spec.Every != "36h" || s.Spec.Task.Agent != "reader" || s.Spec.Task.Task != "look around" || s.Spec.Task.Session != "reader" {
			t.Errorf("%+v", s.Spec)
		}
		write(prompt, asking("reader", "{every: 48h, task: look around}"))
		say(t, 0, []string{"changed", "1 schedule registered"}, "push", prompt)
		write(prompt, asking("reader", "{every: 48h, task: look around, overlapp: skip}"))
		say(t, 2, []string{"nothing was registered", "reader.prompt:", "overlapp"}, "push", prompt)
	})
	t.Run("CLI-11 show has the next times and the last ones, its phases and its budget", func(t *testing.T) {
		say(t, 0, []string{"0 2 * * * Europe/Berlin", "jitter       7m", "phase        explore: reader", "build: reader, done once this passes: true", "200000 tokens", "overnight", "next"}, "show", "night")
		s := decode[struct {
			events.Schedule
			Next []string
			Past []client.ScheduleEntry
		}](t, say(t, 0, nil, "show", "night", "-n", "2", "--json").out)
		if len(s.Next) != 2 || len(s.Past) != 0 || len(s.Spec.Digest) != 64 || s.Spec.Mode != events.ModeOvernight {
			t.Errorf("%+v", s)
		}
		say(t, 2, []string{"want 1 to 100"}, "show", "night", "-n", "101")
		say(t, 5, []string{"inspan schedule list"}, "show", "nope")
	})
	t.Run("PERS-20 CLI-11 a night that is begun by command leaves a report, which artifacts get, too", func(t *testing.T) {
		d.want(0, nil, "run", "reader", "look", "--mode", "overnight", "--phase", "explore", "--phase", "build: true", "--id", "bycommand", "--yes")
		out := d.want(0, []string{"# Report of run bycommand", "### 1. explore: done, unverified", "### 2. build: done, verified", "| Mode | overnight |"}, "report", "bycommand").out
		for got := ""; got != out; { // it is stored right after the end
			pause(t)
			got = d.do("artifacts", "get", "bycommand", "report.md", "--stdout").out
		}
		d.want(0, words{"report.md"}, "artifacts", "list", "bycommand")
		d.want(2, words{"--phase and --checkpoint-interval go with --mode"}, "run", "reader", "look", "--phase", "a")
		d.want(2, words{"needs phases"}, "run", "reader", "look", "--mode", "overnight")
		d.want(5, nil, "report", "none")
	})
}
