package e2e

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestTeardown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "says"}, "turns:\n  - text: \"said {{step}}\"\n")
	w.start()
	const steps = `[[steps]]
id = "hold"
kind = "wait"
signal = "go"
scope = { teardown = "tidy" }
[[steps]]
id = "tidy"
title = "tidy up"
[[steps]]
id = "later"
title = "go on"
needs = ["hold"]
scope = { teardown = "unneeded" }
[[steps]]
id = "unneeded"
title = "tidy up what did not begin"
`
	held := func(s run.State) bool { st := s.Step("hold"); return st != nil && st.Status == events.StepIsRunning }
	t.Run("FORM-1 a run that is stopped names the teardowns that are not carried out, of what had begun, and carries none out", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "stopped", steps))
		w.await("stopped", "held", held)
		w.publish(events.ControlSubject("test", "stopped"), `{"action":"stop","by":"anna","reason":"enough"}`)
		s := w.ended("stopped")
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || s.Result.Error != "stopped: enough; not carried out: the teardown tidy of hold" {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("stopped"))
		}
		if n := w.count("stopped"); n["turn.finished"] != 0 || s.Step("tidy").Ended() {
			t.Errorf("%v", n)
		}
	})
	t.Run("FORM-1 a run that goes on carries its teardowns out, and its end names none", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "whole", steps))
		w.await("whole", "held", held)
		w.publish(events.ControlSubject("test", "whole"), `{"action":"signal","signal":"go"}`)
		s := w.ended("whole")
		if s.Status != events.Completed || s.Step("tidy").Output != "said tidy" || strings.Contains(s.Result.Error, "teardown") {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("whole"))
		}
	})
}
