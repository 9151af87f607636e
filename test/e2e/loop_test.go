package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

const stuck = `
turns:
  - when: {message: {contains: "I was told to stop"}}
    text: stopped
  - text: again
    calls:
      - {name: bash, input: {command: "echo round"}}
`

// heeds goes round until the harness says a word, and then finishes.
const heeds = `
turns:
  - when: {message: {contains: "A note from the harness"}}
    text: "I stop."
  - text: again
    calls:
      - {name: bash, input: {command: "echo round"}}
`

func TestDoomLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bash := []string{"bash"}
	w.agent(events.Agent{Name: "stuck", Tools: bash}, stuck)
	w.agent(events.Agent{Name: "heeds", Tools: bash}, heeds)
	w.agent(events.Agent{Name: "burst", Tools: bash}, `
turns:
  - when: {message: {contains: "A note from the harness"}}
    text: "I stop."
  - text: again
    calls:
      - {name: bash, input: {command: "echo round"}}
      - {name: bash, input: {command: "echo round"}}
      - {name: bash, input: {command: "echo round"}}
      - {name: bash, input: {command: "echo round"}}
      - {name: bash, input: {command: "echo round"}}
`)
	w.agent(events.Agent{Name: "counts", Tools: bash}, `
turns:
  - text: again
    calls:
      - {name: bash, input: {command: "echo round # {{turn}}"}}
`)
	w.agent(events.Agent{Name: "polls", Tools: bash}, `
turns:
  - when: {turn: 10}
    text: all there
  - text: again
    calls:
      - {name: bash, input: {command: "date +%N"}}
`)
	w.agent(events.Agent{Name: "strict", Tools: bash, DoomLoop: events.DoomLoop{Threshold: 2, Action: events.DoomFail}}, stuck)
	w.start()

	t.Run("LOOP-5 PLUS-4 the model is told after the third same call, and a model that heeds it finishes", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "heeds", Agent: "heeds", Task: "go"})
		s := w.ended("heeds")
		if s.Status != events.Completed || s.Result.Output != "I stop." || s.TotalToolCalls != 3 {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("LOOP-4d LOOP-5 LOOP-6 PLUS-4 a person is asked before the fourth, once, and the fifth is not run: the run ends with doom_loop", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "stuck", Agent: "stuck", Task: "go"})
		s := w.await("stuck", "waiting", waiting)
		g := w.opened("stuck")
		if g.Rule != "doom-loop" || !strings.Contains(g.Reason, "4 times in a row") || s.TotalToolCalls != 3 {
			t.Fatalf("%+v after %d calls", g, s.TotalToolCalls)
		}
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+g.ProposalHash+`"}`)
		s = w.ended("stuck")
		n := w.count("stuck")
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishDoomLoop || s.TotalToolCalls != 4 || n["gate.opened"] != 1 || n["call.refused"] != 1 {
			t.Errorf("%+v\n%v", s.Result, n)
		}
	})
	t.Run("LOOP-2 LOOP-4 the agent's own threshold and action are in force; without a person it ends", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "strict", Agent: "strict", Task: "go"})
		s := w.ended("strict")
		if s.Result.FinishReason != events.FinishDoomLoop || s.TotalToolCalls != 2 || w.count("strict")["gate.opened"] != 0 {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("LOOP-5 LOOP-6 of the same call in one turn only three are made, and the model that asked reads why", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "burst", Agent: "burst", Task: "go"})
		s := w.ended("burst")
		if n := w.count("burst"); s.Status != events.Completed || s.Result.Output != "I stop." || s.TotalToolCalls != 3 || n["call.refused"] != 2 {
			t.Errorf("%+v\n%v", s.Result, n)
		}
	})
	t.Run("LOOP-5 PLUS-4 a counter in the command does not hide the circle: a note, then a person", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "counts", Agent: "counts", Task: "go"})
		s := w.await("counts", "waiting", waiting)
		g := w.opened("counts")
		if g.Rule != "doom-loop" || !strings.Contains(g.Reason, "6 times in a row with the same result") || s.TotalToolCalls != 5 {
			t.Errorf("%+v after %d calls", g, s.TotalToolCalls)
		}
	})
	t.Run("LOOP-6 PLUS-4 the same command that sees something new each time goes on", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "polls", Agent: "polls", Task: "go"})
		s := w.ended("polls")
		if s.Status != events.Completed || s.TotalToolCalls != 9 || w.count("polls")["gate.opened"] != 0 {
			t.Errorf("%+v after %d calls", s.Result, s.TotalToolCalls)
		}
	})
	t.Run("LOOP-2 LOOP-4 the turns of a step are bounded for its own agent, with a reason of its own", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "few", Model: "scripted/stuck", Tools: bash, MaxSteps: 2}, "")
		w.task(events.Task{ID: "few", Agent: "few", Task: "go"})
		if s := w.ended("few"); s.Result.FinishReason != events.FinishMaxSteps || s.Turns().Len() != 2 {
			t.Errorf("%+v", s.Result)
		}
		w.task(events.Task{ID: "others", Agent: "heeds", Task: "go", Plan: &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "x", Agent: "few"}}}})
		if s := w.ended("others"); s.Result.FinishReason != events.FinishMaxSteps || s.Turns().Len() != 2 {
			t.Errorf("%+v", s.Result)
		}
	})
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-3 the calls of one turn run side by side: two that wait for each other both end", func(t *testing.T) {
		t.Parallel()
		for _, effect := range []tool.Effect{tool.Read, tool.Once} {
			var mu sync.Mutex
			met, here := make(chan struct{}), 0
			meet := &probe{name: "meet", effect: effect, do: func(ctx context.Context, _ int64, c tool.Call) (tool.Result, error) {
				mu.Lock()
				if here++; here == 2 {
					close(met)
				}
				mu.Unlock()
				select {
				case <-met:
					return tool.Result{Output: "met"}, nil
				case <-ctx.Done():
					return tool.Result{}, ctx.Err()
				}
			}}
			w := newWorld(t, meet)
			w.agent(events.Agent{Name: "pair", Tools: []string{"meet"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: meet, input: {who: a}}
      - {name: meet, input: {who: b}}
  - when: {turn: 2}
    text: "{{result.1}} and {{result.2}}"
`)
			w.start()
			w.task(events.Task{ID: "pair", Agent: "pair", Task: "go"})
			s := w.ended("pair")
			if s.Result.Output != "met and met" {
				t.Errorf("%s: %+v", effect, s.Result)
			}
			if n := s.ToolCallHistory.Len(); n != 2 {
				t.Errorf("%s: %s", effect, fmt.Sprint(run.InfoOf(s)))
			}
		}
	})
}
