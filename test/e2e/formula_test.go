package e2e

import (
	"testing"
	"testing/fstest"

	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/internal/work"
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

// stepItems are the rows of the work items of a run's steps, by step.
func (w *world) stepItems(run string) map[string]work.State {
	w.t.Helper()
	keys, err := w.ports.Sessions.Keys(w.ctx(), work.View().Prefix)
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]work.State{}
	for _, key := range keys {
		row, err := w.ports.Sessions.Get(w.ctx(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		s, _, ok := work.View().Read(row)
		if !ok {
			w.t.Fatalf("%s: %s", key, row)
		}
		if s.Step == nil || s.Step.Run != run {
			continue
		}
		if twin, twice := all[s.Step.Step]; twice {
			w.t.Errorf("step %s has the items %s and %s", s.Step.Step, twin.ID, s.ID)
		}
		all[s.Step.Step] = s
	}
	return all
}

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
	t.Run("FORM-3 each step of a formula has a work item of its own, which is open, then held, then closed with it", func(t *testing.T) {
		w := w.on(t)
		w.task(compiled(t, "items", "formula = \"f\"\n[defaults]\nagent = \"leg\"\n[[steps]]\nid = \"a\"\ntitle = \"first\"\n"+
			"[[steps]]\nid = \"b\"\ntitle = \"then\"\nneeds = [\"a\"]\nkind = \"wait\"\nsignal = \"go\"\ntimeout = \"5m\"\n"+
			"[[steps]]\nid = \"c\"\ntitle = \"last\"\nneeds = [\"b\"]\n"))
		is := func(want map[string]events.WorkStatus) func() bool {
			return func() bool {
				all := w.stepItems("items")
				if len(all) != len(want) {
					return false
				}
				for step, s := range all {
					if s.Status != want[step] {
						return false
					}
				}
				return true
			}
		}
		w.until("the items show a run that waits", is(map[string]events.WorkStatus{"a": events.WorkIsClosed, "b": events.WorkIsBound, "c": events.WorkIsOpen}))
		w.publish(events.ControlSubject("test", "items"), `{"action":"signal","signal":"go"}`)
		w.ended("items")
		w.until("the items show a run that is complete", is(map[string]events.WorkStatus{"a": events.WorkIsClosed, "b": events.WorkIsClosed, "c": events.WorkIsClosed}))
		s := w.stepItems("items")["c"]
		if s.Spec.Title != "last" || s.Step.Status != events.StepIsCompleted || s.Last == nil || s.Last.Agent != "leg" || s.Last.Code != events.WorkCompleted {
			t.Errorf("%+v", s.WorkItem)
		}
		if got := w.item(s.ID); got.Sequence != s.Sequence || got.Status != s.Status {
			t.Errorf("the row shows event %d, %s, the log event %d, %s", s.Sequence, s.Status, got.Sequence, got.Status)
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
