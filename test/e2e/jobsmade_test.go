package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// hasMade reports whether a run has an artifact of a path.
func hasMade(s run.State, path string) bool {
	_, ok := artifact.Find(s, path)
	return ok
}

// there waits until a file of a workspace has something in it.
func (w *world) there(workspace, name string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx := w.ctx()
	file := filepath.Join(w.dir, "work", filepath.FromSlash(workspace), name)
	for {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Errorf("%s does not come to be", file)
			return
		}
	}
}

// TestBackgroundMade has commands in the background that write when no shell is called any more.
func TestBackgroundMade(t *testing.T) {
	t.Parallel()
	tools := []string{"bash", "bash_output", "kill_shell", "write", "read"}
	const late = "until [ -e go.txt ]; do sleep 0.02; done; echo late > late.md; "
	touch := ask{"write", map[string]any{"path": "go.txt", "content": "go"}}

	t.Run("ART-3 what a command in the background writes is an artifact with the next call that writes, while it runs on", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		turns := inTurns(t, one(beyond(late+forever()), touch, ask{"write", map[string]any{"path": "last.md", "content": "x"}})...).planned
		w.ports.Models = &received{planned: func(req llm.Request) llm.Answer {
			if req.Meta.Turn == 3 {
				w.there("run/made", "late.md")
			}
			return turns(req)
		}}
		a := backgrounder()
		a.Tools = tools
		w.agent(a, "")
		w.start()
		w.task(events.Task{ID: "made", Agent: "runner", Task: "go"})
		if s := w.ended("made"); !hasMade(s, "late.md") || !hasMade(s, "last.md") {
			t.Errorf("%s: %s\n%s", s.Status, made(s), w.story("made"))
		}
	})
	t.Run("ART-3 what one wrote that has ended is an artifact with the next call of the step, also one that only reads, and is looked for once", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		// It begins to write when no call that writes is left, whose own look would find what it wrote while it runs.
		first := inTurns(t, one(beyond(strings.ReplaceAll(late, "go.txt", "begin.txt")), touch)...).planned
		extra := 0
		w.ports.Models = &received{planned: func(req llm.Request) llm.Answer {
			n := req.Meta.Turn
			if n <= 2 {
				return first(req)
			}
			if n == 3 {
				w.file("run/made", "begin.txt", "go\n")
			}
			w.there("run/made", "late.md")
			if n > 60 || hasMade(w.state("made"), "late.md") {
				if extra++; extra > 1 {
					return llm.Answer{Text: "done"}
				}
				w.file("run/made", "foreign.md", "no one of the run wrote this\n")
			}
			return llm.Answer{Calls: []llm.Call{{ID: fmt.Sprint("t", n), Name: "read", Input: fmt.Appendf(nil, `{"path":"go.txt","limit":%d}`, n)}}}
		}}
		a := backgrounder()
		a.Tools = tools
		w.agent(a, "")
		w.start()
		w.task(events.Task{ID: "made", Agent: "runner", Task: "go"})
		s := w.ended("made")
		if !hasMade(s, "late.md") {
			t.Errorf("%s: %s\n%s", s.Status, made(s), w.story("made"))
		}
		if hasMade(s, "foreign.md") {
			t.Error("the workspace is listed for reads when nothing runs in it any more")
		}
	})
	t.Run("ART-3 what was written up to the end of a step is an artifact with the first call of the next that writes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		plan := func(req llm.Request) llm.Answer {
			a := inTurns(t, one(beyond(late+forever()), touch)...)
			if req.Meta.Step == "two" {
				a = inTurns(t, one(ask{"write", map[string]any{"path": "last.txt", "content": "x"}})...)
			} else if req.Meta.Turn == 3 {
				w.there("run/made", "late.md")
			}
			return a.planned(req)
		}
		w.ports.Models = &received{planned: plan}
		a := backgrounder()
		a.Tools = tools
		w.agent(a, "")
		w.start()
		five := 5
		w.task(events.Task{ID: "made", Agent: "runner", Task: "go", Autonomy: &five, Plan: &events.TaskPlan{Steps: []events.TaskStep{
			{ID: "one", Description: "one"}, {ID: "two", Description: "two", Needs: []string{"one"}}}}})
		if s := w.ended("made"); s.Status != events.Completed || !hasMade(s, "late.md") {
			t.Errorf("%s: %s\n%s", s.Status, made(s), w.story("made"))
		}
	})
}
