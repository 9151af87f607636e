package call

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var (
	noon    = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	theCall = runtest.Ref("a", "c1-1", "bash")
)

// allowed builds a run with one call allowed, of an effect class.
func allowed(effect string, retry events.Retry) *runtest.Builder {
	b := runtest.New("main", "r1")
	created := runtest.Created()
	agent := created.Agents["worker"]
	agent.Retry = retry
	created.Agents["worker"] = agent
	b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
		runtest.Turn(1, "a", "one call", runtest.Asked(1, 1, "bash", `{"command":"make"}`)), runtest.CallYes(theCall, effect))
	return b
}

func attempt(b *runtest.Builder) Attempt {
	c := *b.State().Open["c1-1"]
	return Attempt{Call: c, Number: max(1, c.Attempt), Fence: c.Fence, Sandbox: "bwrap"}
}

func TestNext(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-7 TOOL-22 what is owed after a runner was lost depends on the effect class", func(t *testing.T) {
		t.Parallel()
		for effect, want := range map[string]Kind{Once: Unknown, Idempotent: Begin, Reconcilable: Verify, "": Unknown} {
			b := allowed(effect, events.Retry{})
			b.Append(runtest.CallBegun(theCall, 1))
			if got := Next(b.State(), "c1-1", noon, Lease{Held: true}).Kind; got != Watch {
				t.Errorf("%s with a live runner: %d, want to watch", effect, got)
			}
			if got := Next(b.State(), "c1-1", noon, Lease{}).Kind; got != want {
				t.Errorf("%s with a lost runner: %d, want %d", effect, got, want)
			}
		}
	})
	t.Run("PLUS-12c TOOL-4 a reconcilable call that is lost again and again waits longer each time, and is given up", func(t *testing.T) {
		t.Parallel()
		most := 2
		b := allowed(Reconcilable, events.Retry{MaxRetries: &most})
		var waits []int64
		for n := 1; ; n++ {
			b.Append(runtest.CallBegun(theCall, n))
			d := Next(b.State(), "c1-1", noon, Lease{})
			if d.Kind != Verify || d.Last != (n > most) {
				t.Fatalf("attempt %d: %+v", n, d)
			}
			if d.Last {
				say := GiveUp(b.State(), d)
				if len(say) != 1 || !strings.Contains(say[0].(*events.CallFailedData).Error, "gave up after 3 attempts: the toolrunner") {
					t.Fatalf("%+v", say)
				}
				b.Append(say...)
				break
			}
			say := Again(b.State(), d, noon)
			if n == 1 {
				if len(say) != 0 {
					t.Fatalf("the first loss is waited for: %v", say)
				}
				continue
			}
			b.Append(say...)
			waits = append(waits, say[0].(*events.CallDeferredData).DelayMS)
			if again := Again(b.State(), d, noon); len(again) != 0 {
				t.Errorf("said again: %v", again)
			}
			late := b.State().Open["c1-1"].NotBefore
			if got := Next(b.State(), "c1-1", late.Add(-1), Lease{}).Kind; got != Wait {
				t.Errorf("before its time: %d", got)
			}
			if got := Next(b.State(), "c1-1", late, Lease{}).Kind; got != Begin {
				t.Errorf("at its time: %d", got)
			}
		}
		if s := b.State(); len(s.Open) != 0 || len(waits) != 1 || waits[0] != 2000 {
			t.Errorf("%v, %d are open", waits, len(s.Open))
		}
	})
	t.Run("PLUS-12c SAFE-7 a program that is given up ends what it had begun inside as unknown", func(t *testing.T) {
		t.Parallel()
		none := 0
		b := runtest.New("main", "r1")
		created := runtest.Created()
		agent := created.Agents["worker"]
		agent.Retry = events.Retry{MaxRetries: &none}
		created.Agents["worker"] = agent
		ref, yes := runtest.Ref("a", "c1-1", events.ToolRuntime), runtest.InnerRef("a", "c1-1-1", "bash", "c1-1")
		b.Append(created, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "a program works", runtest.Asked(1, 1, events.ToolRuntime, `{"prompt":"work"}`)),
			runtest.CallYes(ref, Reconcilable), runtest.CallBegun(ref, 1))
		b.Append(runtest.Progressed(b.State().Open["c1-1"], "s"))
		b.Append(runtest.Requested(b.State().Open["c1-1"], "bash", `{"command":"make"}`), runtest.CallYes(yes, Once), runtest.CallBegun(yes, 1))
		d := Next(b.State(), "c1-1", noon, Lease{})
		say := GiveUp(b.State(), d)
		if !d.Last || len(say) != 2 || say[0].(*events.CallFailedData).Class != events.OutcomeUnknown {
			t.Fatalf("%+v, %v", d, say)
		}
		b.Append(say...)
		if s := b.State(); len(s.Open) != 0 || len(s.Unknown) != 1 {
			t.Errorf("%+v", s.Unknown)
		}
	})
	t.Run("a call that ended, or a run that did, is owed nothing", func(t *testing.T) {
		t.Parallel()
		b := allowed(Once, events.Retry{})
		b.Append(runtest.CallBegun(theCall, 1))
		open := b.State()
		b.Append(runtest.CallDone(theCall, open.Open["c1-1"].Fence, "ok"))
		if got := Next(b.State(), "c1-1", noon, Lease{}).Kind; got != Nothing {
			t.Errorf("after the result: %d", got)
		}
		c := allowed(Once, events.Retry{})
		c.Append(runtest.Failed(c.State(), events.FinishStopped, "stopped"))
		if got := Next(c.State(), "c1-1", noon, Lease{}).Kind; got != Nothing {
			t.Errorf("after the end of the run: %d", got)
		}
	})
	t.Run("law 3: of two that found the same duty only one starts", func(t *testing.T) {
		t.Parallel()
		b := allowed(Once, events.Retry{})
		duty := Next(b.State(), "c1-1", noon, Lease{})
		say := Start(b.State(), duty, "runner-1", "bwrap", "{}")
		if len(say) != 1 {
			t.Fatalf("%v", say)
		}
		b.Append(say...)
		if again := Start(b.State(), duty, "runner-2", "bwrap", "{}"); len(again) != 0 {
			t.Errorf("a second start was said: %v", again)
		}
	})
	t.Run("SAFE-8 a late result, with an old fence, changes nothing", func(t *testing.T) {
		t.Parallel()
		b := allowed(Idempotent, events.Retry{})
		b.Append(runtest.CallBegun(theCall, 1))
		old := attempt(b)
		b.Append(runtest.CallBegun(theCall, 2))
		if say := Finish(b.State(), old, Result{Output: "late"}); len(say) != 0 {
			t.Errorf("late result: %v", say)
		}
		if say := Fail(b.State(), old, Failure{Class: "timeout"}, noon); len(say) != 0 {
			t.Errorf("late failure: %v", say)
		}
		if say := Finish(b.State(), attempt(b), Result{Output: "ok", Success: true}); len(say) != 1 {
			t.Errorf("current result: %v", say)
		}
	})
	t.Run("TOOL-4 a failure that is said again, because no one heard that it was stored, says nothing", func(t *testing.T) {
		t.Parallel()
		for _, effect := range []string{Idempotent, Read} {
			b := allowed(effect, events.Retry{})
			if NeedsStart(effect) {
				b.Append(runtest.CallBegun(theCall, 1))
			}
			a, f := attempt(b), Failure{Class: "transient", Transient: true}
			first := Fail(b.State(), a, f, noon)
			if len(first) != 1 {
				t.Fatalf("%s: %v", effect, first)
			}
			b.Append(first...)
			if again := Fail(b.State(), a, f, noon); len(again) != 0 {
				t.Errorf("%s: said again: %v", effect, again)
			}
		}
	})
	t.Run("SAFE-7 a lost once call is recorded as unknown and remembered", func(t *testing.T) {
		t.Parallel()
		b := allowed(Once, events.Retry{})
		b.Append(runtest.CallBegun(theCall, 1))
		duty := Next(b.State(), "c1-1", noon, Lease{})
		b.Append(Lost(b.State(), duty)...)
		s := b.State()
		if rec := s.ToolCallHistory.At(0); rec.Code != events.OutcomeUnknown || len(s.Unknown) != 1 {
			t.Errorf("%+v %v", rec, s.Unknown)
		}
		if again := Lost(s, duty); len(again) != 0 {
			t.Errorf("said again: %v", again)
		}
	})
	t.Run("TOOL-2 PROP-7 OBS-19 a result has name, arguments, duration above zero and retry count", func(t *testing.T) {
		t.Parallel()
		b := allowed(Once, events.Retry{})
		b.Append(runtest.CallBegun(theCall, 1))
		b.Append(Finish(b.State(), attempt(b), Result{Output: "ok", Success: true, Took: 0})...)
		s := b.State()
		rec := s.ToolCallHistory.At(0)
		if rec.CallName != "bash" || string(rec.Arguments) != `{"command":"make"}` || rec.DurationMS <= 0 || rec.RetryCount != 0 || rec.Timestamp.IsZero() {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("TEST-3c TOOL-5 TOOL-6 permanent failures and timeouts are final", func(t *testing.T) {
		t.Parallel()
		for _, class := range []string{"permanent", "timeout", "denied", "invalid"} {
			b := allowed(Once, events.Retry{})
			b.Append(runtest.CallBegun(theCall, 1))
			say := Fail(b.State(), attempt(b), Failure{Class: class, Error: "no"}, noon)
			if len(say) != 1 || say[0].Kind() != events.CallFailed {
				t.Errorf("%s: %v", class, say)
			}
		}
	})
}
