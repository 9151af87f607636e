package cli_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/harness"
)

// counting yields three numbers and their squares.
type counting struct {
	harness.BaseHarness[map[string]int, int, int]
}

func (*counting) Execute(ctx context.Context, x *harness.Execution[map[string]int, int, int]) iter.Seq2[harness.StepYield[int, int], error] {
	return harness.FromTasks(ctx, slices.Values([]int{2, 3, 4}), func(_ context.Context, n int) (int, error) {
		x.Update(func(map[string]int) map[string]int { return map[string]int{"last": n} })
		x.Summarize("squared")
		return n * n, nil
	})
}

func TestHarnesses(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	t.Run("SDK-21 without harnesses the list says so, and an unknown one is not found", func(t *testing.T) {
		d.want(0, []string{"docs/harness-sdk.md"}, "harness", "list")
		d.want(5, []string{"inspan harness list"}, "harness", "steps", "nope")
	})
	t.Run("SDK-21 the steps of a program are listed, with what they changed", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c, err := client.Connect(ctx, client.Config{URL: d.station.URL()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := harness.Run(ctx, &counting{}, harness.HarnessConfig[map[string]int]{InitialState: map[string]int{}}, harness.OnStation(c, "squares"), harness.WithHolder("here", 0)); err != nil {
			t.Fatal(err)
		}
		d.want(0, []string{"squares", "counting", "here"}, "harness", "list")
		d.want(0, []string{"16", "squared: last"}, "harness", "steps", "squares")
		steps := decode[[]events.HarnessStep](t, d.want(0, nil, "harness", "steps", "squares", "--last", "2", "--json").out)
		if len(steps) != 2 || steps[0].Number != 2 || string(steps[1].Output) != "16" {
			t.Errorf("got %+v", steps)
		}
	})
}
