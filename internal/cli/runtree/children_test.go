package runtree

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

func TestChildLine(t *testing.T) {
	t.Parallel()
	t.Run("SUB-2 the line of a step's child names the run, its attempt and how long it took", func(t *testing.T) {
		t.Parallel()
		at := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
		st := &view.StepNode{ID: "a", Child: view.ChildNode{ID: "child_x", Agent: "kid", Workspace: "own", Attempt: 2,
			Outcome: events.ChildIsCompleted, Began: at, Ended: at.Add(3 * time.Second), Use: events.Use{ToolCalls: 4}}}
		lines := Drawing{Width: 100}.child(st, at.Add(time.Hour))
		if len(lines) != 1 {
			t.Fatal(lines)
		}
		for _, want := range []string{"child_x", "kid", "attempt 2", "4 tool calls", "3"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("no %q in %q", want, lines[0])
			}
		}
		if none := (Drawing{Width: 100}).child(&view.StepNode{ID: "a"}, at); len(none) != 0 {
			t.Errorf("a step without a child: %q", none)
		}
	})
	t.Run("PLUS-3 SUB-2 the end of a run's tree says what the children that ended used, besides its own", func(t *testing.T) {
		t.Parallel()
		tree := &view.Tree{Status: events.Running, Turns: 3, Cost: 4500,
			Below: events.Use{Runs: 2, Turns: 5, ToolCalls: 1, InputTokens: 700, Cost: 7000}}
		lines := strings.Join(Drawing{Width: 100}.foot(tree, time.Time{}), "\n")
		if !strings.Contains(lines, "$0.0045") || !strings.Contains(lines, "and 2 child runs that ended: 5 turns, 1 call, 700 tokens, $0.007") {
			t.Errorf("%s", lines)
		}
	})
}
