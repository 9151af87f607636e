package e2e

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestRevise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "writer", Tools: []string{"write"}}, "turns:\n  - when: {turn: {from: 1, to: 9}}\n    text: \"Done.\"\n")
	letters := w.letters()
	w.start()
	three := 3
	plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "one", Description: "first"},
		{ID: "two", Description: "second", Needs: []string{"one"}, Critical: true}, {ID: "three", Description: "third", Needs: []string{"two"}}}}
	begin := func(w *world, id string) events.GateOpenedData {
		w.task(events.Task{ID: id, Agent: "writer", Task: "write", Plan: plan, Autonomy: &three})
		w.await(id, "waiting", waiting)
		return w.opened(id)
	}
	const revise = `{"action":"revise","by":"anna","reason":"staging first","plan":{"steps":[
		{"id":"staging","description":"to staging","needs":["one"]},{"id":"report","description":"report","needs":["staging"]}]}}`

	t.Run("PLAN-9 GATE-6 after a no the paused run gets another plan by a plain message, goes on, and does no finished step again", func(t *testing.T) {
		w := w.on(t)
		g := begin(w, "no")
		w.publish(g.AnswerSubject, `{"decision":"reject","reason":"too risky","by":"bert"}`)
		w.await("no", "paused", func(s run.State) bool { return s.Status == events.Paused })
		w.publish("station.test.run.no.control", revise)
		s := w.await("no", "revised", func(s run.State) bool { return s.Step("staging") != nil })
		if s.Status != events.Paused || s.Step("one").Status != events.StepIsCompleted || s.Step("two") != nil || s.Step("three") != nil {
			t.Fatalf("%s %+v", s.Status, s.Plan)
		}
		w.publish("station.test.run.no.control", `{"action":"resume"}`)
		s = w.ended("no")
		if s.Status != events.Completed || s.Result.StepsCompleted != 3 || s.Result.StepsTotal != 3 || s.Step("one").Turns != 1 {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
		if n := w.count("no"); n["plan.revised"] != 1 || n["step.finished"] != 3 || n["step.allowed"] != 3 || n["turn.finished"] != 3 || n["gate.opened"] != 1 {
			t.Errorf("%v\n%s", n, w.story("no"))
		}
	})
	t.Run("PLAN-9 SAFE-2 a revision is refused while the run is not paused, and its second message changes nothing", func(t *testing.T) {
		w := w.on(t)
		g := begin(w, "late")
		w.publish("station.test.run.late.control", revise)
		if d := w.letter(letters); d.Code != "bad_move" || !strings.Contains(d.Reason, "running") || !strings.Contains(d.Hint, "inspan pause late") {
			t.Errorf("%+v", d)
		}
		w.publish("station.test.run.late.control", `{"action":"pause"}`)
		w.await("late", "paused", func(s run.State) bool { return s.Status == events.Paused })
		w.publish("station.test.run.late.control", strings.Replace(revise, `"needs":["one"]`, `"needs":["two"]`, 1))
		if d := w.letter(letters); d.Code != "bad_plan" || !strings.Contains(d.Reason, "which this revision removes") || d.Run != "late" {
			t.Errorf("%+v", d)
		}
		w.publish("station.test.run.late.control", strings.Replace(revise, `"id":"staging"`, `"id":"staging","agent":"nobody"`, 1))
		if d := w.letter(letters); d.Code != "bad_plan" || !strings.Contains(d.Reason, "is not registered") {
			t.Errorf("%+v", d)
		}
		w.publish("station.test.run.late.control", revise)
		w.await("late", "revised", func(s run.State) bool { return s.Step("staging") != nil })
		w.publish("station.test.run.late.control", revise)
		if d := w.letter(letters); d.Code != "bad_plan" || !strings.Contains(d.Reason, "has or had that id") {
			t.Errorf("%+v", d)
		}
		w.publish(g.AnswerSubject, `{"decision":"approve","by":"bert"}`)
		if d := w.letter(letters); d.Code != "gate_closed" || !strings.Contains(d.Reason, "anna revised the plan") {
			t.Errorf("a late answer to the gate of a removed step: %+v", d)
		}
		w.publish("station.test.run.late.control", `{"action":"resume"}`)
		if s := w.ended("late"); s.Status != events.Completed || s.Gates[0].Status != run.GateSuperseded || w.count("late")["plan.revised"] != 1 {
			t.Errorf("%s %+v", s.Status, s.Gates[0])
		}
		w.publish("station.test.run.late.control", revise)
		if d := w.letter(letters); d.Code != "bad_move" || !strings.Contains(d.Reason, "completed") {
			t.Errorf("%+v", d)
		}
	})
}
