package harness_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/inspan/inspan/pkg/harness"
)

// list works off a list, where broken is not among it.
type list struct {
	harness.BaseHarness[struct{}, string, int]
	work   []string
	broken string
}

func (l *list) Execute(ctx context.Context, _ *harness.Execution[struct{}, string, int]) iter.Seq2[harness.StepYield[string, int], error] {
	return harness.FromTasks(ctx, slices.Values(l.work), func(_ context.Context, task string) (int, error) {
		if task == l.broken {
			return 0, errors.New("cannot do it")
		}
		return len(task), nil
	})
}

func TestFromTasks(t *testing.T) {
	t.Parallel()
	t.Run("SDK-17 a task list is the source of the inputs, and goes on at the task that failed", func(t *testing.T) {
		t.Parallel()
		store := harness.WithStore(&harness.MemoryStore{})
		l := &list{work: []string{"a", "bb", "ccc"}, broken: "bb"}
		if err := harness.Run(t.Context(), l, harness.HarnessConfig[struct{}]{}, store); err == nil || l.CurrentStep() != 1 {
			t.Fatalf("got %v at step %d", err, l.CurrentStep())
		}
		l = &list{work: l.work}
		if err := harness.Run(t.Context(), l, harness.HarnessConfig[struct{}]{}, store); err != nil || l.CurrentStep() != 3 || l.StepHistory()[2].Output != 3 {
			t.Fatalf("got %v, %+v", err, l.StepHistory())
		}
	})
}
