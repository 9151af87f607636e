package child_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// rich is a budget that no tree of these tests comes near.
func rich(o *events.Options) { o.MaxToolCalls = 10_000 }

// ended is a run that ended, with an output or an error.
func ended(good bool, text string) run.State {
	r := &events.Result{Success: good, FinishReason: events.FinishDone, Output: text}
	if !good {
		r = &events.Result{FinishReason: events.FinishError, Error: text}
	}
	return run.State{Result: r}
}

// living are the children of a run that have not ended.
func living(b *runtest.Builder) []*run.Child {
	s := b.State()
	return s.Living()
}

// drawSteps draws the ids of some steps.
func drawSteps(t *rapid.T) []string {
	return []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "steps")]
}

func TestTracked(t *testing.T) {
	t.Parallel()
	t.Run("PROP-15 SUB-1 SUB-2 Feature: agent-harnesses, Property 15: a step of another agent always gives a child that the parent tracks with the right status", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			ids := drawSteps(t)
			var plan []events.PlanStep
			others := map[string]bool{} // the steps of other agents
			for _, id := range ids {
				if others[id] = rapid.Bool().Draw(t, "other agent"); others[id] {
					plan = append(plan, runtest.ChildStep(id))
				} else {
					plan = append(plan, runtest.Step(id))
				}
			}
			created := runtest.Created()
			rich(&created.Options)
			b := runtest.New("main", "p")
			b.Append(created, runtest.Started(), runtest.Plan(plan...))
			want := map[string]string{} // the status of each child, by its id
			tracked := func() {
				spawnAll(t, b)
				s := b.State()
				for _, id := range ids {
					c := s.ChildOf(id)
					if begun := s.Step(id).Status == events.StepIsRunning; (c != nil) != (begun && others[id]) {
						t.Fatalf("step %s of another agent: %v, begun: %v, child %+v", id, others[id], begun, c)
					}
					if c != nil && want[c.ID] == "" {
						want[c.ID] = events.ChildIsSpawned
					}
				}
				if len(s.Children) != len(want) {
					t.Fatalf("%d children are tracked, want %d", len(s.Children), len(want))
				}
				for _, c := range s.Children {
					if c.Outcome != want[c.ID] || !others[c.Step] {
						t.Fatalf("child %s of step %s is %s, want %s", c.ID, c.Step, c.Outcome, want[c.ID])
					}
				}
			}
			waiting := ids
			for range 20 {
				alive := living(b)
				switch end := rapid.Bool().Draw(t, "end one"); {
				case end && len(alive) > 0:
					c := alive[rapid.IntRange(0, len(alive)-1).Draw(t, "which")]
					good := rapid.Bool().Draw(t, "good")
					want[c.ID] = map[bool]string{true: events.ChildIsCompleted, false: events.ChildIsFailed}[good]
					b.Append(child.Settle(b.State(), c, ended(good, "x"))...)
				case len(waiting) > 0:
					b.Append(runtest.Ready(waiting[0]), runtest.Allowed(waiting[0]))
					waiting = waiting[1:]
				}
				tracked()
			}
		})
	})
}

func TestOutputOfStep(t *testing.T) {
	t.Parallel()
	t.Run("PROP-16 SUB-3 TEST-3f Feature: agent-harnesses, Property 16: the output of a completed child always stands in the parent's step", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			ids := drawSteps(t)
			b := parent(rich, ids...)
			want := map[string]string{}
			for spawnAll(t, b); len(living(b)) > 0; spawnAll(t, b) {
				alive := living(b)
				c := alive[rapid.IntRange(0, len(alive)-1).Draw(t, "which")]
				good, text := rapid.Bool().Draw(t, "good"), rapid.String().Draw(t, "text")
				b.Append(child.Settle(b.State(), c, ended(good, text))...)
				s := b.State()
				if good {
					want[c.Step] = text
					if got := s.SubAgentResults[c.ID]; got != text {
						t.Fatalf("the result of %s is %q, want %q", c.ID, got, text)
					}
				}
				b.Append(child.Close(s, s.Step(c.Step))...)
			}
			s := b.State()
			for _, id := range ids {
				text, completed := want[id]
				st := s.Step(id)
				if (st.Status == events.StepIsCompleted) != completed || st.Output != text {
					t.Fatalf("step %s is %s with %q, want completed: %v, with %q", id, st.Status, st.Output, completed, text)
				}
			}
		})
	})
}

func TestTwice(t *testing.T) {
	t.Parallel()
	t.Run("PROP-17 SUB-4 Feature: agent-harnesses, Property 17: a child that keeps failing is carried out exactly twice, the second time with the error as context", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			ids := drawSteps(t)
			b := parent(rich, ids...)
			begun, why := map[string]int{}, map[string]string{} // by step
			seen := map[string]bool{}
			for spawnAll(t, b); len(living(b)) > 0; spawnAll(t, b) {
				s := b.State()
				c := s.Living()[rapid.IntRange(0, len(s.Living())-1).Draw(t, "which")]
				born, err := child.Born(s, c, "digest")
				if err != nil {
					t.Fatal(err)
				}
				if begun[c.Step]++; seen[born.TaskID] {
					t.Fatalf("two attempts have the id %s", born.TaskID)
				}
				seen[born.TaskID] = true
				if again := strings.Contains(born.Task, "An earlier attempt at this failed"); again != (begun[c.Step] == 2) {
					t.Fatalf("attempt %d reads of an earlier one: %v", begun[c.Step], again)
				}
				if !strings.Contains(born.Task, why[c.Step]) {
					t.Fatalf("attempt %d does not read %q:\n%s", begun[c.Step], why[c.Step], born.Task)
				}
				why[c.Step] = rapid.StringMatching(`[ -~]{1,200}`).Draw(t, "error")
				b.Append(child.Settle(s, c, ended(false, why[c.Step]))...)
				if s = b.State(); begun[c.Step] == 2 {
					b.Append(child.Close(s, s.Step(c.Step))...)
				}
			}
			s := b.State()
			for _, id := range ids {
				st := s.Step(id)
				if begun[id] != 2 || st.Status != events.StepIsFailed || !strings.Contains(st.Error, why[id]) {
					t.Fatalf("step %s was carried out %d times and is %s: %q", id, begun[id], st.Status, st.Error)
				}
			}
		})
	})
}

func TestDepth(t *testing.T) {
	t.Parallel()
	t.Run("PROP-18 SUB-5 Feature: agent-harnesses, Property 18: no child deeper than the limit is ever created", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			limit, wanted := rapid.IntRange(0, 6).Draw(t, "limit"), rapid.IntRange(1, 9).Draw(t, "chain")
			born := runtest.Created()
			born.Options.MaxSubAgentDepth = limit
			rich(&born.Options)
			made := 0
			for ; made < wanted; made++ {
				b := runtest.New("main", fmt.Sprint("run", made))
				b.Append(born, runtest.Started(), runtest.Plan(runtest.ChildStep("a")), runtest.Ready("a"), runtest.Allowed("a"))
				b.Append(child.Next(b.State(), noon, func(string, string, string, int) string { return fmt.Sprint("child_", made+1) })...)
				s := b.State()
				if len(s.Living()) == 0 {
					if c := s.ChildOf("a"); c == nil || c.Outcome != events.ChildIsRefused || c.FinishReason != events.FinishDepth {
						t.Fatalf("%d below the root none is made, and the step reads %+v", made+1, c)
					}
					break
				}
				c := s.Living()[0]
				next, err := child.Born(s, c, "digest")
				if err != nil {
					t.Fatal(err)
				}
				if next.ChildOf.Depth != made+1 || next.ChildOf.Depth > limit {
					t.Fatalf("child %d of a chain with limit %d is said to be %d deep", made+1, limit, next.ChildOf.Depth)
				}
				// as its model may ask for more
				next.Options.MaxToolCalls, born = 10_000, next
			}
			if want := min(limit, wanted); made != want {
				t.Fatalf("%d children were made of a chain of %d with limit %d, want %d", made, wanted, limit, want)
			}
		})
	})
}
