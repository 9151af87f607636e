package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "says"}, "turns:\n  - text: \"said {{step}}\"\n")
	w.start()
	const steps = `[[steps]]
id = "first"
title = "begin"
[[steps]]
id = "hold"
kind = "wait"
signal = "deployed"
needs = ["first"]
timeout = "720h"
[[steps]]
id = "after"
title = "go on with {{steps.hold.output}}"
`
	waits := func(id string) func(run.State) bool {
		return func(s run.State) bool { st := s.Step(id); return st != nil && st.Status == events.StepIsRunning }
	}
	send := func(w *world, id, body string) { w.publish(events.ControlSubject("test", id), body) }
	t.Run("PLAN-12a a step waits for a signal, what it carries is its output, and twice is once", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "held", steps))
		s := w.await("held", "a wait", waits("hold"))
		if at, why := time.Now(), view.Waits(s, time.Now()); len(why) != 1 || why[0].On != view.OnSignal || why[0].Step != "hold" ||
			!strings.Contains(why[0].Line(at), "waits for the signal deployed") || !strings.Contains(why[0].Line(at), "inspan signal held deployed") {
			t.Errorf("%+v", why)
		}
		letters := w.letters()
		for body, want := range map[string]string{
			`{"action":"signal","signal":"other"}`: "unknown_signal",
			`{"action":"signal","signal":"a b"}`:   "bad_input",
			`{"action":"signal","signal":"deployed","data":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`: "bad_input",
			`{"action":"pause","signal":"deployed"}`:   "bad_input",
			`{"action":"signals","signal":"deployed"}`: "bad_input",
		} {
			send(w, "held", body)
			if l := w.letter(letters); l.Code != want || l.Reason == "" || l.Hint == "" {
				t.Errorf("%.60s: %+v", body, l)
			}
		}
		send(w, "held", `{"action":"signal","signal":"deployed","data":{"version": "1.2"},"by":"ci"}`)
		s = w.ended("held")
		if got := s.Step("hold"); s.Status != events.Completed || got.Output != `{"version":"1.2"}` || w.count("held")["step.settled"] != 1 {
			t.Fatalf("%s %+v\n%s", s.Status, got, w.story("held"))
		}
		send(w, "held", `{"action":"signal","signal":"deployed","data":2}`)
		if l := w.letter(letters); l.Code != "signal_late" || !strings.Contains(l.Reason, "have ended: hold") {
			t.Errorf("%+v", l)
		}
		var settled *events.StepSettledData
		for _, b := range w.events("held") {
			if _, p, err := events.Read(b.Bytes); err == nil && p.Kind() == events.StepSettled {
				settled, _ = p.(*events.StepSettledData)
			}
		}
		if settled == nil || settled.By != "ci" || settled.Input == 0 {
			b, _ := json.Marshal(settled)
			t.Errorf("%s", b)
		}
	})
	t.Run("PLAN-12a a signal that comes before its step waits is refused and not kept", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "early", strings.Replace(steps, `title = "begin"`, "kind = \"wait\"\nsignal = \"begin\"", 1)))
		w.await("early", "a wait", waits("first"))
		letters := w.letters()
		send(w, "early", `{"action":"signal","signal":"deployed"}`)
		if l := w.letter(letters); l.Code != "signal_early" {
			t.Errorf("%+v", l)
		}
		send(w, "early", `{"action":"signal","signal":"begin"}`)
		w.await("early", "the second wait", waits("hold"))
		send(w, "early", `{"action":"signal","signal":"deployed","data":"now"}`)
		if s := w.ended("early"); s.Step("hold").Output != "now" || s.Step("first").Output != "null" {
			t.Errorf("%s", w.story("early"))
		}
	})
	t.Run("PLAN-12a a signal that does not come in time fails its step, or skips it where its author says so", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "never", strings.Replace(steps, "720h", "200ms", 1)))
		if s := w.ended("never"); s.Status != events.Failed || !strings.Contains(s.Step("hold").Error, "the signal deployed did not come within 200ms") {
			t.Errorf("%+v\n%s", s.Result, w.story("never"))
		}
		w.task(flowTask(t, "skips", strings.Replace(steps, `"720h"`, "\"200ms\"\non_timeout = \"skip\"", 1)))
		if s := w.ended("skips"); statuses(s) != "first completed, hold skipped, after completed" || s.Status != events.Completed {
			t.Errorf("%s\n%s", statuses(s), w.story("skips"))
		}
	})
}
