package turn

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestCompact(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-9 a summary is said once, summaries only move forward, and the turn stays owed to the same event", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		for range 3 {
			b.Append(Finish(b.State(), owed(t, b), Answer{Data: calls(1, "read", `{}`)})...)
			finishCalls(b)
		}
		task := owed(t, b)
		to := func(through int) events.HistoryCompactedData {
			return *runtest.Compacted(through, through, "a", "short")
		}
		say := Compact(b.State(), task, to(2))
		if len(say) != 1 {
			t.Fatalf("%v", say)
		}
		b.Append(say...)
		for _, through := range []int{2, 1} {
			if again := Compact(b.State(), task, to(through)); len(again) != 0 {
				t.Errorf("through %d: a second answer: %v", through, again)
			}
		}
		if now := owed(t, b); now.Owed != task.Owed || now.Number != task.Number {
			t.Errorf("the turn was %+v and is %+v", task, now)
		}
		if further := Compact(b.State(), task, to(3)); len(further) != 1 {
			t.Errorf("%v", further)
		}
	})
}
