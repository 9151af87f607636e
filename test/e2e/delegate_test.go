package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// gives is an agent that gives work to others, in the way of its script.
func gives(name string, to ...string) events.Agent {
	return events.Agent{Name: name, Tools: []string{"delegate", "delegate_result"}, Delegates: to}
}

// delegates are the agents of the tests of delegation.
func (w *world) delegates() {
	w.agent(events.Agent{Name: "kid", Tools: []string{"bash"}}, `
turns:
  - {when: {turn: 1}, calls: [{name: bash, input: {command: "echo made > made.txt; pwd"}}]}
  - {text: "the kid worked"}
`)
	w.agent(events.Agent{Name: "learns"}, `
turns:
  - {when: {message: {contains: "An earlier attempt at this failed"}}, text: better}
  - error: {class: invalid, message: no such thing}
`)
	w.agent(events.Agent{Name: "never"}, "turns:\n  - error: {class: invalid, message: no such thing}\n")
	w.agent(events.Agent{Name: "slow", Tools: []string{"bash"}}, `
turns:
  - {when: {turn: 1}, calls: [{name: bash, input: {command: "sleep 3600"}}]}
  - text: done
`)
	w.agent(gives("chief", "kid", "learns"), `
turns:
  - when: {turn: 1}
    calls:
      - {name: delegate, input: {agent: kid, task: "make a file"}}
      - {name: delegate, input: {agent: learns, task: "learn"}}
  - text: "{{result.1}} and {{result.2}}"
`)
	w.agent(gives("wrong", "never"), `
turns:
  - {when: {turn: 1}, calls: [{name: delegate, input: {agent: kid, task: "not yours"}}, {name: delegate, input: {agent: never, task: "fail"}}]}
  - text: "{{result.1}} // {{result.2}}"
`)
	w.agent(gives("nest", "nest"), `
turns:
  - {when: {turn: 1}, calls: [{name: delegate, input: {agent: nest, task: "one deeper"}}]}
  - text: "below: {{result.1}}"
`)
	w.agent(gives("waits", "slow"), `
turns:
  - {when: {turn: 1}, calls: [{name: delegate, input: {agent: slow, task: "sleep"}}]}
  - text: "never"
`)
	w.agent(gives("besides", "kid", "slow"), `
turns:
  - {when: {turn: 1}, calls: [{name: delegate, input: {agent: kid, task: "work", background: true}}]}
  - {when: {turn: 2}, calls: [{name: delegate_result, input: {id: "{{result.1}}"}}, {name: delegate_result, input: {}}]}
  - text: "{{result.2}} ## {{result.1}}"
`)
	w.agent(gives("leaves", "slow"), `
turns:
  - {when: {turn: 1}, calls: [{name: delegate, input: {agent: slow, task: "sleep", background: true}}]}
  - {when: {turn: 2}, calls: [{name: delegate_result, input: {id: "{{result.1}}", wait: false}}]}
  - text: "{{result.1}}"
`)
}

func TestDelegate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.delegates()
	w.start()
	t.Run("SUB-1 SUB-2 SUB-3 SUB-4 a call of delegate is carried out by a child run, whose answer is its result", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "ask", Agent: "chief", Task: "go"})
		s := w.ended("ask")
		if s.Status != events.Completed || !strings.Contains(s.Result.Output, "the kid worked") || !strings.Contains(s.Result.Output, "better") {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("ask"))
		}
		n := w.count("ask")
		if n["child.spawned"] != 3 || n["child.finished"] != 3 || n["call.delegated"] != 2 || n["call.finished"] != 2 || n["call.started"] != 0 {
			t.Errorf("%v", n)
		}
		for _, c := range s.Children {
			k := w.state(c.ID)
			if k.Created.ChildOf.Call != c.Call || k.Created.ChildOf.Root != "ask" || k.Created.Workspace != "run/"+c.ID ||
				k.Options.Autonomy > s.Options.Autonomy || c.Reserve.ToolCalls >= s.Options.MaxToolCalls {
				t.Errorf("%+v %+v", c, k.Created.ChildOf)
			}
		}
		if s.Result.Below == nil || s.Result.Below.ToolCalls != 1 || s.TotalToolCalls != 2 {
			t.Errorf("%+v, %d calls", s.Result.Below, s.TotalToolCalls)
		}
	})
	t.Run("SUB-4 PROP-17 an agent that may not be asked, and one that fails twice, are answers that the model reads", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "wrong", Agent: "wrong", Task: "go"})
		s := w.ended("wrong")
		if s.Status != events.Completed || len(s.Children) != 2 || !strings.Contains(s.Result.Output, "attempt 2 of 2") ||
			!strings.Contains(s.Result.Output, "may not give work to") {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("wrong"))
		}
	})
	t.Run("SUB-5 PROP-18 a call nests no deeper than the limit", func(t *testing.T) {
		w := w.on(t)
		most := 2
		w.task(events.Task{ID: "deep", Agent: "nest", Task: "go", MaxSubAgentDepth: &most})
		s, depth := w.ended("deep"), 0
		if !strings.Contains(s.Result.Output, events.FinishDepth) {
			t.Errorf("%+v", s.Result)
		}
		for len(s.Children) > 0 && s.Children[0].ID != "" {
			s = w.state(s.Children[0].ID)
			depth++
		}
		if depth != most {
			t.Errorf("children to depth %d", depth)
		}
	})
	t.Run("SUB-8 a stop and a pause reach the child of a call, and no toolrunner is held meanwhile", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "halt", Agent: "waits", Task: "go"})
		s := w.await("halt", "with a child", func(s run.State) bool { return len(s.Living()) == 1 })
		id := kids(s)[0]
		w.await(id, "at work", func(s run.State) bool { return s.CallsHeld > 0 })
		if c := s.Open["c1-1"]; c == nil || c.Phase != run.CallDelegated || c.Runner != "" {
			t.Errorf("%+v", c)
		}
		w.publish(events.ControlSubject("test", "halt"), `{"action":"pause"}`)
		w.await(id, "paused", func(s run.State) bool { return s.Status == events.Paused && s.PausedByParent })
		w.publish(events.ControlSubject("test", "halt"), `{"action":"resume"}`)
		w.await(id, "resumed", func(s run.State) bool { return s.Status == events.Running })
		w.publish(events.ControlSubject("test", "halt"), `{"action":"stop","by":"anna"}`)
		if s = w.ended("halt"); s.Result.FinishReason != events.FinishStopped || w.state(id).Result.FinishReason != events.FinishStopped {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("SUB-1 work in the background answers at once, is asked for, and waits for its end", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "beside", Agent: "besides", Task: "go"})
		s := w.ended("beside")
		if s.Status != events.Completed || !strings.Contains(s.Result.Output, "the kid worked") || !strings.Contains(s.Result.Output, "agent kid") {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("beside"))
		}
	})
	t.Run("SUB-8 what works in the background is stopped when the step of its parent ends", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "leave", Agent: "leaves", Task: "go"})
		s := w.ended("leave")
		if s.Status != events.Completed || !strings.Contains(s.Result.Output, "still working") || len(s.Children) != 1 ||
			w.state(kids(s)[0]).Result.FinishReason != events.FinishStopped {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("leave"))
		}
	})
	t.Run("SUB-7 an agent that gives work to one that is not there is refused before anything begins", func(t *testing.T) {
		w := w.on(t)
		w.agent(gives("lost", "nobody"), "turns:\n  - text: x\n")
		letters := w.letters()
		w.publish("station.test.task", `{"id":"lost","agent":"lost","task":"go"}`)
		if d := w.letter(letters); d.Code != "unknown_agent" || w.state("lost").Sequence > 0 {
			t.Errorf("%s %q", d.Code, d.Reason)
		}
	})
}

// TestDelegateTwoPlanners has two of each role: what both do is done once.
func TestDelegateTwoPlanners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.delegates()
	w.start()
	w.start()
	for i := range 4 {
		w.task(events.Task{ID: fmt.Sprint("two", i), Agent: "chief", Task: "go"})
	}
	for i := range 4 {
		id := fmt.Sprint("two", i)
		if s, n := w.ended(id), w.count(id); s.Status != events.Completed || n["child.spawned"] != 3 || n["child.finished"] != 3 {
			t.Errorf("SUB-8 %s: %s %v", id, s.Status, n)
		}
	}
}
