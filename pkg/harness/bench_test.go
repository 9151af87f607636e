package harness_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"testing"
	"time"

	inner "github.com/inspan/inspan/internal/harness"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/pkg/events"
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
	// what the planner does for a step, without the way to it and back
	b.Run("append", func(b *testing.B) {
		st := jettest.Station(b, jettest.Connect(b, jettest.Server(b), jet.Config{}), "test", jet.ApplyOptions{Replicas: 1})
		l, err := inner.NewLedger(inner.LedgerConfig{Station: "test", By: events.Planner, Journal: st.JournalFor(events.HarnessAggregate), Entropy: rand.Reader})
		if err != nil {
			b.Fatal(err)
		}
		value, n := json.RawMessage("1"), 0
		write := func(c harness.Control) {
			if _, err := l.Write(b.Context(), "bench", func(s inner.State, now time.Time) ([]events.Payload, error) {
				return inner.Decide(s, "bench", c, now)
			}); err != nil {
				b.Fatal(err)
			}
		}
		write(harness.Control{Action: events.HarnessAttach, Name: "n", Holder: "h", Token: "t", State: value})
		for b.Loop() {
			n++
			write(harness.Control{Action: events.HarnessRecord, Epoch: 1, Step: &events.HarnessStep{Number: n, Input: value, Output: value}})
		}
	})
}
