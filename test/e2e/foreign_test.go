package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// foreign is the task of a formula or workflow that is written in the dialect of another program.
func foreign(t *testing.T, id, name string, vars map[string]string) events.Task {
	t.Helper()
	m, err := formula.Load(os.DirFS("../../internal/formula/testdata/foreign"), name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Compile(vars)
	if err != nil {
		t.Fatal(err)
	}
	return events.Task{ID: id, Agent: "says", Task: c.Task, Plan: c.Plan, Formula: &c.Formula, Variables: c.Variables}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "says"}, `
turns:
  - {when: {step: sort, message: {contains: "quiet"}}, text: '{"level": "low", "note": "a note"}'}
  - {when: {step: sort, message: {contains: "strange"}}, text: '{"level": "odd"}'}
  - {when: {step: sort}, text: '{"level": "high"}'}
  - text: "said {{step}}"
`)
	w.agent(events.Agent{Name: "fails"}, "turns:\n  - {text: \"no\", finish: refusal}\n")
	w.start()
	ends := func(t *testing.T, task events.Task, want string) run.State {
		t.Helper()
		w := w.on(t)
		w.task(task)
		s := w.ended(task.ID)
		if got := statuses(s); s.Status != events.Completed || got != want {
			t.Fatalf("%s: %s, got %s\nwant %s\n%s", task.ID, s.Status, got, want, w.story(task.ID))
		}
		return s
	}
	t.Run("FORM-8 a switch goes one way, and the ways meet again", func(t *testing.T) {
		s := ends(t, foreign(t, "high", "triage", map[string]string{"report": "it burns"}),
			"sort completed, route completed, ask skipped, note skipped, page completed, close completed")
		if got := s.Step("close").Output; got != `{"answer":"said page","level":"high"}` {
			t.Errorf("got %s", got)
		}
		s = ends(t, foreign(t, "low", "triage", map[string]string{"report": "quiet"}),
			"sort completed, route completed, ask skipped, note completed, page skipped, close completed")
		if got := s.Step("close").Output; got != `{"answer":"said note","level":"low"}` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("GATE-7 a state that asks a person waits for those it names", func(t *testing.T) {
		w := w.on(t)
		w.task(foreign(t, "odd", "triage", map[string]string{"report": "strange"}))
		w.await("odd", "a gate", waiting)
		w.publish(w.opened("odd").AnswerSubject+".anna", `{"decision":"approve"}`)
		if s := w.ended("odd"); s.Step("ask").Status != events.StepIsCompleted || s.Step("page").Status != events.StepIsSkipped {
			t.Errorf("%s\n%s", statuses(s), w.story("odd"))
		}
	})
	t.Run("FORM-8 FORM-12 foreach carries out a state for each item, and its outputs are a list", func(t *testing.T) {
		s := ends(t, foreign(t, "fleet", "fleet", nil), "services completed, each completed, each-1 completed, each-2 completed, sum completed")
		if got := s.Step("sum").Output; got != `{"n":2,"quiet":true}` || string(s.Step("each-1").Part.Item) != `{"level":1,"name":"api"}` {
			t.Errorf("got %s, %s", got, s.Step("each-1").Part.Item)
		}
	})
	t.Run("FORM-8 where a state of a try fails the rest is left out, catch and finally are carried out, and it goes on", func(t *testing.T) {
		ends(t, foreign(t, "repair", "repair", nil), "first failed, second skipped, undo completed, sweep completed, report completed")
	})
	t.Run("FORM-10 branches of several states run at once, and timers let time pass", func(t *testing.T) {
		ends(t, foreign(t, "sides", "sides", nil), "good completed, b1 completed, b2 completed, one completed")
		task := foreign(t, "night", "night", nil)
		ends(t, task, "rest completed, work completed, work-1 completed, more completed")
	})
	t.Run("FORM-7 expansions and aspects of other programs are steps", func(t *testing.T) {
		s := ends(t, foreign(t, "thorough", "thorough", map[string]string{"change": "the door"}),
			"plan completed, make-rough completed, make-right completed, make-short completed, check completed")
		if !strings.Contains(s.Step("make-rough").Description, "Make the door") {
			t.Errorf("%+v", s.Step("make-rough"))
		}
		ends(t, foreign(t, "careful", "careful-ship", map[string]string{"change": "the door"}),
			"plan completed, make-before completed, make completed, make-after completed, check completed")
	})
	t.Run("FORM-6 a convoy of another program has its synthesis", func(t *testing.T) {
		ends(t, foreign(t, "angles", "angles", map[string]string{"topic": "tea"}), "cost completed, risk completed, synthesis completed")
	})
}
