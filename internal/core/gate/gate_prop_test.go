package gate

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestPROP9(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3c PROP-9 TOOL-8 Feature: agent-harnesses, Property 9: exactly N calls are allowed, later ones get a budget error", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			budget := rapid.IntRange(0, 12).Draw(t, "budget")
			b := asking(budget, runtest.Asked(1, 1, "read", `{"path":"0"}`))
			allowed, refused, asked, turn := 0, 0, 1, 1
			for range rapid.IntRange(1, 6).Draw(t, "turns") {
				say, err := Look(b.State(), noon, law())
				if err != nil {
					t.Fatal(err)
				}
				// Each prefix of the answer leaves the budget kept; the rest is said by the next look.
				cut := rapid.IntRange(0, len(say)).Draw(t, "cut")
				b.Append(say[:cut]...)
				rest, _ := Look(b.State(), noon, law())
				b.Append(rest...)
				if s := b.State(); s.TotalToolCalls+s.CallsHeld > budget {
					t.Fatalf("%d done and %d held, the budget is %d", s.TotalToolCalls, s.CallsHeld, budget)
				}
				for id, c := range b.State().Open {
					b.Append(runtest.CallDone(runtest.Ref("a", id, c.Tool), 0, "ok"))
				}
				turn++
				var calls []events.RequestedCall
				for i := range rapid.IntRange(1, 5).Draw(t, "calls") {
					calls = append(calls, runtest.Asked(turn, i+1, "read", fmt.Sprintf(`{"path":"%d-%d"}`, turn, i)))
				}
				b.Append(runtest.Turn(turn, "a", "calls", calls...))
				asked += len(calls)
			}
			rest, _ := Look(b.State(), noon, law())
			b.Append(rest...)
			for id, c := range b.State().Open {
				b.Append(runtest.CallDone(runtest.Ref("a", id, c.Tool), 0, "ok"))
			}
			s := b.State()
			for _, r := range run.All(s.ToolCallHistory) {
				switch {
				case r.Outcome == run.OutcomeFinished:
					allowed++
				case r.Code == events.RefusedBudget:
					refused++
				}
			}
			if want := min(budget, asked); allowed != want || refused != asked-want || s.BudgetLeft() != budget-want {
				t.Fatalf("%d allowed and %d refused of %d asked, budget %d, left %d", allowed, refused, asked, budget, s.BudgetLeft())
			}
		})
	})
}

func TestPROP10(t *testing.T) {
	t.Parallel()
	t.Run("PROP-10 GATE-1 GATE-2 GATE-3 GATE-11 Feature: agent-harnesses, Property 10: gates follow the autonomy level", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			level := rapid.IntRange(1, 5).Draw(t, "autonomy")
			var steps []events.PlanStep
			want := 0
			for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
				st := runtest.Step(fmt.Sprintf("s%d", i))
				st.Critical = rapid.Bool().Draw(t, "critical")
				if level <= 2 || level == 3 && st.Critical {
					want++
				}
				steps = append(steps, st)
			}
			b := runtest.New("main", "r1")
			c := runtest.Created()
			c.Options.Autonomy = level
			b.Append(c, runtest.Started(), runtest.Plan(steps...))
			for _, st := range steps {
				b.Append(runtest.Ready(st.ID))
			}
			say, err := Look(b.State(), noon, law())
			if err != nil {
				t.Fatal(err)
			}
			gates := 0
			for _, p := range say {
				if p.Kind() == events.GateOpened {
					gates++
				}
			}
			if gates != want || len(say) != len(steps) {
				t.Fatalf("level %d: %d gates of %d answers, want %d of %d", level, gates, len(say), want, len(steps))
			}
			b.Append(say...)
			if again, _ := Look(b.State(), noon, law()); len(again) != 0 {
				t.Fatalf("said again: %v", again)
			}
		})
	})
}
