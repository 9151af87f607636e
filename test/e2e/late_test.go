package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// brief is a probe with a time limit of its own.
type brief struct{ *probe }

func (b brief) Spec() tool.Spec {
	s := b.probe.Spec()
	s.Timeout = 100 * time.Millisecond
	return s
}

func TestFinishedAtTheTimeLimit(t *testing.T) {
	t.Parallel()
	done := brief{&probe{name: "done", effect: tool.Once, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{Output: "it is done"}, nil
	}}}
	cut := brief{&probe{name: "cut", effect: tool.Once, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}}
	broken := brief{&probe{name: "broken", effect: tool.Once, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, tool.Fail(tool.Permanent, "", errors.New("the disk is full"))
	}}}
	w := newWorld(t, done, cut, broken)
	for _, name := range []string{"done", "cut", "broken"} {
		w.agent(events.Agent{Name: name, Tools: []string{name}}, calling(name, "{}"))
	}
	w.start()
	call := func(t *testing.T, name string) run.CallRecord {
		w := w.on(t)
		w.task(events.Task{ID: name, Agent: name, Task: "go"})
		return w.ended(name).ToolCallHistory.At(0)
	}
	t.Run("LOOP-14 TOOL-2 what a tool came to in its last moment is its result, and no time limit", func(t *testing.T) {
		if c := call(t, "done"); c.Outcome != run.OutcomeFinished || !c.Success || c.Result != "it is done" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("LOOP-14 a call that was ended at its time limit says so once", func(t *testing.T) {
		if c := call(t, "cut"); c.Code != "timeout" || strings.Count(c.Result, "was ended") != 1 || strings.Contains(c.Result, "deadline exceeded") {
			t.Errorf("%+v", c)
		}
	})
	t.Run("LOOP-14 a failure of its own keeps its reason", func(t *testing.T) {
		if c := call(t, "broken"); c.Code != "permanent" || !strings.Contains(c.Result, "the disk is full") {
			t.Errorf("%+v", c)
		}
	})
}
