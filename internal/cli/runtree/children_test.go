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
}
