package harness

import (
	"context"
	"iter"
)

// FromTasks is an Execute for a list of tasks: each is worked off and yielded with what came of it, in order. Where
// work returns an error the harness stops at that task, and goes on with it at the next Run.
func FromTasks[I, O any](ctx context.Context, tasks iter.Seq[I],
	work func(ctx context.Context, task I) (O, error)) iter.Seq2[StepYield[I, O], error] {
	return func(yield func(StepYield[I, O], error) bool) {
		for task := range tasks {
			output, err := work(ctx, task)
			if !yield(Pair(task, output), err) || err != nil {
				return
			}
		}
	}
}
