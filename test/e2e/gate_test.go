package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const writer = `
turns:
  - when: {turn: 1}
    text: I write it.
    calls:
      - {name: write, input: {path: out.txt, content: "written"}}
  - when: {turn: 2}
    text: "Written."
`

func waiting(s run.State) bool { return len(s.Waiting()) > 0 }

// opened returns the last gate.opened of a run.
func (w *world) opened(runID string) events.GateOpenedData {
	w.t.Helper()
	var last events.GateOpenedData
	for _, r := range w.events(runID) {
		f, err := events.Decode(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		if k, _ := f.Kind(); k == events.GateOpened {
			if err := json.Unmarshal(f.Data, &last); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return last
}

func TestGates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "writer", Tools: []string{"write", "bash"}}, writer)
	w.agent(events.Agent{Name: "asker", Tools: []string{"bash"}, Guards: []events.Rule{{ID: "careful", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "echo hello"}}
  - when: {turn: 2}
    text: "Result: {{result.1}}"
`)
	letters := w.letters()
	roles := w.start()
	plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "one", Description: "first"}, {ID: "two", Description: "second", Needs: []string{"one"}, Critical: true}}}
	level := func(n int) *int { return &n }

	t.Run("GATE-4bc GATE-5 GATE-9 PROP-11 OBS-20 OBS-26a a gate names its subject, waits, and yes resumes the run", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "yes", Agent: "writer", Task: "write", Plan: plan, Autonomy: level(3)})
		s := w.await("yes", "waiting", waiting)
		g := w.opened("yes")
		if g.Event != "waiting_for_human" || g.Step != "two" || g.AnswerSubject != "station.test.run.yes.gate."+g.Gate || g.Action != "waiting" || s.Step("one").Status != events.StepIsCompleted {
			t.Fatalf("%+v", g)
		}
		info := w.row("yes", func(i run.Info) bool { return len(i.Gates) == 1 })
		if info.Gates[0].ID != g.Gate || info.Status != events.Running {
			t.Errorf("GATE-14: %+v", info)
		}
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+g.ProposalHash+`"}`)
		s = w.ended("yes")
		if s.Status != events.Completed || s.Gates[0].By != "anna" || s.Gates[0].ResolvedAt == nil {
			t.Errorf("%s %+v", s.Status, s.Gates[0])
		}
	})
	t.Run("GUARD-10 GATE-3 an autonomous agent does critical work with no one there to ask", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "alone", Agent: "writer", Task: "write", Plan: plan, Autonomy: level(5)})
		if s := w.ended("alone"); s.Status != events.Completed || len(s.Gates) != 0 || s.TotalToolCalls == 0 {
			t.Errorf("%s %+v, %d calls", s.Status, s.Gates, s.TotalToolCalls)
		}
	})
	t.Run("GATE-6ab PROP-11 no pauses the run with the reason; after a resume the gate stands again", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "no", Agent: "writer", Task: "write", Plan: plan, Autonomy: level(3)})
		w.await("no", "waiting", waiting)
		w.publish(w.opened("no").AnswerSubject, `{"decision":"reject","reason":"too risky","by":"bert"}`)
		s := w.await("no", "paused", func(s run.State) bool { return s.Status == events.Paused })
		if s.PauseReason != "gate rejected: too risky" || s.Gates[0].Status != run.GateRejected {
			t.Fatalf("%q %+v", s.PauseReason, s.Gates[0])
		}
		w.publish("station.test.run.no.control", `{"action":"resume"}`)
		w.await("no", "waiting again", func(s run.State) bool { return len(s.Gates) == 2 && waiting(s) })
		w.publish(w.opened("no").AnswerSubject, `{"decision":"approve"}`)
		if s := w.ended("no"); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("GATE-8 the first answer wins; later, unknown and stale ones are refused", func(t *testing.T) {
		w := w.on(t)
		g := w.opened("yes")
		w.publish(g.AnswerSubject, `{"decision":"reject"}`)
		if d := w.letter(letters); d.Code != "gate_closed" && d.Code != "run_ended" {
			t.Errorf("%+v", d)
		}
		w.task(events.Task{ID: "stale", Agent: "writer", Task: "write", Plan: plan, Autonomy: level(1)})
		w.await("stale", "waiting", waiting)
		w.publish("station.test.run.stale.gate.g-nope", `{"decision":"approve"}`)
		if d := w.letter(letters); d.Code != "unknown_gate" {
			t.Errorf("%+v", d)
		}
		w.publish(w.opened("stale").AnswerSubject, `{"decision":"approve","proposal_hash":"`+strings.Repeat("0", 64)+`"}`)
		if d := w.letter(letters); d.Code != "stale_answer" {
			t.Errorf("%+v", d)
		}
		if s := w.state("stale"); !waiting(s) {
			t.Error("a refused answer had an effect")
		}
	})
	t.Run("GATE-1 GATE-10 level 1 asks before every step; raising it lets later steps through", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "level", Agent: "writer", Task: "write", Plan: plan, Autonomy: level(1)})
		w.await("level", "waiting", waiting)
		w.publish("station.test.run.level.control", `{"action":"autonomy","level":5}`)
		w.await("level", "adjusted", func(s run.State) bool { return s.Options.Autonomy == 5 })
		w.publish(w.opened("level").AnswerSubject, `{"decision":"approve"}`)
		if s := w.ended("level"); s.Status != events.Completed || len(s.Gates) != 1 {
			t.Errorf("%s, %d gates", s.Status, len(s.Gates))
		}
	})
	t.Run("GUARD-5 SAFE-9 a rule that asks puts a gate before the call, bound to the exact arguments", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "ask", Agent: "asker", Task: "say hello"})
		w.await("ask", "waiting", waiting)
		g := w.opened("ask")
		if g.Scope != "call" || g.Rule != "careful" || !strings.Contains(string(g.Proposal), "echo hello") {
			t.Fatalf("%+v", g)
		}
		w.publish(g.AnswerSubject, `{"decision":"approve"}`)
		if s := w.ended("ask"); s.Status != events.Completed || !strings.Contains(s.Result.Output, "hello") {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("GATE-12 PERS-15 a gate outlives the restart of every service", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "restart", Agent: "writer", Task: "write", Plan: plan, Autonomy: level(3)})
		w.await("restart", "waiting", waiting)
		roles.stop()
		w.publish(w.opened("restart").AnswerSubject, `{"decision":"approve"}`)
		w.start()
		if s := w.ended("restart"); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
}
