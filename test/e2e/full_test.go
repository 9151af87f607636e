package e2e

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// fullFor is a log that takes no call.finished for a while.
type fullFor struct {
	kernel.Journal
	left atomic.Int64
}

func (f *fullFor) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if e.Kind == events.CallFinished && f.left.Add(-1) >= 0 {
		return kernel.Ack{Outcome: kernel.Full}
	}
	return f.Journal.Append(ctx, e)
}

func TestResultWhileTheLogIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := &fullFor{Journal: w.ports.Journal}
	full.left.Store(3)
	w.ports.Journal = full
	w.agent(events.Agent{Name: "worker", Tools: []string{"bash"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "echo done >> effects.txt"}}
  - when: {turn: 2}
    text: "{{result.1}}"
`)
	w.start()
	t.Run("SAFE-14 SAFE-7 what a call came to is kept until the log has room, and is not called unknown", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "full", Agent: "worker", Task: "work"})
		s := w.ended("full")
		for _, c := range run.All(s.ToolCallHistory) {
			if c.Code != "" || !c.Success {
				t.Errorf("the call is recorded as %s %q: %s", c.Outcome, c.Code, c.Result)
			}
		}
		if left := full.left.Load(); left >= 0 {
			t.Errorf("the log refused %d times less than it should", left)
		}
	})
}
