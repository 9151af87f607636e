package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/harness"
)

// counter yields numbers up to its limit and counts coins. It is complete at goal, where that is above 0.
type counter struct {
	harness.BaseHarness[purse, int, string]
	limit, goal int
	each        func(ctx context.Context, x *harness.Execution[purse, int, string], n int) error
}

func (c *counter) IsComplete() bool { return c.goal > 0 && c.State().Coins >= c.goal }

func (c *counter) Execute(ctx context.Context, x *harness.Execution[purse, int, string]) iter.Seq2[harness.StepYield[int, string], error] {
	return func(yield func(harness.StepYield[int, string], error) bool) {
		for n := x.State().Coins + 1; n <= c.limit; n++ {
			x.Update(func(s purse) purse { s.Coins = n; return s })
			x.Summarize(fmt.Sprintf("coin %d", n))
			var err error
			if c.each != nil {
				err = c.each(ctx, x, n)
			}
			if !yield(harness.Pair(n, fmt.Sprint(x.Step())), err) {
				return
			}
		}
	}
}

// ticking is a clock that moves by a second each time it is asked, and by itself never.
type ticking struct{ at time.Time }

func (c *ticking) Now() time.Time { c.at = c.at.Add(time.Second); return c.at }

func (c *ticking) Sleep(ctx context.Context, d time.Duration) error {
	c.at = c.at.Add(d)
	return context.Cause(ctx)
}

// waiter yields what its limit says, and then waits until its context ends, of which it says nothing.
type waiter struct {
	counter
	waits func()
}

func (w *waiter) Execute(ctx context.Context, x *harness.Execution[purse, int, string]) iter.Seq2[harness.StepYield[int, string], error] {
	return func(yield func(harness.StepYield[int, string], error) bool) {
		for y, err := range w.counter.Execute(ctx, x) {
			if !yield(y, err) {
				return
			}
		}
		if w.waits != nil {
			w.waits()
			<-ctx.Done()
		}
	}
}

// patient is a store that does not look at the contexts of its callers.
type patient struct{ harness.MemoryStore }

func (p *patient) Record(ctx context.Context, id string, c harness.Control) error {
	return p.MemoryStore.Record(context.WithoutCancel(ctx), id, c)
}

func TestRun(t *testing.T) {
	t.Parallel()
	t.Run("SDK-3 SDK-18 a harness that returns because its context ended is not complete: the next run goes on with it", func(t *testing.T) {
		t.Parallel()
		store, cause := &patient{}, errors.New("the terminal was closed")
		ctx, cancel := context.WithCancelCause(t.Context())
		first := &waiter{counter{limit: 1}, func() { cancel(cause) }}
		if err := harness.Run(ctx, first, harness.HarnessConfig[purse]{}, harness.WithStore(store)); !errors.Is(err, cause) || first.CurrentStep() != 1 {
			t.Errorf("step %d, %v", first.CurrentStep(), err)
		}
		next := &waiter{counter{limit: 3}, nil}
		if err := harness.Run(t.Context(), next, harness.HarnessConfig[purse]{}, harness.WithStore(store)); err != nil || next.CurrentStep() != 3 {
			t.Errorf("step %d, %v", next.CurrentStep(), err)
		}
	})
	t.Run("SDK-1 SDK-2 SDK-5 each pair is recorded as a step, without any call by the user", func(t *testing.T) {
		t.Parallel()
		c, clock := &counter{limit: 2}, &ticking{at: time.Unix(0, 0).UTC()}
		var published []int
		if c.CurrentStep() != 0 || c.IsComplete() || c.StepHistory() != nil {
			t.Error("there is something before Run")
		}
		err := harness.Run(t.Context(), c, harness.HarnessConfig[purse]{}, harness.WithClock(clock),
			harness.WithPublisher(harness.Publishers(harness.PublisherFunc(func(p harness.Published) { published = append(published, p.Step.Number) }))))
		if err != nil {
			t.Fatal(err)
		}
		got := c.StepHistory()
		want := harness.Step[int, string]{StepNumber: 2, Input: 2, Output: "2", StateDelta: harness.StateDelta{Modified: []string{"coins"}, Summary: "coin 2"}, Timestamp: got[len(got)-1].Timestamp}
		if len(got) != 2 || !reflect.DeepEqual(got[1], want) || !got[1].Timestamp.After(got[0].Timestamp) || got[1].Timestamp.Year() != 1970 {
			t.Errorf("got %+v, want %+v as the last", got, want)
		}
		if c.CurrentStep() != 2 || c.State().Coins != 2 || !reflect.DeepEqual(published, []int{1, 2}) {
			t.Errorf("step %d, state %+v, published %v", c.CurrentStep(), c.State(), published)
		}
	})
	t.Run("SDK-3 SDK-18 a harness ends when it is complete after a step, and then is what it was", func(t *testing.T) {
		t.Parallel()
		c, store := &counter{limit: 10, goal: 3}, &harness.MemoryStore{}
		for range 2 {
			if err := harness.Run(t.Context(), c, harness.HarnessConfig[purse]{}, harness.WithStore(store)); err != nil {
				t.Fatal(err)
			}
			if c.CurrentStep() != 3 || c.State().Coins != 3 {
				t.Errorf("got step %d and %+v, want 3", c.CurrentStep(), c.State())
			}
			c = &counter{limit: 10, goal: 3}
		}
	})
	t.Run("SDK-21 an error ends Run, and the next one goes on after the last step", func(t *testing.T) {
		t.Parallel()
		store, broken := &harness.MemoryStore{}, errors.New("broken")
		each := func(_ context.Context, _ *harness.Execution[purse, int, string], n int) error {
			if n == 3 {
				return broken
			}
			return nil
		}
		c := &counter{limit: 4, each: each}
		if err := harness.Run(t.Context(), c, harness.HarnessConfig[purse]{}, harness.WithStore(store)); !errors.Is(err, broken) || c.CurrentStep() != 2 {
			t.Fatalf("got %v at step %d", err, c.CurrentStep())
		}
		for _, o := range [][]harness.Option{{harness.WithoutReplay()}, nil} {
			c = &counter{limit: 4}
			if err := harness.Run(t.Context(), c, harness.HarnessConfig[purse]{InitialState: purse{Coins: 99}}, append(o, harness.WithStore(store))...); err != nil || c.CurrentStep() != 4 || c.StepHistory()[3].Input != 4 {
				t.Fatalf("got %v, %+v", err, c.StepHistory())
			}
		}
	})
	t.Run("SDK-21 an end of the context is no end of the harness", func(t *testing.T) {
		t.Parallel()
		store, over := &harness.MemoryStore{}, errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &counter{limit: 3, each: func(context.Context, *harness.Execution[purse, int, string], int) error { cancel(over); return nil }}
		if err := harness.Run(ctx, c, harness.HarnessConfig[purse]{}, harness.WithStore(store)); !errors.Is(err, over) {
			t.Fatalf("got %v", err)
		}
		c = &counter{limit: 3}
		if err := harness.Run(t.Context(), c, harness.HarnessConfig[purse]{}, harness.WithStore(store)); err != nil || c.CurrentStep() != 3 {
			t.Fatalf("got %v at step %d", err, c.CurrentStep())
		}
	})
	t.Run("SDK-21 an Execute that does not repeat its record is stopped and records nothing", func(t *testing.T) {
		t.Parallel()
		store := &harness.MemoryStore{}
		stop := errors.New("stop")
		first := &counter{limit: 5, each: func(_ context.Context, _ *harness.Execution[purse, int, string], n int) error {
			if n == 4 {
				return stop
			}
			return nil
		}}
		if err := harness.Run(t.Context(), first, harness.HarnessConfig[purse]{}, harness.WithStore(store)); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		for what, c := range map[string]*counter{
			"the number of steps": {limit: 2},
			"the state": {limit: 5, each: func(_ context.Context, x *harness.Execution[purse, int, string], n int) error {
				x.Update(func(s purse) purse { s.Names = []string{"other"}; return s })
				return nil
			}},
			"effect 1": {limit: 5, each: func(ctx context.Context, x *harness.Execution[purse, int, string], _ int) error {
				_, err := x.Now(ctx)
				return err
			}},
		} {
			err := harness.Run(t.Context(), c, harness.HarnessConfig[purse]{}, harness.WithStore(store))
			if d, ok := errors.AsType[*harness.DivergedError](err); !ok || d.What != what {
				t.Errorf("got %v, want one of %s", err, what)
			}
		}
		if err := harness.Run(t.Context(), &counter{}, harness.HarnessConfig[purse]{}, harness.WithStore(store), harness.WithName("other")); err == nil {
			t.Error("a program of another kind went on with it")
		}
		records, err := store.Load(t.Context(), "harness")
		steps := 0
		for _, r := range records {
			if r.Payload.Kind() == "harness.stepped" {
				steps++
			}
		}
		if steps != 3 || err != nil {
			t.Errorf("got %d steps, %v; want 3", steps, err)
		}
	})
	t.Run("SDK-13 SDK-10 SDK-20 agents get the context of the step, knowledge and clock are replaced", func(t *testing.T) {
		t.Parallel()
		var seen []harness.AgentRunParams[purse, int, string]
		agent := func(name string) harness.Agent[purse, int, string] {
			return harness.NewAgent(harness.AgentConfig[purse, int, string]{Name: name, Effect: harness.Read, Run: func(_ context.Context, p harness.AgentRunParams[purse, int, string]) (string, error) {
				seen = append(seen, p)
				return name, nil
			}})
		}
		a, b := agent("a"), agent("b")
		c := &counter{limit: 2, each: func(ctx context.Context, x *harness.Execution[purse, int, string], n int) error {
			one, err := x.Ask(ctx, a, n, harness.Constraints{"maxDrawdown": 0.1})
			two, err2 := x.Ask(ctx, b, n, nil)
			if one != "a" || two != "b" {
				err = errors.New("answers are mixed up")
			}
			return errors.Join(err, err2)
		}}
		if err := harness.Run(t.Context(), c, harness.HarnessConfig[purse]{}, harness.WithKnowledge(func(_ context.Context, s purse) ([]string, error) {
			return []string{fmt.Sprint(s.Coins)}, nil
		})); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 4 {
			t.Fatalf("got %d calls", len(seen))
		}
		for i, p := range seen {
			step := i/2 + 1
			if p.StepNumber != step || len(p.StepHistory) != step-1 || p.Context.State.Coins != step || p.Context.RelevantKnowledge[0] != fmt.Sprint(step) || p.Input != step {
				t.Errorf("call %d got %+v", i, p)
			}
		}
		if seen[0].Constraints["maxDrawdown"] != 0.1 || seen[1].Constraints != nil || seen[0].Key == seen[1].Key {
			t.Errorf("got %+v", seen)
		}
	})
}
