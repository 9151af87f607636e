package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// scheduled are the schedules of the station.
func (l living) scheduled() map[string]events.Schedule {
	l.t.Helper()
	s := inspan(l.t, "schedule", "list", "--json", "--server", l.URL)
	if s.code != 0 {
		l.t.Fatal(s.err)
	}
	all := map[string]events.Schedule{}
	for _, one := range decode[[]events.Schedule](l.t, s.out) {
		all[one.ID] = one
	}
	return all
}

// asking is the file of an agent that begins runs by itself.
func asking(name, schedule string) string {
	return strings.Replace(agent(name, "read"), "\nversion:", "\nschedule: "+schedule+"\nversion:", 1)
}

func TestUpSchedules(t *testing.T) {
	t.Parallel()
	dir := newDesk(t).dir
	env := []string{"XDG_STATE_HOME=" + t.TempDir(), "INSPAN_CONFIG="}
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	night := "cron: \"0 2 * * *\"\ntimezone: Europe/Berlin\ntask: {agent: reader, task: look}\n"
	text(t, at("schedules", "night.yaml"), night)
	text(t, at("schedules", "bad.yaml"), "every: 1h\ntask: {agent: reader, task: look}\noverlapp: skip\n")
	text(t, at("schedules", "never.yaml"), "# a day that no month has\ncron: \"0 0 31 2 *\"\ntask: {agent: reader, task: look}\n")
	text(t, at("schedules", "nobody.yaml"), "every: 1h\ntask: {agent: nobody, task: look}\n")
	text(t, at("agents", "reader.prompt"), asking("reader", "{every: 36h, task: look around, session: true}"))
	up := []string{"--agents", "agents", "--scripts", "scripts", "--store", "store"}
	accept := func(t *testing.T) {
		t.Helper()
		if s := process(t, dir, env, "trust"); s.code != 0 {
			t.Fatal(s.err)
		}
	}

	t.Run("SAFE-6 CLI-9 agents of a directory are registered once a person accepted them, without flags", func(t *testing.T) {
		dir := newDesk(t).dir
		text(t, filepath.Join(dir, "agents", "reader.prompt"), agent("reader", "read"))
		if s := process(t, dir, env, "up", "--port", "0", "--store", "store"); s.code != 4 || !strings.Contains(s.err, "inspan trust") {
			t.Fatalf("exit %d %s", s.code, s.err)
		}
		if s := process(t, dir, env, "trust"); s.code != 0 {
			t.Fatal(s.err)
		}
		l := live(t, dir, env, "--store", "store")
		if got := l.described(); got["reader"] == "" {
			t.Errorf("registered: %v", got)
		}
		l.kill()
	})
	l := live(t, dir, env, up...)
	t.Run("TRIG-5 SAFE-6 schedules of a directory are registered once a person accepted them", func(t *testing.T) {
		l.reports("Schedules: the folder schedules is not accepted as it is now; look at it and accept it with inspan trust")
		if got := l.scheduled(); len(got) != 1 || got["reader"].ID == "" {
			t.Fatalf("registered: %v", got)
		}
		accept(t)
		l.reports("Schedules: schedules/night.yaml is new: night is registered: agent reader, 0 2 * * * Europe/Berlin, next at 20")
		if s := l.scheduled()["night"]; s.Spec.Cron != "0 2 * * *" || len(s.Spec.Digest) != 64 || s.Status != events.ScheduleIsActive {
			t.Errorf("%+v", s)
		}
	})
	t.Run("TRIG-5 TRIG-6 an agent's file asks for a schedule of its own, with its session", func(t *testing.T) {
		l.reports("Schedules: agents/reader.prompt is new: reader is registered: agent reader, every 36h")
		if s := l.scheduled()["reader"]; s.Spec.Every != "36h" || s.Spec.Task.Task != "look around" || s.Spec.Task.Session != "reader" {
			t.Errorf("%+v", s.Spec)
		}
		if s := inspan(t, "schedule", "run", "reader", "--server", l.URL); s.code != 0 || !strings.Contains(s.out, "began run firing_") {
			t.Errorf("exit %d: %s%s", s.code, s.out, s.err)
		}
	})
	t.Run("TRIG-5 a file that is wrong is reported with its position, and the others are registered", func(t *testing.T) {
		l.reports("Schedules: schedules/bad.yaml:3: overlapp: ")
		l.reports("Schedules: schedules/never.yaml:2: ")
		l.reports("Schedules: schedules/nobody.yaml: refused (unknown_agent): ")
		if got := l.scheduled(); len(got) != 2 {
			t.Errorf("registered: %v", got)
		}
	})
	t.Run("TRIG-5 changed and removed files, and one that others changed", func(t *testing.T) {
		for _, gone := range []string{"bad.yaml", "never.yaml", "nobody.yaml"} {
			if err := os.Remove(at("schedules", gone)); err != nil {
				t.Fatal(err)
			}
		}
		text(t, at("schedules", "night.yaml"), strings.Replace(night, "0 2", "0 3", 1))
		text(t, at("schedules", "second.yaml"), "every: 2h\ntask: {agent: reader, task: look}\n")
		accept(t)
		l.reports("Schedules: schedules/night.yaml changed: night is registered: agent reader, 0 3 * * *")
		l.reports("Schedules: schedules/second.yaml is new: second is registered")
		text(t, at("agents", "reader.prompt"), agent("reader", "read"))
		l.reports("Schedules: agents/reader.prompt has no schedule reader any more: it is removed; runs that it began go on")
		if s := inspan(t, "schedule", "add", "reader", "by hand", "--every", "3h", "--name", "second", "--replace", "--server", l.URL); s.code != 0 {
			t.Fatal(s.err)
		}
		for _, gone := range []string{"night.yaml", "second.yaml"} {
			if err := os.Remove(at("schedules", gone)); err != nil {
				t.Fatal(err)
			}
		}
		l.reports("Schedules: schedules/night.yaml has no schedule night any more: it is removed")
		l.reports("Schedules: schedules/second.yaml has no schedule second any more: it was changed by others and goes on")
		if got := l.scheduled(); len(got) != 1 || got["second"].Spec.Every != "3h" {
			t.Errorf("registered: %v", got)
		}
	})
	t.Run("TRIG-5 one that a person made is not replaced by a file of its name", func(t *testing.T) {
		text(t, at("schedules", "second.yaml"), "every: 2h\ntask: {agent: reader, task: look}\n")
		text(t, at("schedules", "third.yaml"), "every: 4h\ntask: {agent: reader, task: look}\n")
		accept(t)
		l.reports("inspan schedule push schedules/second.yaml replaces it")
		l.reports("Schedules: schedules/third.yaml is new: third is registered")
		if got := l.scheduled(); len(got) != 2 || got["second"].Spec.Every != "3h" {
			t.Errorf("registered: %v", got)
		}
	})
	t.Run("TRIG-5 after a restart what is as it was is not registered again, and what has no file is named", func(t *testing.T) {
		l.kill()
		for _, gone := range []string{"second.yaml", "third.yaml"} {
			if err := os.Remove(at("schedules", gone)); err != nil {
				t.Fatal(err)
			}
		}
		text(t, at("schedules", "fourth.yaml"), "every: 5h\ntask: {agent: reader, task: look}\n")
		accept(t)
		again := live(t, dir, env, up...)
		again.reports("Schedules: schedules/fourth.yaml is new")
		again.reports("Schedules: third was registered from a file that is not here and goes on; inspan schedule remove third ends it")
		again.kill()
		once := live(t, dir, env, up...)
		once.reports("Schedules: third was registered")
		if strings.Contains(once.err.String(), "fourth") {
			t.Errorf("registered again:\n%s", once.err.String())
		}
	})
}
