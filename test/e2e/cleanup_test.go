package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const writesNote = `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: note.txt, content: hello}}
  - text: done
`

// isThere reports whether a workspace is on the machine.
func (w *world) isThere(path string) bool {
	w.t.Helper()
	_, err := os.Lstat(filepath.Join(w.dir, "work", filepath.FromSlash(path)))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

func TestCleanupOnThisMachine(t *testing.T) {
	t.Parallel()
	t.Run("WS-5 cleanup_on_complete takes the workspace of a run away at its end, also on one machine; those of sessions and workflows stay", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.CleanupOnComplete, c.CleanupAfter = true, time.Hour }
		w.agent(events.Agent{Name: "writer", Tools: []string{"write"}}, writesNote)
		w.start()
		w.task(events.Task{ID: "flow", Agent: "writer", Task: "go", WorkflowRun: "wf"})
		w.task(events.Task{ID: "talk", Agent: "writer", Task: "go", Session: "s"})
		w.ended("flow")
		w.ended("talk")
		w.task(events.Task{ID: "one", Agent: "writer", Task: "go"})
		w.ended("one")
		w.until("run/one goes", func() bool { return !w.isThere("run/one") && !w.isThere(".uses/run=one") })
		for _, path := range []string{"workflow/wf/note.txt", "session/s/note.txt"} {
			if !w.isThere(path) {
				t.Errorf("%s is not there", path)
			}
		}
	})
	t.Run("WS-5 a workspace that a run that goes on works in stays, whichever run it was made for", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.CleanupOnComplete = true }
		ask := []events.Rule{{ID: "careful", Tool: "bash", Action: "ask"}}
		w.agent(events.Agent{Name: "writer", Tools: []string{"write", "bash"}, Guards: ask}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: note.txt, content: hello}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "cat note.txt"}}
  - text: "{{result.1}}"
`)
		w.start()
		w.task(events.Task{ID: "one", Agent: "writer", Task: "go"})
		s := w.await("one", "waiting", waiting)
		w.task(events.Task{ID: "two", ForkOf: &events.ForkPoint{Run: "one", Sequence: w.eventOf("one", events.CallFinished), SameWorkspace: true}})
		w.await("two", "waiting", waiting)
		w.publish(events.ControlSubject("test", "one"), `{"action":"stop"}`)
		w.ended("one")
		g := w.opened("two")
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+g.ProposalHash+`"}`)
		if end := w.ended("two"); strings.TrimSpace(end.Result.Output) != "hello" || end.Created.Workspace != s.Created.Workspace {
			t.Errorf("%+v in %s", end.Result, end.Created.Workspace)
		}
		w.until("run/one goes", func() bool { return !w.isThere("run/one") })
	})
	t.Run("WS-5 cleanup_after takes what runs and workflows left away once that time is over, also by the next process", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.CleanupAfter = time.Hour }
		w.agent(events.Agent{Name: "writer", Tools: []string{"write"}}, writesNote)
		first := w.start()
		w.task(events.Task{ID: "one", Agent: "writer", Task: "go"})
		w.task(events.Task{ID: "flow", Agent: "writer", Task: "go", WorkflowRun: "wf"})
		w.ended("one")
		w.ended("flow")
		first.stop()
		if !w.isThere("run/one/note.txt") || !w.isThere("workflow/wf/note.txt") {
			t.Fatal("a workspace went before its time")
		}
		if err := os.Mkdir(filepath.Join(w.dir, "work", "run", "stranger"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.tune = func(c *service.Config) { c.CleanupAfter = time.Nanosecond }
		w.start()
		w.until("both go", func() bool { return !w.isThere("run/one") && !w.isThere("workflow/wf") })
		if !w.isThere("run/stranger") {
			t.Error("a directory that no run came into was removed")
		}
	})
}

func TestIsolationModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode string
		// What stands where runs work without a session: alone, and two of one workflow.
		alone, flow string
		sees        bool
	}{
		{"", "run/alone", "workflow/wf", true},
		{"per_workflow", "run/alone", "workflow/wf", true},
		{"per_run", "run/alone", "run/", false},
		{"shared", "shared", "shared", true},
	} {
		t.Run("WS-2 WS-3 what runs without a session share with isolation_mode "+c.mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tune = func(cfg *service.Config) { cfg.Isolation = c.mode }
			w.agent(events.Agent{Name: "writer", Tools: []string{"write"}}, writesNote)
			w.agent(events.Agent{Name: "looker", Tools: []string{"glob"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: glob, input: {pattern: "*"}}
  - text: "{{result.1}}"
`)
			w.start()
			end := func(task events.Task) run.State {
				task.Task = "go"
				w.task(task)
				return w.ended(task.ID)
			}
			if s := end(events.Task{ID: "alone", Agent: "writer"}); s.Created.Workspace != c.alone {
				t.Errorf("a run alone works in %s, want %s", s.Created.Workspace, c.alone)
			}
			first := end(events.Task{ID: "first", Agent: "writer", WorkflowRun: "wf"})
			second := end(events.Task{ID: "second", Agent: "looker", WorkflowRun: "wf"})
			want := map[bool]string{true: c.flow, false: c.flow + "first"}[c.sees]
			if first.Created.Workspace != want {
				t.Errorf("a run of a workflow works in %s, want %s", first.Created.Workspace, want)
			}
			if sees := second.Result.Output == "note.txt"; sees != c.sees {
				t.Errorf("the next run of the workflow sees %q", second.Result.Output)
			}
			if s := end(events.Task{ID: "talk", Agent: "looker", Session: "s", WorkflowRun: "wf"}); s.Created.Workspace != "session/s" || s.Result.Output == "note.txt" {
				t.Errorf("a run of a session works in %s and sees %q", s.Created.Workspace, s.Result.Output)
			}
		})
	}
}
