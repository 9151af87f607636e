package turn

import (
	"testing"

	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// forked is a fork of a run as it stands, with its step permitted again.
func forked(t *testing.T, old run.State, say string) *runtest.Builder {
	t.Helper()
	start, err := run.Fork(old, say, false)
	if err != nil {
		t.Fatal(err)
	}
	from, parts, err := run.ForkParts(old, start)
	if err != nil {
		t.Fatal(err)
	}
	b, c := runtest.New("main", "new"), runtest.Created()
	c.ForkOf = &from
	b.Append(c)
	for _, p := range parts {
		b.Append(p)
	}
	b.Append(runtest.Started(), runtest.Ready("a"), runtest.Allowed("a"))
	return b
}

func TestForked(t *testing.T) {
	t.Parallel()
	fault := Answer{Data: events.TurnFinishedData{Text: "no document", FinishReason: events.FinishDone, OutputFault: "does not fit the schema"}}
	t.Run("PLUS-1 DLV-9 a fork from before the fixed answer owes its turn to the permission of its step alone", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		b.Append(Finish(b.State(), owed(t, b), fault)...)
		if !Mending(b.State(), "a") {
			t.Fatal("the answer is to be fixed")
		}
		f := forked(t, b.State(), "")
		if Mending(f.State(), "a") {
			t.Error("any delivery would ask the model")
		}
		if say := Finish(f.State(), owed(t, f), fault); len(say) != 2 {
			t.Errorf("the model is told of its answer a second time: %v", say)
		}
	})
	t.Run("PLUS-1 DLV-9 a step that is taken up after its answer did not fit twice may fix the next one", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		b.Append(Finish(b.State(), owed(t, b), fault)...)
		b.Append(Finish(b.State(), owed(t, b), fault)...)
		if s := b.State(); s.Step("a").Status != events.StepIsFailed {
			t.Fatal("the step has not failed")
		}
		f := forked(t, b.State(), "Answer with {}.")
		if Mending(f.State(), "a") {
			t.Error("any delivery would ask the model")
		}
		if say := Finish(f.State(), owed(t, f), fault); len(say) != 1 {
			t.Errorf("the answer is not fixed: %v", say)
		}
	})
	t.Run("PLUS-1 LOOP-5 a fork at the gate before a circle's call does not end for the calls that it came from", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		same := func(b *runtest.Builder) {
			b.Append(Finish(b.State(), owed(t, b), Answer{Data: calls(1, "read", `{"path":"x"}`)})...)
		}
		for range 3 {
			same(b)
			finishCalls(b)
		}
		same(b)
		if c := loop.RoundsOf(b.State()).Asking("a", "read"); c.Grade != loop.Gate {
			t.Fatalf("%+v", c)
		}
		f := forked(t, b.State(), "")
		same(f)
		if c := loop.RoundsOf(f.State()).Asking("a", "read"); c.Grade >= loop.Gate {
			t.Errorf("the call that was to be asked for again is %+v", c)
		}
	})
}
