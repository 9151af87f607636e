package external

import (
	"context"
	"iter"
	"slices"

	"github.com/inspan/inspan/pkg/harness"
)

// Announced is the state of Crier: how much was announced.
type Announced struct {
	News int `json:"news"`
}

// Crier has an agent of a station announce news, one after the other.
type Crier struct {
	harness.BaseHarness[Announced, string, harness.TaskResult]
	News []string
}

// Execute implements harness.Harness.
func (c *Crier) Execute(ctx context.Context,
	run *harness.Execution[Announced, string, harness.TaskResult]) iter.Seq2[harness.StepYield[string,
	harness.TaskResult], error] {
	return harness.FromTasks(ctx, slices.Values(c.News),
		func(ctx context.Context, news string) (harness.TaskResult, error) {
			r, err := run.Dispatch(ctx, harness.Task{Agent: "herald", Task: news})
			run.Update(func(a Announced) Announced { a.News++; return a })
			return r, err
		})
}
