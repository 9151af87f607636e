package e2e

import (
	"testing"
	"testing/fstest"

	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/pkg/events"
)

// compiled is the task of a formula, as inspan formula run sends it.
func compiled(t *testing.T, id, text string) events.Task {
	t.Helper()
	m, err := formula.Load(fstest.MapFS{"f.formula.toml": &fstest.MapFile{Data: []byte(text)}}, "f")
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return events.Task{ID: id, Agent: c.Agent, Task: c.Task, Plan: c.Plan, Formula: &c.Formula}
}

const convoy = `formula = "f"
description = "Look at it from two sides."
[defaults]
agent = "leg"
[[legs]]
id = "left"
title = "the left side"
[[legs]]
id = "right"
title = "the right side"
[synthesis]
title = "bring both together"
agent = "joins"
`

func TestFormula(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "leg"}, "turns:\n  - text: \"saw {{step}}\"\n")
	w.agent(events.Agent{Name: "joins"}, `
turns:
  - {when: {message: {contains: "saw left"}}, text: both}
  - text: saw nothing
`)
	w.agent(events.Agent{Name: "fixes", Tools: []string{"bash"}}, `
turns:
  - when: {message: {contains: "The step is not done"}, turn: 2}
    calls:
      - {name: bash, input: {command: "echo yes > done.txt"}}
  - text: It is done.
`)
	w.start()
	t.Run("FORM-1 FORM-6 TRIG-11 a convoy runs its legs, and the synthesis gets their results; the run knows its formula", func(t *testing.T) {
		w := w.on(t)
		task := compiled(t, "convoy", convoy)
		w.task(task)
		s := w.ended("convoy")
		if s.Status != events.Completed || s.Step("left").Output != "saw left" || s.Step("synthesis").Output != "both" {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("convoy"))
		}
		if f := s.Created.Formula; f == nil || *f != *task.Formula {
			t.Errorf("formula %+v", f)
		}
	})
	t.Run("FORM-1 PLUS-10 the checks of a step hold for that step alone", func(t *testing.T) {
		w := w.on(t)
		w.task(compiled(t, "checks", "formula = \"f\"\n[defaults]\nagent = \"fixes\"\n[[steps]]\nid = \"a\"\ntitle = \"do it\"\naccept = \"test -f done.txt\"\n"+
			"[[steps]]\nid = \"b\"\ntitle = \"more\"\nagent = \"leg\"\nneeds = [\"a\"]\n"))
		s := w.ended("checks")
		results, _ := w.checkResults("checks")
		if s.Status != events.Completed || len(results) != 2 || results[1] != "passed" || w.count("checks")["step.claimed"] != 2 {
			t.Errorf("%s %+v %v\n%s", s.Status, s.Result, results, w.story("checks"))
		}
	})
}
