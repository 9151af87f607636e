package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// kids are the children of a run, as it knows them.
func kids(s run.State) (ids []string) {
	for _, c := range s.Children {
		ids = append(ids, c.ID)
	}
	return ids
}

func childStep(id, agent string, needs ...string) events.TaskStep {
	return events.TaskStep{ID: id, Description: "do " + id, Agent: agent, Needs: needs, Child: events.ChildOwn}
}

func childPlan(steps ...events.TaskStep) *events.TaskPlan { return &events.TaskPlan{Steps: steps} }

func TestChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "lead"}, "turns:\n  - text: \"lead of {{step}}\"\n")
	w.agent(events.Agent{Name: "kid", Tools: []string{"bash"}}, `
turns:
  - {when: {turn: 1}, calls: [{name: bash, input: {command: "pwd > where.txt; ls | wc -l"}}], usage: {input: 300, output: 50}}
  - {text: "the kid worked", usage: {input: 400, output: 20}}
`)
	w.agent(events.Agent{Name: "reader"}, `
turns:
  - {when: {message: {contains: "the kid worked"}}, text: "read it"}
  - text: saw nothing
`)
	w.agent(events.Agent{Name: "learns"}, `
turns:
  - {when: {message: {contains: "An earlier attempt at this failed"}}, text: better}
  - error: {class: invalid, message: no such thing}
`)
	w.agent(events.Agent{Name: "never"}, "turns:\n  - error: {class: invalid, message: no such thing}\n")
	w.agent(events.Agent{Name: "nests", Plan: "model"}, `
turns:
  - when: {purpose: plan}
    text: '{"steps":[{"id":"down","description":"one deeper","agent":"nests","child":"own"}]}'
  - text: never
`)
	w.agent(events.Agent{Name: "slow", Tools: []string{"bash"}}, `
turns:
  - {when: {turn: 1}, calls: [{name: bash, input: {command: "sleep 3600"}}]}
  - text: done
`)
	w.start()
	t.Run("SUB-1 SUB-2 SUB-3 SUB-6 PROP-15 PROP-16 steps of other agents are runs of their own, and their outputs those of the steps", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "two", Agent: "lead", Task: "go", Plan: childPlan(childStep("a", "kid"), childStep("b", "reader", "a"),
			events.TaskStep{ID: "c", Description: "do c", Needs: []string{"b"}})})
		s := w.ended("two")
		if s.Status != events.Completed || len(s.Children) != 2 || s.Step("a").Output != "the kid worked" || s.Step("b").Output != "read it" {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("two"))
		}
		n := w.count("two")
		if n["child.spawned"] != 2 || n["child.finished"] != 2 || n["turn.finished"] != 1 {
			t.Errorf("%v", n)
		}
		for i, c := range s.Children {
			k := w.state(c.ID)
			if k.Status != events.Completed || k.Created.Parent != "two" || k.Created.ChildOf == nil || k.Created.ChildOf.Root != "two" || k.Created.ChildOf.Depth != 1 ||
				s.SubAgentResults[c.ID] != k.Result.Output || s.SubAgentIDs[i] != c.ID || k.Created.Workspace != "run/"+c.ID {
				t.Errorf("child %d: %s %+v", i, k.Status, k.Created)
			}
			if c.Use.ToolCalls != k.TotalToolCalls || c.Use.InputTokens != k.Tokens.Input {
				t.Errorf("child %d used %+v", i, c.Use)
			}
		}
		if s.Result.Below == nil || s.Result.Below.Runs != 2 || s.Result.Below.InputTokens < 700 {
			t.Errorf("below: %+v", s.Result.Below)
		}
		i := w.row(kids(s)[0], func(i run.Info) bool { return i.Status == events.Completed })
		if i.ParentHarnessID != "two" {
			t.Errorf("%+v", i)
		}
	})
	t.Run("SUB-4 PROP-17 a failed child is tried once more, with the error to read", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "again", Agent: "lead", Task: "go", Plan: childPlan(childStep("a", "learns"))})
		s := w.ended("again")
		if s.Status != events.Completed || len(s.Children) != 2 || s.Step("a").Output != "better" ||
			!strings.Contains(w.state(kids(s)[1]).Created.Task, "no such thing") {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("again"))
		}
		w.task(events.Task{ID: "twice", Agent: "lead", Task: "go", Plan: childPlan(childStep("a", "never"), events.TaskStep{ID: "b", Description: "do b", Needs: []string{"a"}})})
		s = w.ended("twice")
		if s.Status != events.Failed || len(s.Children) != 2 || s.Step("b").Status != events.StepIsBlocked || w.count("twice")["child.spawned"] != 2 ||
			!strings.Contains(s.Result.Error, "attempt 2 of 2") {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("twice"))
		}
	})
	t.Run("SUB-5 PROP-18 no child is nested deeper than the limit, and the reason says so", func(t *testing.T) {
		w := w.on(t)
		for _, most := range []int{0, 2} {
			id := fmt.Sprint("deep", most)
			w.task(events.Task{ID: id, Agent: "lead", Task: "go", MaxSubAgentDepth: &most, Plan: childPlan(childStep("a", "nests"))})
			s, depth := w.ended(id), 0
			if s.Status != events.Failed || !strings.Contains(s.Result.Error, "max_sub_agent_depth") {
				t.Errorf("limit %d: %s %+v", most, s.Status, s.Result)
			}
			for len(s.Children) > 0 && s.Children[0].ID != "" {
				s = w.state(s.Children[0].ID)
				if depth++; s.Created.ChildOf.Depth != depth || s.Created.ChildOf.Root != id {
					t.Errorf("limit %d: %+v", most, s.Created.ChildOf)
				}
			}
			if depth != most {
				t.Errorf("limit %d: children to depth %d", most, depth)
			}
		}
	})
	t.Run("SUB-8 stopping the parent stops its children first, and nothing is written after an end", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "halt", Agent: "lead", Task: "go", Plan: childPlan(childStep("a", "slow"), childStep("b", "slow"))})
		s := w.await("halt", "with two children", func(s run.State) bool { return len(s.Living()) == 2 })
		for _, id := range kids(s) {
			w.await(id, "at work", func(s run.State) bool { return s.CallsHeld > 0 })
		}
		w.publish(events.ControlSubject("test", "halt"), `{"action":"stop","by":"anna","reason":"enough"}`)
		s = w.ended("halt")
		n := w.count("halt")
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || n["run.stopping"] != 1 || n["child.finished"] != 2 || s.Result.By != "anna" {
			t.Errorf("%s %+v %v", s.Status, s.Result, n)
		}
		for _, id := range kids(s) {
			if k := w.state(id); k.Status != events.Failed || k.Result.FinishReason != events.FinishStopped || k.Result.By != "run halt" {
				t.Errorf("%s: %s %+v", id, k.Status, k.Result)
			}
		}
	})
	t.Run("SUB-8 a pause reaches the children, and so does the end of it", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "rest", Agent: "lead", Task: "go", Plan: childPlan(childStep("a", "slow"), childStep("b", "slow"))})
		s := w.await("rest", "with two children", func(s run.State) bool { return len(s.Living()) == 2 })
		own, other := kids(s)[0], kids(s)[1]
		w.await(own, "at work", func(s run.State) bool { return s.CallsHeld > 0 })
		w.await(other, "at work", func(s run.State) bool { return s.CallsHeld > 0 })
		w.publish(events.ControlSubject("test", other), `{"action":"pause"}`)
		w.await(other, "paused by a person", func(s run.State) bool { return s.Status == events.Paused })
		w.publish(events.ControlSubject("test", "rest"), `{"action":"pause"}`)
		if k := w.await(own, "paused", func(s run.State) bool { return s.Status == events.Paused }); !k.PausedByParent || !k.Clock.Paused {
			t.Errorf("%+v", k.Clock)
		}
		w.publish(events.ControlSubject("test", "rest"), `{"action":"resume"}`)
		w.await(own, "resumed", func(s run.State) bool { return s.Status == events.Running })
		if k := w.state(other); k.Status != events.Paused {
			t.Errorf("a child that a person paused is %s", k.Status)
		}
		w.publish(events.ControlSubject("test", own), `{"action":"stop","by":"mia"}`)
		w.publish(events.ControlSubject("test", other), `{"action":"stop","by":"mia"}`)
		s = w.ended("rest")
		if s.Status != events.Failed || len(s.Children) != 2 {
			t.Errorf("children that a person stopped are not tried again: %v", kids(s))
		}
	})
	t.Run("PLUS-3 a child spends what its parent holds for it, and never more", func(t *testing.T) {
		w := w.on(t)
		most, calls := int64(30_000), 1
		w.task(events.Task{ID: "poor", Agent: "lead", Task: "go", MaxTokens: &most, MaxToolCalls: &calls, Plan: childPlan(childStep("a", "kid"), childStep("b", "kid", "a"))})
		s := w.ended("poor")
		if s.Status != events.Failed || s.Children[0].Reserve.ToolCalls != 1 || s.Children[0].Reserve.Tokens != most/2 || !strings.Contains(s.Result.Error, "max_tool_calls") {
			t.Errorf("%s %+v %+v", s.Status, s.Result, s.Children[0])
		}
		if used := s.Used(); used.ToolCalls > calls || used.Tokens() > most {
			t.Errorf("%+v", used)
		}
	})
	t.Run("SUB-1 an outsider cannot take the id of a child", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		for _, body := range []string{`{"id":"child_x","agent":"lead","task":"go"}`,
			`{"specversion":"1.0","id":"child_y","source":"/me","type":"dev.inspan.task.v1","datacontenttype":"application/json","data":{"agent":"lead","task":"go"}}`} {
			w.publish("station.test.task", body)
			if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, events.ChildPrefix) {
				t.Errorf("%s: %s %q", body, d.Code, d.Reason)
			}
		}
		w.publish("station.test.task", `{"id":"claims","agent":"lead","task":"go","child_of":{"run_id":"two"}}`)
		if d := w.letter(letters); d.Code != "bad_input" || w.state("claims").Sequence > 0 {
			t.Errorf("a lineage: %s %q", d.Code, d.Reason)
		}
	})
	t.Run("SUB-7 what a child run cannot have is refused before anything begins", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		for more, want := range map[string]string{
			`"plan":{"steps":[{"id":"a","description":"b","agent":"kid","child":"worktree"}]}`:                                                     "own",
			`"accept":{"checks":[{"kind":"git","require":["clean"]}]},"plan":{"steps":[{"id":"a","description":"b","agent":"kid","child":"own"}]}`: "git",
		} {
			w.publish("station.test.task", `{"id":"bad","agent":"lead","task":"go",`+more+`}`)
			if d := w.letter(letters); !strings.Contains(d.Reason, want) || w.state("bad").Sequence > 0 {
				t.Errorf("%s: %s %q", more, d.Code, d.Reason)
			}
		}
	})
	t.Run("SUB-7a a child that shares the workspace finds the files of its parent", func(t *testing.T) {
		w := w.on(t)
		shared := childStep("b", "kid", "a")
		shared.Child = events.ChildShared
		w.agent(events.Agent{Name: "writes", Tools: []string{"bash"}}, claims("echo yes > one.txt; echo yes > two.txt"))
		w.task(events.Task{ID: "share", Agent: "writes", Task: "go", Plan: childPlan(events.TaskStep{ID: "a", Description: "do a"}, shared)})
		s := w.ended("share")
		if s.Status != events.Completed {
			t.Fatalf("%s %+v", s.Status, s.Result)
		}
		k := w.state(kids(s)[0])
		if out := k.ToolCallHistory.At(0).Result; k.Created.Workspace != s.Created.Workspace || strings.TrimSpace(strings.Split(out, "\n")[0]) != "3" {
			t.Errorf("in %s: %q", k.Created.Workspace, out)
		}
	})
}
