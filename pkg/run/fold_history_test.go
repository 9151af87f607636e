package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// looked is a run whose step "a" has taken n turns of one call each and is owed the next.
func looked(n int) *runtest.Builder {
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"), runtest.Ready("b"),
		runtest.Allowed("a"), runtest.Allowed("b"))
	for i := 1; i <= n; i++ {
		c := runtest.Asked(i, 1, "read", `{}`)
		ref := runtest.Ref("a", c.ID, "read")
		b.Append(runtest.Turn(i, "a", "on", c), runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "text"))
	}
	return b
}

func TestCompacted(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-9 a compaction leaves the debt to the event that made it, counts its tokens, and forgets the failures before", func(t *testing.T) {
		t.Parallel()
		b := looked(3)
		before := b.State()
		b.Append(runtest.TurnDeferred(4, "a", 1, before.UpdatedAt), runtest.Compacted(2, 2, "a", "short"))
		s := b.State()
		st := s.Step("a")
		if st.Owed != before.Step("a").Owed || st.Attempt != 0 || !st.NotBefore.IsZero() {
			t.Errorf("owed %d, attempt %d, not before %v; owed was %d", st.Owed, st.Attempt, st.NotBefore, before.Step("a").Owed)
		}
		if want := (run.Compacted{Through: 2, After: 3, Count: 1, Summary: "short"}); *st.Compacted != want {
			t.Errorf("got %+v, want %+v", *st.Compacted, want)
		}
		if got := s.Tokens.Total() - before.Tokens.Total(); got != 55 {
			t.Errorf("%d tokens were counted, want 55", got)
		}
		if s.Turns().Len() != 3 || s.ToolCallHistory.Len() != 3 {
			t.Errorf("the log's turns and calls became %d and %d", s.Turns().Len(), s.ToolCallHistory.Len())
		}
		b.Append(runtest.Compacted(3, 3, "a", "shorter"))
		s = b.State()
		if got := s.Step("a").Compacted; got.Count != 2 || got.Through != 3 {
			t.Errorf("the second compaction is %+v", got)
		}
	})
	t.Run("LOOP-17 a turn that did not fit is counted until it is taken", func(t *testing.T) {
		t.Parallel()
		b := looked(1)
		late := runtest.TurnDeferred(2, "a", 1, b.State().UpdatedAt)
		late.Class = events.ClassTooLong
		b.Append(late)
		s := b.State()
		if got := s.Step("a").TooLong; got != 1 {
			t.Errorf("counted %d times", got)
		}
		b.Append(runtest.Turn(2, "a", "done"))
		s = b.State()
		if got := s.Step("a").TooLong; got != 0 {
			t.Errorf("counted %d times after the turn", got)
		}
	})
	t.Run("LOOP-10 LOOP-17 the window that a model was found to have stays known, the smallest one counts, and older states keep theirs", func(t *testing.T) {
		t.Parallel()
		b := looked(1)
		before := b.State()
		model := before.Agents[before.AgentName].Model
		for _, c := range []struct{ says, want int }{{0, 0}, {4000, 4000}, {2000, 2000}, {3000, 2000}, {0, 2000}} {
			s := b.State()
			b.Append(runtest.TurnTooLong(2, "a", s.Step("a").Attempt+1, c.says, s.UpdatedAt))
			if got := b.State().Windows[model]; got != c.want {
				t.Errorf("after an event that says %d it is %d, want %d", c.says, got, c.want)
			}
		}
		b.Append(runtest.Turn(2, "a", "done"))
		if got := b.State().Windows[model]; got != 2000 || before.Windows != nil {
			t.Errorf("after the turn it is %d; before it was %v", got, before.Windows)
		}
	})
	for name, c := range map[string]struct {
		say  *events.HistoryCompactedData
		want string
	}{
		"a turn of another step": {runtest.Compacted(1, 1, "b", "x"), "none of step b"},
		"no turn":                {runtest.Compacted(0, 0, "a", "x"), "none of step a"},
		"a turn to come":         {runtest.Compacted(4, 4, "a", "x"), "none of step a"},
		"what is compacted":      {runtest.Compacted(2, 2, "a", "x"), "compacted already"},
	} {
		t.Run("SAFE-2 a compaction of "+name+" does not fold", func(t *testing.T) {
			t.Parallel()
			b := looked(3)
			b.Append(runtest.Compacted(2, 2, "a", "short"))
			if _, err := b.Try(c.say); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	t.Run("SAFE-2 a compaction while calls are open does not fold", func(t *testing.T) {
		t.Parallel()
		b := looked(1)
		b.Append(runtest.Turn(2, "a", "on", runtest.Asked(2, 1, "read", `{}`)))
		if _, err := b.Try(runtest.Compacted(1, 1, "a", "short")); err == nil || !strings.Contains(err.Error(), "owed no turn") {
			t.Errorf("%v", err)
		}
	})
}
