package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestMCPLives(t *testing.T) {
	t.Parallel()
	w := mcpWorld(t)
	before := w.tune
	w.tune = func(c *service.Config) {
		before(c)
		c.MCPKeep, c.MCPMost, c.MCPIdleBytes = time.Hour, 16, 1<<20
	}
	script := func(tools ...string) string {
		text := "turns:\n"
		for i, name := range tools {
			text += "  - when: {turn: " + string(rune('1'+i)) + "}\n    calls:\n      - {name: mcp__files__" + name + ", input: {}}\n"
		}
		return text + "  - when: {turn: " + string(rune('1'+len(tools))) + "}\n    text: done\n"
	}
	w.pinned("counter", front(t, mcptest.Good, `"mcp:files/*"`, ""), script("count", "write", "count"))
	w.pinned("dying", front(t, mcptest.Good, `"mcp:files/*"`, "    effects: {die: read}\n")+"harness: {retry: {max_retries: 0}}\n", script("count", "die", "count", "count"))
	w.start()
	results := func(s run.State, name string) (all []string) {
		for _, r := range run.All(s.ToolCallHistory) {
			if r.CallName == "mcp__files__"+name {
				all = append(all, r.Result)
			}
		}
		return all
	}
	want := func(t *testing.T, s run.State, want ...string) {
		t.Helper()
		if got := results(s, "count"); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("run %s counted %q, want %q; it %s: %+v", s.HarnessID, got, want, s.Status, s.Result)
		}
	}
	t.Run("ECO-3 a server keeps its memory between the calls of a run, and no other run shares it", func(t *testing.T) {
		w := w.on(t)
		for _, id := range []string{"one", "two"} {
			w.task(events.Task{ID: id, Agent: "counter", Task: "go"})
			s := w.ended(id)
			want(t, s, "call 1", "call 2")
			if w.inWorkspace(s, "mark") != "x\n" {
				t.Error("it does not work in the workspace")
			}
		}
	})
	t.Run("ECO-3 a server keeps its memory between the runs of a session", func(t *testing.T) {
		w := w.on(t)
		for i, counted := range [][]string{{"call 1", "call 2"}, {"call 3", "call 4"}} {
			id := "s" + string(rune('1'+i))
			w.task(events.Task{ID: id, Agent: "counter", Task: "go", Session: "shared"})
			want(t, w.ended(id), counted...)
		}
	})
	t.Run("ECO-3 a server that died is started again, and the next result says what that means", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "dead", Agent: "dying", Task: "go"})
		want(t, w.ended("dead"), "call 1", "[server files was started again: what it kept in memory is lost]\ncall 1", "call 2")
	})
}
