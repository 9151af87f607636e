package child_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func idOf(parent, step, call string, attempt int) string {
	return fmt.Sprintf("child_%s-%s%s-%d", parent, step, call, attempt)
}

// parent is a run whose steps are all given to children, and permitted.
func parent(o func(*events.Options), steps ...string) *runtest.Builder {
	b := runtest.New("main", "p")
	created := runtest.Created()
	o(&created.Options)
	var plan []events.PlanStep
	for _, id := range steps {
		plan = append(plan, runtest.ChildStep(id))
	}
	b.Append(created, runtest.Started(), runtest.Plan(plan...))
	for _, id := range steps {
		b.Append(runtest.Ready(id), runtest.Allowed(id))
	}
	return b
}

// spawnAll appends all children that are owed.
func spawnAll(t interface{ Fatalf(string, ...any) }, b *runtest.Builder) {
	for range 100 {
		say := child.Next(b.State(), noon, idOf)
		if len(say) == 0 {
			return
		}
		b.Append(say...)
	}
	t.Fatalf("there is no end of children")
}

func TestBudgetOfTrees(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3e SUB-4 at any prefix of a log what is used and held is within the budget, whatever children spend of theirs", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			tokens, cost := rapid.Int64Range(0, 5000).Draw(t, "tokens"), events.MicroUSD(rapid.Int64Range(0, 5000).Draw(t, "cost"))
			calls := rapid.IntRange(0, 20).Draw(t, "calls")
			steps := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "steps")]
			b := parent(func(o *events.Options) { o.MaxTokens, o.MaxCost, o.MaxToolCalls = tokens, cost, calls }, steps...)
			var used events.Use // what the children say, added up here
			within := func() {
				s := b.State()
				held := s.HeldForChildren()
				if tokens > 0 && used.Tokens()+held.Tokens > tokens || cost > 0 && used.Paid()+held.Cost > cost ||
					used.ToolCalls+held.ToolCalls > calls {
					t.Fatalf("used %+v held %+v of %d tokens, %s and %d calls", used, held, tokens, cost, calls)
				}
				if broken := s.Broken(); broken != "" {
					t.Fatal(broken)
				}
			}
			attempts := map[string]int{}
			for range 20 {
				spawnAll(t, b)
				within()
				s := b.State()
				living := s.Living()
				if len(living) == 0 {
					break
				}
				c := living[rapid.IntRange(0, len(living)-1).Draw(t, "ends")]
				attempts[c.Step]++
				spent := events.Use{Runs: 1, ToolCalls: rapid.IntRange(0, c.Reserve.ToolCalls).Draw(t, "spent calls"),
					InputTokens: int(rapid.Int64Range(0, c.Reserve.Tokens).Draw(t, "spent tokens")),
					Cost:        events.MicroUSD(rapid.Int64Range(0, int64(c.Reserve.Cost)).Draw(t, "spent"))}
				good := rapid.Bool().Draw(t, "good")
				kid := run.State{Children: []*run.Child{{Use: spent}}, Result: &events.Result{Success: good, FinishReason: events.FinishError, Error: "it broke"}}
				used = used.Plus(spent)
				say := child.Settle(s, c, kid)
				b.Append(say...)
				if again := child.Settle(b.State(), c, kid); len(again) != 0 {
					t.Fatalf("law 1: settled twice: %v", again)
				}
				within()
			}
			if s := b.State(); len(s.Living()) > 0 {
				t.Fatal("children are left")
			}
			for step, n := range attempts {
				if n > events.MaxChildAttempts {
					t.Fatalf("step %s was tried %d times", step, n)
				}
			}
		})
	})
}

func TestChild(t *testing.T) {
	t.Parallel()
	all := func(*events.Options) {}
	t.Run("SUB-5 for any depth and limit none is deeper than the limit", func(t *testing.T) {
		t.Parallel()
		for limit := range 5 {
			for depth := range 7 {
				b := runtest.New("main", "p")
				created := runtest.Created()
				created.Options.MaxSubAgentDepth = limit
				if depth > 0 {
					created.ChildOf = &events.Lineage{Parent: "q", Root: "top", Depth: depth, Step: "x", Attempt: 1}
				}
				b.Append(created, runtest.Started(), runtest.Plan(runtest.ChildStep("a")), runtest.Ready("a"), runtest.Allowed("a"))
				b.Append(child.Next(b.State(), noon, idOf)...)
				s := b.State()
				if got, want := len(s.Living()), min(1, max(0, limit-depth)); got != want {
					t.Fatalf("depth %d of %d: %d children", depth, limit, got)
				}
				if say := child.Close(s, s.Step("a")); len(s.Living()) == 0 && (len(say) != 1 || say[0].(*events.StepFailedData).FinishReason != events.FinishDepth) {
					t.Fatalf("%v", say)
				}
			}
		}
	})
	t.Run("SUB-4 a failed child is followed by one that reads why, and that by none", func(t *testing.T) {
		t.Parallel()
		b := parent(all, "a")
		bad := run.State{Result: &events.Result{FinishReason: events.FinishError, Error: "it broke"}}
		for attempt := 1; attempt <= events.MaxChildAttempts; attempt++ {
			spawnAll(t, b)
			s := b.State()
			if len(s.Living()) != 1 || s.Living()[0].Attempt != attempt || (s.Living()[0].Before == "it broke") != (attempt > 1) {
				t.Fatalf("attempt %d: %+v", attempt, s.Children)
			}
			if say := child.Close(s, s.Step("a")); len(say) != 0 {
				t.Fatalf("it ends while its child lives: %v", say)
			}
			b.Append(child.Settle(s, s.Living()[0], bad)...)
		}
		spawnAll(t, b)
		s := b.State()
		say := child.Close(s, s.Step("a"))
		if len(s.Children) != events.MaxChildAttempts || len(say) != 1 || say[0].(*events.StepFailedData).FinishReason != events.FinishChild {
			t.Errorf("%v %+v", say, s.Children)
		}
	})
	t.Run("SUB-8 a run with children stops in two phases, and says each once", func(t *testing.T) {
		t.Parallel()
		b := parent(all, "a")
		spawnAll(t, b)
		say, err := lifecycle.Stop(b.State(), noon, lifecycle.Wish{By: "anna", Input: 7})
		if err != nil || len(say) != 1 || say[0].Kind() != events.RunStopping {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say...)
		s := b.State()
		if s.Status != events.Paused || s.Halted() {
			t.Errorf("it is %s, and waits to be resumed: %v", s.Status, s.Halted())
		}
		if again, err := lifecycle.Stop(s, noon, lifecycle.Wish{Input: 8}); len(again) != 0 || err != nil {
			t.Errorf("a second wish: %v %v", again, err)
		}
		if _, err := lifecycle.Resume(s, lifecycle.Wish{Input: 9}); err == nil || !strings.Contains(err.Error(), "stopping") {
			t.Errorf("resumed: %v", err)
		}
		if end, _ := lifecycle.Stopped(s, noon); len(end) != 0 || len(child.Next(s, noon, idOf)) != 0 {
			t.Errorf("before its child has ended: %v", end)
		}
		b.Append(child.Settle(s, s.Children[0], run.State{Result: &events.Result{FinishReason: events.FinishError}})...)
		if s = b.State(); s.Children[0].Retry {
			t.Error("a child of a run that stops is tried once more")
		}
		end, err := lifecycle.Progress(s, noon)
		if err != nil || len(end) != 1 {
			t.Fatalf("%v %v", end, err)
		}
		b.Append(end...)
		if s = b.State(); s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || s.Result.By != "anna" {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("GATE-10 a child is never less careful than its parent, and what it begins with follows from the parent alone", func(t *testing.T) {
		t.Parallel()
		for _, of := range []int{1, 3, 5} {
			b := parent(func(o *events.Options) { o.Autonomy = of }, "a")
			spawnAll(t, b)
			s := b.State()
			one, err := child.Born(s, s.Children[0], "digest")
			if err != nil || one.Options.Autonomy > of || one.ChildOf.Parent != "p" || one.ChildOf.Depth != 1 {
				t.Fatalf("%+v %v", one, err)
			}
			k := runtest.New("main", one.TaskID)
			k.Append(one)
			if !s.Children[0].Is("p", k.State()) || s.Children[0].Is("other", k.State()) {
				t.Error("it is not known whose child it is")
			}
		}
	})
	t.Run("PLUS-14 SUB-6 a child knows the session whose grants hold in its tree, at any depth, and has no lock of it", func(t *testing.T) {
		t.Parallel()
		created := runtest.Created()
		created.Session, created.SessionFence = "s", 4
		for depth := range 3 {
			b := runtest.New("main", created.TaskID)
			b.Append(created, runtest.Started(), runtest.Plan(runtest.ChildStep("a")), runtest.Ready("a"), runtest.Allowed("a"))
			spawnAll(t, b)
			one, err := child.Born(b.State(), b.State().Children[0], "digest")
			if err != nil {
				t.Fatal(err)
			}
			session, fence := one.GrantSession()
			if session != "s" || fence != 4 || one.Session != "" || one.SessionFence != 0 {
				t.Errorf("depth %d: session %q, fence %d; its own: %q, %d", depth+1, session, fence, one.Session, one.SessionFence)
			}
			created = one
			created.Agents = runtest.Created().Agents
			created.Agent = runtest.Created().Agent
		}
	})
	t.Run("SUB-8 a child that a person paused stays so when its parent goes on", func(t *testing.T) {
		t.Parallel()
		b := parent(all, "a")
		k := runtest.New("main", "k")
		k.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("x")))
		b.Append(runtest.Paused("wait"))
		say, err := child.Follow(b.State(), &run.Child{}, k.State(), noon)
		if err != nil || len(say) != 1 || !say[0].(*events.RunPausedData).Parent {
			t.Fatalf("%v %v", say, err)
		}
		k.Append(say...)
		if again, _ := child.Follow(b.State(), &run.Child{}, k.State(), noon); len(again) != 0 {
			t.Errorf("law 1: %v", again)
		}
		b.Append(runtest.Resumed())
		say, _ = child.Follow(b.State(), &run.Child{}, k.State(), noon)
		k.Append(say...)
		k.Append(runtest.Paused("a person asked"))
		if say, _ = child.Follow(b.State(), &run.Child{}, k.State(), noon); k.State().Status != events.Paused || len(say) != 0 {
			t.Errorf("%v", say)
		}
	})
}
