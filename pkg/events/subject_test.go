package events_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
)

func TestValidID(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 an id is one token of the letters given, and nothing else", func(t *testing.T) {
		t.Parallel()
		for id, want := range map[string]bool{
			"a": true, "A-z_0": true, "-": true, strings.Repeat("x", events.MaxID): true,
			"": false, strings.Repeat("x", events.MaxID+1): false, "a.b": false, "*": false, ">": false, "a b": false, "a\n": false,
			"a\x00": false, "ü": false, "a/b": false, "..": false, "$x": false, "a\tb": false, "\u202ea": false,
		} {
			if got := events.ValidID(id); got != want {
				t.Errorf("%q: got %v, want %v", id, got, want)
			}
			err := events.CheckID("run", id)
			var bad *events.IDError
			if want != (err == nil) || !want && (!errors.As(err, &bad) || bad.What != "run" || !strings.Contains(err.Error(), "run")) {
				t.Errorf("check %q: got %v", id, err)
			}
		}
		if msg := events.CheckID("run", strings.Repeat("x", 10_000)).Error(); len(msg) > 300 {
			t.Errorf("the error repeats all of a hostile id: %d bytes", len(msg))
		}
	})
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	t.Run("EVT-13 subjects are spelled as in the table", func(t *testing.T) {
		t.Parallel()
		for got, want := range map[string]string{
			events.RunEventSubject("s", "r", events.StepReady): "station.s.run.r.evt.step.ready",
			events.RunEvents("s", "r"):                         "station.s.run.r.evt.>",
			events.RunEventsOfKind("s", events.StepReady):      "station.s.run.*.evt.step.ready",
			events.TaskSubject("s"):                            "station.s.task",
			events.ControlSubject("s", "r"):                    "station.s.run.r.control",
			events.GateSubject("s", "r", "g"):                  "station.s.run.r.gate.g",
			events.StreamSubject("s", "r"):                     "station.s.run.r.stream",
			events.LiveSubject("s", "r"):                       "station.s.run.r.live",
			events.RetainedSubject("s", "r"):                   "station.s.run.r.kept",
			events.DeadSubject("s", events.Planner):            "station.s.dead.planner",
			events.TimerSubject("s", "r", "turn.build"):        "station.s.timer.r.turn.build",
			events.DueSubject("s", "r", "turn.build"):          "station.s.due.r.turn.build",
		} {
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
	t.Run("EVT-13 what is spelled is parsed", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			id := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
			s, r, g := id.Draw(t, "station"), id.Draw(t, "run"), id.Draw(t, "gate")
			k := rapid.SampledFrom(events.Registry()).Draw(t, "kind").Kind
			for subject, rest := range map[string][]string{
				events.RunEventSubject(s, r, k): {"evt", k.Family(), strings.TrimPrefix(string(k), k.Family()+".")},
				events.ControlSubject(s, r):     {"control"},
				events.GateSubject(s, r, g):     {"gate", g},
			} {
				p, ok := events.ParseRunSubject(subject)
				if !ok || p.Station != s || p.Run != r || !slices.Equal(p.Rest, rest) {
					t.Fatalf("%s: got %+v %v", subject, p, ok)
				}
			}
			run, family, name, ok := events.ParseDue(events.DueSubject(s, r, "turn."+g))
			if !ok || run != r || family != "turn" || name != g {
				t.Fatalf("due: got %q %q %q %v", run, family, name, ok)
			}
		})
	})
	t.Run("SAFE-12 anything else is refused", func(t *testing.T) {
		t.Parallel()
		for _, subject := range []string{"", "station", "station.s.run.r", "station.s.run..evt.a.b", "station..run.r.evt", "x.s.run.r.evt",
			"station.s.task", "station.s.run.*.evt.a.b", "station.s.run.>.evt", "station.s b.run.r.evt", "station.s.run.r.", "station.s.run.r..evt",
			"station.s.run.r.gate.", "station.s.run.r.gate.a b", "station.s.run.r.gate.*"} {
			if p, ok := events.ParseRunSubject(subject); ok {
				t.Errorf("%q: got %+v", subject, p)
			}
		}
		for _, subject := range []string{"", "station.s.due.r.turn", "station.s.due..turn.a", "station.s.due.r.turn.a.b", "station.s.timer.r.turn.a",
			"x.s.due.r.turn.a", "station.s.due.*.turn.a", "station..due.r.turn.a", "station.s.due.r..a", "station.s.due.r.turn."} {
			if run, family, id, ok := events.ParseDue(subject); ok {
				t.Errorf("%q: got %q %q %q", subject, run, family, id)
			}
		}
	})
}
