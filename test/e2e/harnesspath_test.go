package e2e

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/inspan/inspan/internal/formula"
	"github.com/inspan/inspan/pkg/events"
)

// workflow is the task of a workflow, as inspan formula run sends it.
func workflow(t *testing.T, id, text string) events.Task {
	t.Helper()
	m, err := formula.Load(fstest.MapFS{"f.workflow.yaml": &fstest.MapFile{Data: []byte(text)}}, "f")
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return events.Task{ID: id, Agent: c.Plan.Steps[0].Agent, Task: c.Task, Plan: c.Plan, Formula: &c.Formula}
}

const twoPaths = `id: f
states:
  - {name: notes, type: agent, agent: light, input: Write the notes.}
  - {name: build, type: agent, agent: heavy, input: "Build with {{states.notes.output}}"}
  - {name: again, type: harness_agent, agent: light, input: Write the notes again.}
  - {name: plain, type: agent, agent: silent, input: Say something., end: true}
`

func TestStatesByHarness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "light", Tools: []string{"read", "write"}, MaxToolCalls: 5, Harness: events.HarnessOff}, `
turns:
  - {when: {turn: 1, message: {contains: "Write the notes."}}, calls: [{name: write, input: {path: notes.txt, content: noted}}]}
  - text: the notes
`)
	w.agent(events.Agent{Name: "heavy", Tools: []string{"read"}, MaxToolCalls: 5, Harness: events.HarnessOn}, `
turns:
  - {when: {turn: 1}, calls: [{name: read, input: {path: notes.txt}}]}
  - text: built
`)
	w.agent(events.Agent{Name: "silent"}, "turns:\n  - text: something\n")
	w.start()
	t.Run("FORM-9 FORM-14 a state of type agent takes the path that its agent's harness says: on, through the run; off, directly, in the same workspace", func(t *testing.T) {
		w := w.on(t)
		w.task(workflow(t, "paths", twoPaths))
		s := w.ended("paths")
		if s.Status != events.Completed || s.Step("build").Output != "built" || s.Step("plain").Output != "something" {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("paths"))
		}
		if read := s.ToolCallHistory.At(0); !read.Success || !strings.Contains(read.Result, "noted") {
			t.Errorf("the next state reads %+v", read)
		}
		if len(s.Children) != 1 || s.Children[0].Step != "notes" || s.Step("notes").Output != "the notes" {
			t.Fatalf("children %+v", s.Children)
		}
		k := w.state(s.Children[0].ID)
		if !k.Direct() || k.Status != events.Completed || k.Created.Workspace != s.Created.Workspace || k.Created.WorkflowRun != s.Created.WorkflowRun {
			t.Errorf("direct %v, %s, %+v", k.Direct(), k.Status, k.Created)
		}
		if kinds := strings.Join(w.kinds(k.HarnessID), " "); strings.Contains(kinds, "plan.made") || strings.Contains(kinds, "checkpoint") || strings.Contains(kinds, "step.ready") {
			t.Errorf("the direct run says %s", kinds)
		}
	})
	t.Run("FORM-9 FORM-15 what the direct path does not have keeps a state in its run: checks, and a person before each step", func(t *testing.T) {
		w := w.on(t)
		task := workflow(t, "checked", "id: f\nstates:\n  - {name: notes, type: agent, agent: light, input: Write the notes., accept: \"test -f notes.txt\", end: true}\n")
		w.task(task)
		if s := w.ended("checked"); s.Status != events.Completed || len(s.Children) != 0 || w.count("checked")["check.passed"] != 1 {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("checked"))
		}
	})
	t.Run("SUB-1 a child whose agent has its harness off takes the direct path", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "given", Agent: "silent", Task: "go", Plan: childPlan(events.TaskStep{ID: "a", Description: "Write the notes.",
			Agent: "light", Child: events.ChildOwn})})
		s := w.ended("given")
		if s.Status != events.Completed || len(s.Children) != 1 || !func() bool { k := w.state(s.Children[0].ID); return k.Direct() }() {
			t.Errorf("%s %+v\n%s", s.Status, s.Result, w.story("given"))
		}
	})
}
