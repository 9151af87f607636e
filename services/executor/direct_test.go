package executor

import (
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestDirect(t *testing.T) {
	t.Parallel()
	done := func(int, llm.Sink) (llm.Answer, error) { return llm.Answer{Text: "done", Finish: llm.Done}, nil }
	born := func(role *Role, h runlog.ReceivedEvent) error {
		h.Run, h.Kind, h.Sequence, h.Deliveries = "r1", events.RunCreated, 1, 1
		return role.Event(t.Context(), h)
	}
	t.Run("LIFE-14 the first event of a direct run owes its first turn, which is taken once", func(t *testing.T) {
		t.Parallel()
		m := &talker{do: done}
		role, l, s := stored(t, m, runtest.DirectCreated())
		for range 2 {
			if err := born(role, runlog.ReceivedEvent{State: s}); err != nil {
				t.Fatal(err)
			}
			var err error
			if s, _, err = l.State(t.Context(), "r1"); err != nil {
				t.Fatal(err)
			}
		}
		if m.asked != 1 || s.Step("step-1").Status != events.StepIsCompleted || s.Turns().Len() != 1 {
			t.Errorf("asked %d times: %+v", m.asked, s.Step("step-1"))
		}
	})
	t.Run("LIFE-14 a run that was paused before its first turn takes it once it is resumed", func(t *testing.T) {
		t.Parallel()
		m := &talker{do: done}
		role, l, s := stored(t, m, runtest.DirectCreated(), runtest.Paused("wait"))
		if err := born(role, runlog.ReceivedEvent{State: s}); err != nil || m.asked != 0 {
			t.Fatalf("%v, asked %d times", err, m.asked)
		}
		role, l, s = stored(t, m, runtest.DirectCreated(), runtest.Paused("wait"), runtest.Resumed())
		if err := role.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.RunResumed, Sequence: s.Sequence, State: s, Deliveries: 1}); err != nil {
			t.Fatal(err)
		}
		if s, _, err := l.State(t.Context(), "r1"); err != nil || m.asked != 1 || s.Turns().Len() != 1 {
			t.Errorf("%v, asked %d times", err, m.asked)
		}
	})
	t.Run("PERF-3 the first event of a wrapped run owes nothing", func(t *testing.T) {
		t.Parallel()
		m := &talker{do: done}
		role, l, s := stored(t, m, runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("step-1")), runtest.Ready("step-1"), runtest.Allowed("step-1"))
		if err := born(role, runlog.ReceivedEvent{State: s}); err != nil {
			t.Fatal(err)
		}
		if after, _, err := l.State(t.Context(), "r1"); err != nil || m.asked != 0 || after.Sequence != s.Sequence {
			t.Errorf("%v, asked %d times, %d events", err, m.asked, after.Sequence)
		}
	})
}
