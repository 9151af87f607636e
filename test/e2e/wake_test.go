package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const wakeSteps = `[[steps]]
id = "hold"
kind = "wait"
signal = "deployed"
agent = "looks"
title = "See whether the version is live."
wake = { every = "50ms", until = "last.live" }
timeout = "720h"
[[steps]]
id = "after"
title = "go on with {{steps.hold.output}}"
`

// expansions are the looks of a step as its run recorded them, each with the time of its event.
func expansions(t *testing.T, w *world, id, step string) (all []*events.StepExpandedData, at []time.Time) {
	t.Helper()
	for _, b := range w.events(id) {
		e, p, err := events.Read(b.Bytes)
		if d, is := p.(*events.StepExpandedData); err == nil && is && d.Step == step {
			all, at = append(all, d), append(at, e.Time)
		}
	}
	return all, at
}

func TestWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "says"}, "turns:\n  - text: \"said {{step}}\"\n")
	w.agent(events.Agent{Name: "looks"}, `turns:
  - when: {step: hold-3}
    text: '{"live": true, "version": "1.2"}'
  - text: '{"live": false}'
`)
	w.start()
	t.Run("PLAN-12b an agent that waits is woken, looks, and goes on when it found what it waits for; each time is twice the last", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "looked", wakeSteps))
		s := w.ended("looked")
		if got := s.Step("hold"); s.Status != events.Completed || got.Output != `{"live": true, "version": "1.2"}` || got.Parts != 3 {
			t.Fatalf("%s %+v\n%s", s.Status, got, w.story("looked"))
		}
		looks, at := expansions(t, w, "looked", "hold")
		for i, d := range looks {
			if d.From != i+1 || d.DelayMS != 50<<i || d.NotBefore.Sub(at[i]) > time.Duration(d.DelayMS)*time.Millisecond {
				t.Errorf("look %d: %+v at %s", i+1, d, at[i])
			}
			if st := s.Step(events.PartID("hold", i+1)); st.BeganAt.Before(d.NotBefore) && !st.BeganAt.IsZero() {
				t.Errorf("look %d began at %s, before %s", i+1, st.BeganAt, d.NotBefore)
			}
		}
		if n := w.count("looked"); len(looks) != 3 || n["turn.finished"] != 4 {
			t.Errorf("%d looks, %v", len(looks), n)
		}
	})
	t.Run("PLAN-12b the signal comes before the agent looks: no look is taken, and why said when it would have been", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "signalled", strings.Replace(wakeSteps, "50ms", "100h", 1)))
		s := w.await("signalled", "a look that waits for its time", func(s run.State) bool { return s.Step("hold-1") != nil })
		if why := view.Why(s, time.Now()); !strings.Contains(why, "waits for the signal deployed") ||
			!strings.Contains(why, "step hold waits for the next wake-up of its agent for") {
			t.Error(why)
		}
		w.publish(events.ControlSubject("test", "signalled"), `{"action":"signal","signal":"deployed","data":"by hand"}`)
		s = w.ended("signalled")
		if got, look := s.Step("hold"), s.Step("hold-1"); s.Status != events.Completed || got.Output != "by hand" ||
			look.Status != events.StepIsSkipped || w.count("signalled")["turn.finished"] != 1 {
			t.Errorf("%s %+v %+v\n%s", s.Status, got, look, w.story("signalled"))
		}
	})
	t.Run("PLAN-12b the time is up before the agent found anything: the look that waits is skipped, and the step fails", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "unseen", strings.Replace(strings.Replace(wakeSteps, "50ms", "100h", 1), "720h", "200ms", 1)))
		if s := w.ended("unseen"); s.Status != events.Failed || s.Step("hold-1").Status != events.StepIsSkipped ||
			!strings.Contains(s.Step("hold").Error, "did not come within 200ms") {
			t.Errorf("%+v\n%s", s.Result, w.story("unseen"))
		}
	})
}
