package turn

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var away = Failure{Error: "overloaded", Class: "transient", Retryable: true, Provider: "anthropic", HTTPStatus: 503}

// fails lets the request that is owed to step a fail at the time that it is due, and returns that time and the event.
func fails(t *testing.T, b *runtest.Builder, f Failure, now time.Time) (time.Time, *events.TurnDeferredData) {
	t.Helper()
	d := Next(b.State(), "a", now)
	if !d.Wait.IsZero() {
		now = d.Wait
		d = Next(b.State(), "a", now)
	}
	if d.Ask == nil {
		t.Fatalf("no request is owed: %+v", d)
	}
	say := Fail(b.State(), *d.Ask, f, now)
	if len(say) != 1 {
		t.Fatalf("said %v", say)
	}
	deferred, ok := say[0].(*events.TurnDeferredData)
	if !ok {
		t.Fatalf("the step ended: %+v", say[0])
	}
	b.AppendAt(now, deferred)
	if again := Fail(b.State(), *d.Ask, f, now); len(again) != 0 {
		t.Fatalf("the same failure counted twice: %v", again)
	}
	return now, deferred
}

func TestOutage(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-13 a provider is asked for days where nothing limits it, at most MaxDelay apart", func(t *testing.T) {
		t.Parallel()
		b, now, last := started(50), noon, time.Duration(0)
		for attempt := 1; now.Sub(noon) < 72*time.Hour; attempt++ {
			var d *events.TurnDeferredData
			now, d = fails(t, b, away, now)
			delay := d.NotBefore.Sub(now)
			if d.Attempt != attempt || d.Pause || delay > MaxDelay || delay < min(2*last, MaxDelay) {
				t.Fatalf("attempt %d: again in %s after %s: %+v", attempt, delay, last, d)
			}
			last = delay
		}
	})
	t.Run("PLUS-13 after the longest wait the run is paused, and not before; a person who resumes it begins anew", func(t *testing.T) {
		t.Parallel()
		f := away
		f.MaxWait = 10 * time.Minute
		b, now := started(50), noon
		for round := range 2 {
			first := time.Time{}
			for {
				var d *events.TurnDeferredData
				if now.Sub(noon) > 24*time.Hour {
					t.Fatal("it is never paused")
				}
				if now, d = fails(t, b, f, now); first.IsZero() {
					if first = now; d.DelayMS != BaseDelay.Milliseconds() {
						t.Errorf("round %d begins with a wait of %d ms", round, d.DelayMS)
					}
				}
				if waited := d.NotBefore.Sub(first); waited > f.MaxWait {
					t.Fatalf("it waits for %s", waited)
				}
				if d.Pause {
					if waited := now.Sub(first); waited+MaxDelay <= f.MaxWait || !strings.Contains(d.Error, "10m0s") || !strings.Contains(d.Error, "overloaded") {
						t.Errorf("paused after %s: %s", waited, d.Error)
					}
					break
				}
			}
			s := b.State()
			if d := Next(s, "a", now.Add(time.Hour)); d.Ask != nil || !d.Wait.IsZero() || len(d.Append) > 0 {
				t.Errorf("before the pause something is owed: %+v", d)
			}
			now = now.Add(time.Hour)
			b.AppendAt(now, runtest.PausedClock("provider"), runtest.Resumed())
			if d := Next(b.State(), "a", now); d.Ask == nil || d.Ask.Owed != s.Step("a").Owed || d.Ask.Number != 1 {
				t.Errorf("after the pause another turn is owed: %+v", d)
			}
		}
	})
	t.Run("PLUS-13 a provider that asks for a longer wait than the longest one pauses the run at once", func(t *testing.T) {
		t.Parallel()
		f := away
		f.MaxWait, f.RetryAfter = time.Hour, time.Hour
		b := started(50)
		now, d := fails(t, b, f, noon)
		if d.Pause || !d.NotBefore.Equal(noon.Add(time.Hour)) {
			t.Fatalf("at the limit: %+v", d)
		}
		if _, d = fails(t, b, f, now); !d.Pause {
			t.Errorf("above the limit: %+v", d)
		}
		f.RetryAfter += time.Millisecond
		if _, d = fails(t, started(50), f, noon); !d.Pause {
			t.Errorf("above the limit at once: %+v", d)
		}
	})
	t.Run("PLUS-13 a refused key pauses the run at once, with the reason", func(t *testing.T) {
		t.Parallel()
		_, d := fails(t, started(50), Failure{Error: "no such key", Class: "auth", Repair: true, Provider: "anthropic", HTTPStatus: 401}, noon)
		if !d.Pause || d.Error != "no such key" || d.Class != "auth" || d.HTTPStatus != 401 {
			t.Errorf("%+v", d)
		}
	})
	t.Run("PLUS-13 an answer that was paid for in vain is asked for a bounded number of times", func(t *testing.T) {
		t.Parallel()
		b, now := started(50), noon
		f := Failure{Error: "no summary", Class: "transient", Retryable: true}
		for range MaxAttempts - 1 {
			now, _ = fails(t, b, f, now)
		}
		now = Next(b.State(), "a", now).Wait
		if say := Fail(b.State(), *Next(b.State(), "a", now).Ask, f, now); len(say) != 1 || say[0].Kind() != events.StepFailed {
			t.Errorf("%v", say)
		}
	})
	t.Run("PLUS-13 PLAN-1 a request for a plan waits, and pauses the run, as a turn does", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), &events.PlanRequestedData{Event: "plan_requested", Try: 1})
		f := away
		f.MaxWait = 3 * time.Second
		now, paused := noon, false
		for !paused {
			if now.Sub(noon) > time.Hour {
				t.Fatal("it is never paused")
			}
			duty := NextPlan(b.State(), now, 0)
			if !duty.Wait.IsZero() {
				now = duty.Wait
				duty = NextPlan(b.State(), now, 0)
			}
			say := FailPlan(b.State(), *duty.Ask, f, now)
			b.AppendAt(now, say...)
			if again := FailPlan(b.State(), *duty.Ask, f, now); len(again) != 0 {
				t.Fatalf("counted twice: %v", again)
			}
			paused = say[0].(*events.PlanDeferredData).Pause
		}
		s := b.State()
		if got := now.Sub(noon); got != 3*time.Second || s.GivenUp() == nil {
			t.Errorf("after %s: %+v", got, s.Planning)
		}
		if d := NextPlan(s, now.Add(time.Hour), 0); d.Ask != nil || len(d.Append) > 0 || !d.Wait.IsZero() {
			t.Errorf("before the pause something is owed: %+v", d)
		}
		b.AppendAt(now, runtest.PausedClock("provider"), runtest.Resumed())
		if d := NextPlan(b.State(), now, 0); d.Ask == nil || d.Ask.Owed != s.Planning.Owed {
			t.Errorf("after the pause: %+v", d)
		}
	})
	t.Run("LIFE-7 nothing is recorded of a request whose run was stopped meanwhile", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		task := owed(t, b)
		s := b.State()
		b.Append(runtest.Failed(s, events.FinishStopped, "stopped"))
		if say := Fail(b.State(), task, away, noon); len(say) != 0 {
			t.Errorf("said %v", say)
		}
	})
	t.Run("a request that fails while its run is paused is made again after the pause", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		task := owed(t, b)
		b.AppendAt(noon, runtest.PausedClock("lunch"))
		b.AppendAt(noon, Fail(b.State(), task, away, noon)...)
		if d := Next(b.State(), "a", noon.Add(time.Minute)); d.Ask != nil {
			t.Errorf("asked while paused: %+v", d)
		}
		b.AppendAt(noon.Add(time.Minute), runtest.Resumed())
		if d := Next(b.State(), "a", noon.Add(time.Minute)); d.Ask == nil || d.Ask.Attempt != 2 {
			t.Errorf("after the pause: %+v", d)
		}
	})
}
