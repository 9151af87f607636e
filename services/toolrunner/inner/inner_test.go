package inner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/runlog/runlogtest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

const runID = "r1"

// bed is a recorder over ports in memory, with a run whose call c2-1 is carried out by a program.
type bed struct {
	runlogtest.Log
	recorder *Recorder
}

// driven is a bed, and what records the work of its program.
func driven(t *testing.T) (*bed, tool.Inner) {
	t.Helper()
	b := &bed{Log: runlogtest.New(t, runID)}
	blobs := b.Station.Blobs()
	b.recorder = New(b.Ledger(events.Toolrunner), blobs,
		capture.Results{Blobs: blobs, Mask: secret.Mask(secret.New("open sesame")), Instance: "t1"})
	first, ref := runtest.Ref("a", "c1-1", "bash"), runtest.Ref("a", "c2-1", events.ToolRuntime)
	b.Say(events.Planner, runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
	b.Say(events.Gatekeeper, runtest.Allowed("a"))
	b.Say(events.Executor, runtest.Turn(1, "a", "one call", runtest.Asked(1, 1, "bash", `{}`)))
	b.Say(events.Gatekeeper, runtest.CallYes(first, call.Once))
	b.Say(events.Toolrunner, runtest.CallBegun(first, 1))
	b.Say(events.Toolrunner, runtest.CallDone(first, b.State().Open["c1-1"].Fence, "ok"))
	b.Say(events.Executor, runtest.Turn(2, "a", "a program works", runtest.Asked(2, 1, events.ToolRuntime, `{"prompt":"work"}`)))
	b.Say(events.Gatekeeper, runtest.CallYes(ref, call.Reconcilable))
	b.Say(events.Toolrunner, runtest.CallBegun(ref, 1))
	return b, b.insideOf()
}

// insideOf records the work of the current attempt of c2-1.
func (b *bed) insideOf() tool.Inner {
	b.Helper()
	c := *b.State().Open["c2-1"]
	return b.recorder.Of(runID, call.Attempt{Call: c, Number: c.Attempt, Fence: c.Fence, Sandbox: "host"})
}

// asked is what a program was answered.
type asked struct {
	tool.InnerVerdict
	err error
}

// ask has the program ask, and returns once that is in the log.
func (b *bed) ask(ctx context.Context, in tool.Inner, id string) <-chan asked {
	b.Helper()
	answer := make(chan asked, 1) // it is read once
	go func() {
		v, err := in.Ask(ctx, tool.InnerCall{Tool: "bash", Program: "tool-1", Input: []byte(`{"command":"make"}`)})
		answer <- asked{v, err}
	}()
	for b.State().Open[id] == nil {
		select {
		case a := <-answer:
			b.Fatalf("answered before it was asked: %+v", a)
		case <-time.After(time.Millisecond):
		}
	}
	return answer
}

func TestInner(t *testing.T) {
	t.Parallel()
	yes := runtest.InnerRef("a", "c2-1-1", "bash", "c2-1")
	t.Run("PLUS-12a SAFE-1 a program is answered after its call was permitted and begun, and what it says is recorded", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		if _, begun := in.Earlier(); begun {
			t.Error("it has begun")
		}
		if err := in.Begin(t.Context(), "session \x1b"); err != nil {
			t.Fatal(err)
		}
		if session, begun := b.insideOf().Earlier(); !begun || session != "session <U+001B>" {
			t.Errorf("%q, %v", session, begun)
		}
		answer := b.ask(t.Context(), in, yes.Call)
		select {
		case a := <-answer:
			t.Fatalf("answered without a verdict: %+v", a)
		default:
		}
		b.Say(events.Gatekeeper, runtest.CallYes(yes, call.Once))
		b.recorder.Verdict(runID)
		a := <-answer
		c := b.State().Open[yes.Call]
		if a.err != nil || !a.Allowed || a.ID != yes.Call || c == nil || c.Phase != run.CallStarted || c.Parent != "c2-1" {
			t.Fatalf("%+v, %+v", a, c)
		}
		if err := in.Done(t.Context(), a.ID, tool.Result{Output: "open sesame", Failed: true}); err != nil {
			t.Fatal(err)
		}
		s := b.State()
		if r := s.ToolCallHistory.At(1); r.ID != yes.Call || r.Result != "***" || r.Success || r.Parent != "c2-1" {
			t.Errorf("%+v", r)
		}
		if err := in.Done(t.Context(), a.ID, tool.Result{Output: "again"}); err != nil || b.State().Sequence != s.Sequence {
			t.Errorf("what was said twice was recorded twice: %v", err)
		}
	})
	t.Run("PLUS-12a SAFE-1 a refused call is answered with the reason, and never as allowed", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		if err := in.Begin(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		answer := b.ask(t.Context(), in, yes.Call)
		b.Say(events.Gatekeeper, runtest.CallNo(yes))
		if a := <-answer; a.err != nil || a.Allowed || a.Reason == "" { // no one told of it: the log was asked
			t.Errorf("%+v", a)
		}
	})
	t.Run("PLUS-12a what a program asked for is never carried out by a toolrunner", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		if err := in.Begin(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		b.Say(events.Toolrunner, runtest.Requested(b.State().Open["c2-1"], "bash", `{}`))
		for _, next := range []events.Payload{runtest.CallYes(yes, call.Idempotent), runtest.CallBegun(yes, 1)} {
			by := events.Toolrunner
			if next.Kind() == events.CallAllowed {
				by = events.Gatekeeper
			}
			b.Say(by, next)
			if d := call.Next(b.State(), yes.Call, time.Now(), call.Lease{}); d.Kind != call.Nothing {
				t.Errorf("after %s: %+v", next.Kind(), d)
			}
		}
	})
	t.Run("PLUS-12a before the program was given its work nothing that it asks is taken", func(t *testing.T) {
		t.Parallel()
		_, in := driven(t)
		if v, err := in.Ask(t.Context(), tool.InnerCall{Tool: "bash", Input: []byte(`{}`)}); err == nil || v.Allowed {
			t.Errorf("%+v, %v", v, err)
		}
	})
	t.Run("SAFE-8 PLUS-12c an attempt that is not the current one any more begins nothing", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		if err := in.Begin(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		answer := b.ask(t.Context(), in, yes.Call)
		duty := call.Next(b.State(), "c2-1", time.Now(), call.Lease{})
		if duty.Kind != call.Verify || call.Next(b.State(), yes.Call, time.Now(), call.Lease{}).Kind != call.Nothing {
			t.Fatalf("%+v", duty)
		}
		b.Say(events.Toolrunner, call.Start(b.State(), duty, "t2", "host", "")...)
		b.recorder.Verdict(runID)
		if a := <-answer; a.Allowed {
			t.Errorf("%+v", a)
		}
		s := b.State()
		if r := s.ToolCallHistory.At(1); r.ID != yes.Call || r.Code != "permanent" || s.Open["c2-1"].Attempt != 2 {
			t.Errorf("%+v", r)
		}
		if err := in.Begin(t.Context(), "other"); !errors.Is(err, errOutdated) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-7 PLUS-12c what had begun when its program was lost is unknown, and asked about when it comes again", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		if err := in.Begin(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		answer := b.ask(t.Context(), in, yes.Call)
		b.Say(events.Gatekeeper, runtest.CallYes(yes, call.Once))
		b.recorder.Verdict(runID)
		if a := <-answer; !a.Allowed {
			t.Fatalf("%+v", a)
		}
		duty := call.Next(b.State(), "c2-1", time.Now(), call.Lease{})
		duty.Why = "it resumes none"
		b.Say(events.Toolrunner, call.Lost(b.State(), duty)...)
		s := b.State()
		if r := s.ToolCallHistory.At(1); r.ID != yes.Call || r.Code != events.OutcomeUnknown || len(s.Unknown) != 2 || len(s.Open) != 0 ||
			!strings.HasPrefix(s.Unknown[0], "bash:") || !strings.Contains(s.ToolCallHistory.At(2).Result, "it resumes none") {
			t.Errorf("%+v, %q", r, s.Unknown)
		}
	})
	t.Run("SAFE-7 PLUS-12c what had begun when its program ended is unknown before it is started again, also where that is recorded twice", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		if err := in.Again(t.Context()); err != nil { // before it began anything
			t.Fatal(err)
		}
		if err := in.Begin(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		answer := b.ask(t.Context(), in, yes.Call)
		b.Say(events.Gatekeeper, runtest.CallYes(yes, call.Once))
		b.recorder.Verdict(runID)
		a := <-answer
		b.Say(events.Toolrunner, runtest.Requested(b.State().Open["c2-1"], "bash", `{}`)) // which waits for its verdict
		if err := in.Again(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := b.State()
		if began, waited := s.ToolCallHistory.At(1), s.ToolCallHistory.At(2); began.Code != events.OutcomeUnknown || waited.Code == events.OutcomeUnknown ||
			len(s.Unknown) != 1 || len(s.Open) != 1 || s.Open["c2-1"] == nil {
			t.Errorf("%+v, %+v, %q, %d are open", began, waited, s.Unknown, len(s.Open))
		}
		if err := in.Again(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := in.Done(t.Context(), a.ID, tool.Result{Output: "late"}); err != nil || b.State().Sequence != s.Sequence {
			t.Errorf("a second time was recorded, or what the program said late: %v", err)
		}
		next := b.ask(t.Context(), in, "c2-1-3")
		b.Say(events.Gatekeeper, runtest.CallNo(runtest.InnerRef("a", "c2-1-3", "bash", "c2-1")))
		if a := <-next; a.err != nil || a.Allowed {
			t.Errorf("%+v", a)
		}
	})
	t.Run("PLUS-12c SAFE-1 SAFE-8 what a session is gone on with by is stored without secrets, named, and given to the next attempt", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		files := func(text string) []tool.InnerFile { return []tool.InnerFile{{Path: ".p/s.jsonl", Data: []byte(text)}} }
		if err := in.Keep(t.Context(), files("too early")); err != nil || b.State().Open["c2-1"].Program != nil {
			t.Errorf("%v, %+v", err, b.State().Open["c2-1"].Program)
		}
		if err := in.Begin(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", "two open sesame", "two open sesame"} {
			if err := in.Keep(t.Context(), files(text)); err != nil {
				t.Fatal(err)
			}
		}
		before := b.State().Sequence
		if _, err := b.Station.Blobs().Put(t.Context(), "transcript", []byte("half: stored, and in no event")); err != nil {
			t.Fatal(err)
		}
		b.Say(events.Toolrunner, call.Start(b.State(), call.Next(b.State(), "c2-1", time.Now(), call.Lease{}), "t2", "host", "")...)
		got, err := b.insideOf().Kept(t.Context())
		if err != nil || len(got) != 1 || got[0].Path != ".p/s.jsonl" || string(got[0].Data) != "two ***" {
			t.Errorf("%+v, %v", got, err)
		}
		if err := in.Keep(t.Context(), files("late")); !errors.Is(err, errOutdated) || b.State().Sequence != before+1 {
			t.Errorf("%v, %d events more", err, b.State().Sequence-before)
		}
	})
	t.Run("PLUS-12a a program that asks for more than may be open is refused the rest", func(t *testing.T) {
		t.Parallel()
		b, in := driven(t)
		if err := in.Begin(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		for range run.MaxInner {
			b.Say(events.Toolrunner, runtest.Requested(b.State().Open["c2-1"], "bash", `{}`))
		}
		if v, err := in.Ask(t.Context(), tool.InnerCall{Tool: "bash", Input: []byte(`{}`)}); err != nil || v.Allowed || v.Reason == "" {
			t.Errorf("%+v, %v", v, err)
		}
	})
}
