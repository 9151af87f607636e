package route_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/route"
	"github.com/inspan/inspan/pkg/events"
)

// asks draws what may be said.
func asks(t *rapid.T) (route.Ask, time.Duration) {
	threshold := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "threshold"))
	a := route.Ask{Harness: rapid.SampledFrom([]string{"", events.HarnessOn, events.HarnessOff}).Draw(t, "harness")}
	a.Estimate = rapid.SampledFrom([]time.Duration{0, 1, threshold - 1, threshold, threshold + 1, 2 * time.Hour}).Draw(t, "estimate")
	if rapid.Bool().Draw(t, "marked") {
		mark := rapid.Bool().Draw(t, "mark")
		a.Mark = &mark
	}
	return a, threshold
}

func TestDirectProp(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-13 where the harness is off, a task is wrapped exactly when it is long-running", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			a, threshold := asks(t)
			a.Harness = events.HarnessOff
			direct, why := route.Direct(a, threshold)
			long := a.Mark != nil && *a.Mark || a.Mark == nil && a.Estimate >= threshold
			if direct == long || why == "" {
				t.Fatalf("%+v at %s: direct %v, long-running %v (%s)", a, threshold, direct, long, why)
			}
		})
	})
	t.Run("LIFE-13 a task that is marked takes the path of its mark, whatever is said of its agent", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			a, threshold := asks(t)
			mark := rapid.Bool().Draw(t, "mark")
			a.Mark = &mark
			if direct, why := route.Direct(a, threshold); direct == mark {
				t.Fatalf("%+v: direct %v (%s)", a, direct, why)
			}
		})
	})
	t.Run("LIFE-13 C30 what only the harness gives is never left out, and what makes a task longer never makes its run direct", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			a, threshold := asks(t)
			before, _ := route.Direct(a, threshold)
			needs := a
			switch rapid.IntRange(0, 3).Draw(t, "needs") {
			case 0:
				needs.Planned = true
			case 1:
				needs.Gated = true
			case 2:
				needs.Held = true
			case 3:
				needs.Kept = true
			}
			if direct, why := route.Direct(needs, threshold); direct {
				t.Fatalf("%+v is direct (%s)", needs, why)
			}
			longer := a
			if longer.Estimate > 0 {
				longer.Estimate += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
			}
			if direct, _ := route.Direct(longer, threshold); direct && !before {
				t.Fatalf("%+v is wrapped and %+v is not", a, longer)
			}
		})
	})
}
