package harness_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/harness"
)

// saver is the harness of the examples: it saves coins.
type saver struct {
	harness.BaseHarness[int, int, string]
	coins []int
	// before is called before each coin; may be nil.
	before func(ctx context.Context, run *saving, coin int) (string, error)
}

// saving is what its Execute gets.
type saving = harness.Execution[int, int, string]

func (s *saver) Execute(ctx context.Context, run *saving) iter.Seq2[harness.StepYield[int, string], error] {
	return func(yield func(harness.StepYield[int, string], error) bool) {
		for _, coin := range s.coins {
			said, err := "saved", error(nil)
			if s.before != nil {
				said, err = s.before(ctx, run, coin)
			}
			run.Update(func(total int) int { return total + coin })
			if !yield(harness.Pair(coin, said), err) {
				return
			}
		}
	}
}

// How do I write a harness and run it?
func ExampleRun() {
	s := &saver{coins: []int{5, 10}}
	err := harness.Run(context.Background(), s, harness.HarnessConfig[int]{InitialState: 100})
	fmt.Println(err, s.CurrentStep(), s.State())
	for _, step := range s.StepHistory() {
		fmt.Println(step.StepNumber, step.Input, step.Output)
	}
	// Output:
	// <nil> 2 115
	// 1 5 saved
	// 2 10 saved
}

// How do I call something that must not happen twice?
func ExampleDo() {
	ctx, crash := context.WithCancel(context.Background())
	store := harness.WithStore(&harness.MemoryStore{})
	pay := func(ctx context.Context, run *saving, coin int) (string, error) {
		said, err := harness.Do(ctx, run, harness.Effect[string]{Name: "pay", Class: harness.Once, Do: func(ctx context.Context, c harness.Call) (string, error) {
			fmt.Println("paying in step", c.Step)
			if coin == 10 {
				crash()
				return "", ctx.Err()
			}
			return "paid", nil
		}})
		if errors.Is(err, harness.ErrUnknownOutcome) {
			return "no one knows", nil
		}
		return said, err
	}
	for _, ctx := range []context.Context{ctx, context.Background()} {
		s := &saver{coins: []int{5, 10}, before: pay}
		err := harness.Run(ctx, s, harness.HarnessConfig[int]{}, store)
		fmt.Println(err == nil, s.CurrentStep())
		if err == nil {
			fmt.Println(s.StepHistory()[0].Output, s.StepHistory()[1].Output)
		}
	}
	// Output:
	// paying in step 1
	// paying in step 2
	// false 1
	// true 2
	// paid no one knows
}

// How do I let an agent of my program decide, with constraints for this call?
func ExampleExecution_Ask() {
	careful := harness.NewAgent(harness.AgentConfig[int, int, string]{Name: "Careful", Effect: harness.Read,
		Run: func(_ context.Context, p harness.AgentRunParams[int, int, string]) (string, error) {
			return fmt.Sprintf("%s of at most %v, in step %d after %d", map[bool]string{true: "take", false: "leave"}[p.Input <= 7], p.Constraints["most"], p.StepNumber, len(p.Context.RecentSteps)), nil
		}})
	s := &saver{coins: []int{5, 10}, before: func(ctx context.Context, run *saving, coin int) (string, error) {
		return run.Ask(ctx, careful, coin, harness.Constraints{"most": 7})
	}}
	err := harness.Run(context.Background(), s, harness.HarnessConfig[int]{})
	fmt.Println(err, s.StepHistory()[0].Output, "-", s.StepHistory()[1].Output)
	// Output: <nil> take of at most 7, in step 1 after 0 - leave of at most 7, in step 2 after 1
}

// frozen is a clock of a test.
type frozen struct{}

func (frozen) Now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func (frozen) Sleep(_ context.Context, d time.Duration) error { fmt.Println("slept", d); return nil }

// How do I test a harness that waits?
func ExampleWithClock() {
	s := &saver{coins: []int{5}, before: func(ctx context.Context, run *saving, _ int) (string, error) {
		if err := run.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		at, err := run.Now(ctx)
		return at.Format(time.DateOnly), err
	}}
	err := harness.Run(context.Background(), s, harness.HarnessConfig[int]{}, harness.WithClock(frozen{}))
	fmt.Println(s.StepHistory()[0].Output, err)
	// Output:
	// slept 1h0m0s
	// 2026-01-02 <nil>
}

// helper carries tasks out in the place of a station.
type helper struct{}

func (helper) RunTask(_ context.Context, t harness.Task) (harness.TaskResult, error) {
	return harness.TaskResult{Run: t.ID, Success: true, Output: "did: " + t.Task}, nil
}

// How do I have an agent of a station do something, and test that without one?
func ExampleExecution_Dispatch() {
	s := &saver{coins: []int{5}, before: func(ctx context.Context, run *saving, coin int) (string, error) {
		r, err := run.Dispatch(ctx, harness.Task{Agent: "clerk", Task: fmt.Sprintf("polish coin %d", coin)})
		return r.Output, err
	}}
	err := harness.Run(context.Background(), s, harness.HarnessConfig[int]{}, harness.WithAgents(helper{}))
	fmt.Println(s.StepHistory()[0].Output, err)
	// Output: did: polish coin 5 <nil>
}

// How do I learn of each step as it is recorded?
func ExampleWithPublisher() {
	show := harness.PublisherFunc(func(p harness.Published) { fmt.Printf("%s %d: %s\n", p.Name, p.Step.Number, p.Step.Output) })
	err := harness.Run(context.Background(), &saver{coins: []int{5, 10}}, harness.HarnessConfig[int]{}, harness.WithPublisher(show))
	fmt.Println(err)
	// Output:
	// saver 1: "saved"
	// saver 2: "saved"
	// <nil>
}

// How do I go on after a restart without repeating the steps?
func ExampleWithoutReplay() {
	store := harness.WithStore(&harness.MemoryStore{})
	stop := errors.New("stop")
	first := &saver{coins: []int{5, 10}, before: func(_ context.Context, run *saving, coin int) (string, error) {
		if coin == 10 {
			return "", stop
		}
		return "saved", nil
	}}
	fmt.Println(errors.Is(harness.Run(context.Background(), first, harness.HarnessConfig[int]{}, store), stop))
	next := &saver{coins: []int{1}} // another program: it begins with the state
	fmt.Println(harness.Run(context.Background(), next, harness.HarnessConfig[int]{}, store, harness.WithoutReplay()), next.State(), next.CurrentStep())
	// Output:
	// true
	// <nil> 6 2
}

// How do I record the steps at a station, so that they outlive my program?
func ExampleOnStation() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "inspan-example-")
	if err != nil {
		panic(err)
	}
	st, err := stationIn(ctx, dir, "127.0.0.1:0") // it runs elsewhere as a rule
	if err != nil {
		panic(err)
	}
	defer func() { _ = errors.Join(st.Close(context.Background()), os.RemoveAll(dir)) }()

	c, err := client.Connect(ctx, client.Config{URL: st.URL()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for range 2 { // the second one finds it complete
		s := &saver{coins: []int{5, 10}}
		err := harness.Run(ctx, s, harness.HarnessConfig[int]{}, harness.OnStation(c, "saver-1"))
		fmt.Println(err, s.CurrentStep(), s.State())
	}
	// Output:
	// <nil> 2 15
	// <nil> 2 15
}
