package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, append([]string{"schedule"}, args...)...)
	}
	t.Run("CLI-11 without schedules the list says how to make one, and an unknown one is not found", func(t *testing.T) {
		say(t, 0, []string{`inspan schedule add AGENT "TASK"`}, "list")
		say(t, 5, []string{"inspan schedule list"}, "history", "nope")
		say(t, 4, []string{"unknown_schedule"}, "pause", "nope")
	})
	t.Run("CLI-11 TRIG-5 what is wrong is said with its position, before anything is published", func(t *testing.T) {
		say(t, 2, []string{`column 3: "25" is no hour`}, "add", "reader", "look", "--cron", "0 25 * * *")
		say(t, 2, []string{"never fires"}, "add", "reader", "look", "--cron", "0 0 30 2 *")
		say(t, 2, []string{"one of cron, every and at"}, "add", "reader", "look")
		say(t, 2, []string{"all its times have passed"}, "add", "reader", "look", "--at", "2020-01-01 08:00")
		say(t, 2, []string{"no time that is still to come and before its end, 20"}, "add", "reader", "look", "--cron", time.Now().AddDate(0, 0, 3).UTC().Format("0 0 2 1 *"), "--until", time.Now().Add(time.Hour).UTC().Format("2006-01-02 15:04"))
		say(t, 2, []string{`--at: "tomorrow" is no time`}, "add", "reader", "look", "--at", "tomorrow")
		say(t, 2, []string{"Mars"}, "add", "reader", "look", "--cron", "0 2 * * *", "--timezone", "Mars")
		say(t, 4, []string{"unknown_agent"}, "add", "nobody", "look", "--every", "1h")
		say(t, 0, []string{"No schedules"}, "list")
	})
	t.Run("CLI-11a TRIG-5 a schedule is made, and its next times are shown here and in its zone", func(t *testing.T) {
		say(t, 0, []string{"0 2 * * * Europe/Berlin", "02:00 CE"}, "add", "reader", "look", "--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--name", "nightly", "--by", "anna")
		say(t, 4, []string{"schedule_exists", "--replace"}, "add", "reader", "look", "--every", "1h", "--name", "nightly")
		var all []struct {
			events.Schedule
			Next []time.Time `json:"next"`
		}
		all = decode[[]struct {
			events.Schedule
			Next []time.Time `json:"next"`
		}](t, say(t, 0, nil, "list", "--json").out)
		if len(all) != 1 || len(all[0].Next) != 3 || all[0].By != "anna" || all[0].Spec.Task.Task != "look" {
			t.Errorf("%+v", all)
		}
	})
	t.Run("CLI-11 TRIG-6 run begins a run now, which the history has, and the session goes on", func(t *testing.T) {
		say(t, 0, nil, "add", "reader", "look", "--cron", "0 3 * * *", "--name", "nightly", "--session", "night", "--replace")
		for n := range 2 {
			out := say(t, 0, []string{"began run firing_"}, "run", "nightly").out
			id := strings.Fields(out)[4]
			id = strings.TrimSuffix(id, ".")
			d.want(0, nil, "watch", id)
			var h []client.ScheduleEntry
			for open := true; open; { // its end is recorded right after
				h = decode[[]client.ScheduleEntry](t, say(t, 0, nil, "history", "nightly", "--json").out)
				open = len(h) != n+1 || h[n].Outcome == events.FiringIsOpen
			}
			if h[n].Run != id || !h[n].Manual || h[n].Outcome != events.FiringIsCompleted {
				t.Errorf("%+v", h)
			}
		}
		d.want(0, []string{"night"}, "session", "list")
		say(t, 0, []string{"completed", "asked for"}, "history", "nightly")
	})
	t.Run("CLI-11 TRIG-5 a file says all of a schedule", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "weekly.yaml")
		putFile(t, file, "cron: \"0 2 * * SUN\"\ntask: {agent: reader, task: look}\n")
		say(t, 0, []string{"weekly", "0 2 * * SUN UTC"}, "add", "--file", file)
		putFile(t, file, "cron: \"0 2 * * SUN\"\ntask: {agent: reader, tusk: look}\n")
		say(t, 2, []string{"weekly.yaml", "tusk", "task"}, "add", "--file", file, "--replace")
		say(t, 2, []string{"leave the agent"}, "add", "reader", "look", "--file", file)
		say(t, 0, []string{"removed"}, "remove", "weekly")
	})
	t.Run("CLI-11 pause, resume and remove", func(t *testing.T) {
		say(t, 0, []string{"is paused"}, "pause", "nightly", "--reason", "holidays")
		say(t, 0, []string{"paused"}, "list")
		say(t, 4, []string{"bad_move"}, "pause", "nightly")
		say(t, 0, []string{"goes on", "Next"}, "resume", "nightly")
		say(t, 0, []string{"is removed"}, "remove", "nightly")
		say(t, 0, []string{"No schedules"}, "list")
		say(t, 0, []string{"completed"}, "history", "nightly")
	})
}
