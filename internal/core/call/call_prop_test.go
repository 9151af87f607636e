package call

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestPROP8(t *testing.T) {
	t.Parallel()
	t.Run("PROP-8 TOOL-3 TOOL-4 TOOL-7 Feature: agent-harnesses, Property 8: attempts and backoff of transient failures", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			most := rapid.IntRange(0, 6).Draw(t, "max retries")
			retry := events.Retry{BaseBackoffMS: int64(rapid.IntRange(0, 5000).Draw(t, "base"))}
			if rapid.Bool().Draw(t, "set") {
				retry.MaxRetries = &most
			} else {
				most = DefaultMaxRetries
			}
			fails := rapid.IntRange(0, 10).Draw(t, "failures")
			effect := rapid.SampledFrom([]string{Read, Idempotent, Once, Reconcilable}).Draw(t, "effect")
			b := allowed(effect, retry)
			now, attempts, last := noon, 0, time.Duration(0)
			for {
				d := Next(b.State(), "c1-1", now, Lease{Held: true})
				if d.Kind == Wait {
					now = d.At
					continue
				}
				if d.Kind != Begin {
					break
				}
				a := Attempt{Call: d.Call, Number: d.Attempt, Fence: d.Call.Fence}
				if NeedsStart(effect) {
					b.Append(Start(b.State(), d, "runner", "bwrap", "{}")...)
					a.Fence = b.State().Open["c1-1"].Fence
				}
				if attempts++; attempts > fails {
					b.Append(Finish(b.State(), a, Result{Output: "ok", Success: true})...)
					break
				}
				say := Fail(b.State(), a, Failure{Class: "transient", Transient: true, Error: "net"}, now)
				b.Append(say...)
				if deferred, ok := say[0].(*events.CallDeferredData); ok {
					delay := time.Duration(deferred.DelayMS) * time.Millisecond
					if delay < 2*last || last == 0 && delay <= 0 {
						t.Fatalf("delay %s after %s", delay, last)
					}
					last = delay
				}
			}
			if attempts > 1+most {
				t.Fatalf("%d attempts, at most %d may be", attempts, 1+most)
			}
			s := b.State()
			rec := s.ToolCallHistory.At(0)
			if want := fails <= most; want != (rec.Outcome == run.OutcomeFinished) {
				t.Fatalf("%d failures, %d retries: %s", fails, most, rec.Outcome)
			}
			if s.TotalToolCalls != 1 || s.CallsHeld != 0 {
				t.Fatalf("counted %d, held %d", s.TotalToolCalls, s.CallsHeld)
			}
		})
	})
}
