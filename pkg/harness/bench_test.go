package harness_test

import (
	"context"
	"iter"
	"testing"

	"github.com/inspan/inspan/pkg/harness"
)

// looping yields as long as the benchmark goes on.
type looping struct {
	harness.BaseHarness[purse, int, int]
	more func() bool
}

func (l *looping) Execute(_ context.Context, x *harness.Execution[purse, int, int]) iter.Seq2[harness.StepYield[int, int], error] {
	return func(yield func(harness.StepYield[int, int], error) bool) {
		for l.more() {
			x.Update(func(s purse) purse { s.Coins++; return s })
			if !yield(harness.Pair(1, 2), nil) {
				return
			}
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for name, options := range map[string]func() []harness.Option{
		"memory":  func() []harness.Option { return nil },
		"station": func() []harness.Option { return []harness.Option{harness.OnStation(newStation(b), "bench")} },
	} {
		b.Run(name, func(b *testing.B) {
			all := options()
			b.ReportAllocs()
			if err := harness.Run(b.Context(), &looping{more: b.Loop}, harness.HarnessConfig[purse]{}, all...); err != nil {
				b.Fatal(err)
			}
		})
	}
}
