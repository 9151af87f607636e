package e2e

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestCheckSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "says"}, "turns:\n  - {text: \"said {{step}}\"}\n")
	w.agent(events.Agent{Name: "writes", Tools: []string{"write"}}, `
turns:
  - when: {turn: 1, step: make}
    calls:
      - {name: write, input: {path: made.txt, content: "yes"}}
  - text: done
`)
	w.start()
	const steps = `[[steps]]
id = "make"
title = "make it"
agent = "writes"
[[steps]]
id = "look"
kind = "check"
title = "it is there"
needs = ["make"]
accept = {checks = [{kind = "command", run = "test -f made.txt"}, {kind = "artifact", path = "FILE"}]}
[[steps]]
id = "after"
title = "go on"
needs = ["look"]
`
	t.Run("FORM-1 a step of the kind check is its checks: no agent takes a turn", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "checked", strings.Replace(steps, "FILE", "made.txt", 1)))
		s := w.ended("checked")
		if s.Status != events.Completed || s.Step("look").Turns != 0 || w.count("checked")["check.passed"] < 2 || w.count("checked")["step.claimed"] != 1 {
			t.Errorf("%+v\n%s", s.Result, w.story("checked"))
		}
		if r := replayed(t, lawOf(t, events.GateTerms{}), w.log("checked")); !r.OK() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("FORM-1 where a check does not pass its step fails at once, and what depends on it is blocked", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "missing", strings.Replace(steps, "FILE", "other.txt", 1)))
		s := w.ended("missing")
		if got, want := statuses(s), "make completed, look failed, after blocked"; got != want || !strings.Contains(s.Step("look").Error, "did not pass") ||
			s.Step("look").Turns != 0 {
			t.Errorf("got %s, want %s: %+v\n%s", got, want, s.Step("look"), w.story("missing"))
		}
	})
	t.Run("FORM-1 a check is made again where its author says so, and may fail", func(t *testing.T) {
		w := w.on(t)
		w.task(flowTask(t, "tries", strings.Replace(strings.Replace(steps, "FILE", "other.txt", 1), `kind = "check"`,
			"kind = \"check\"\nretry = {max_attempts = 2, on = \"any\", on_exhausted = \"soft_fail\"}", 1)))
		if got, want := statuses(w.ended("tries")), "make completed, look failed, look-1 failed, look-2 failed, after completed"; got != want {
			t.Errorf("got %s, want %s\n%s", got, want, w.story("tries"))
		}
	})
}
