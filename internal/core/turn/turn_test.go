package turn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func started(maxSteps int) *runtest.Builder {
	b := runtest.New("main", "r1")
	c := runtest.Created()
	c.Options.MaxSteps = maxSteps
	b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	return b
}

func owed(t *testing.T, b *runtest.Builder) Task {
	t.Helper()
	d := Next(b.State(), "a", noon)
	if d.Ask == nil {
		t.Fatalf("no turn is owed: %+v", d)
	}
	return *d.Ask
}

func calls(n int, tool, input string) events.TurnFinishedData {
	d := events.TurnFinishedData{FinishReason: events.FinishToolUse, InputTokens: 10, OutputTokens: 5}
	for i := range n {
		d.Calls = append(d.Calls, events.RequestedCall{ProviderID: fmt.Sprint("p", i), Tool: tool, Input: []byte(input)})
	}
	return d
}

// finishCalls lets every open call end.
func finishCalls(b *runtest.Builder) {
	for id, c := range b.State().Open {
		ref := runtest.Ref("a", id, c.Tool)
		b.Append(runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "ok"))
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	t.Run("MSG-4 SAFE-7 an answer to a prompt without mail that the turn was given meanwhile does not count: it is asked for again with it", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.WokenCreated(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		without := owed(t, b)
		b.Append(runtest.Mail("a", "m1"))
		a := Answer{Data: events.TurnFinishedData{Text: "done", FinishReason: events.FinishDone}}
		if say := Finish(b.State(), without, a); len(say) > 0 {
			t.Errorf("it counts: %v", say)
		}
		if say := Finish(b.State(), owed(t, b), a); len(say) != 2 {
			t.Errorf("with the mail: %v", say)
		}
	})
	t.Run("LOOP-3 PLAN-11 a final answer ends the step explicitly; a crash between the two events is completed", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		say := Finish(b.State(), owed(t, b), Answer{Data: events.TurnFinishedData{Text: "done", FinishReason: events.FinishDone}})
		if len(say) != 2 {
			t.Fatalf("%v", say)
		}
		b.Append(say[0])
		rest := Next(b.State(), "a", noon).Append
		if len(rest) != 1 || rest[0].(*events.StepFinishedData).Output != "done" {
			t.Fatalf("%v", rest)
		}
	})
	t.Run("PLAN-11 where another event came between the two, the same decision made again ends the step", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		task := owed(t, b)
		answer := Answer{Data: events.TurnFinishedData{Text: "done", FinishReason: events.FinishDone}}
		b.Append(Finish(b.State(), task, answer)[0])
		rest := Finish(b.State(), task, answer)
		if len(rest) != 1 || rest[0].(*events.StepFinishedData).Output != "done" {
			t.Fatalf("%v", rest)
		}
	})
	t.Run("PLAN-11 LOOP-4 a step that is completed later ends with its own text and for its own reason", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"), runtest.Ready("b"),
			runtest.Allowed("a"), runtest.Allowed("b"))
		cut := Finish(b.State(), owed(t, b), Answer{Data: events.TurnFinishedData{Text: "half", FinishReason: events.FinishLength}})
		b.Append(cut[0])
		other := *Next(b.State(), "b", noon).Ask
		b.Append(Finish(b.State(), other, Answer{Data: events.TurnFinishedData{Text: "of b", FinishReason: events.FinishDone}})...)
		rest := Next(b.State(), "a", noon).Append
		if d, ok := rest[0].(*events.StepFailedData); !ok || d.FinishReason != events.FinishLength {
			t.Errorf("a answer that was cut off ends its step as %+v", rest[0])
		}
		c := runtest.New("main", "r1")
		c.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"), runtest.Ready("b"),
			runtest.Allowed("a"), runtest.Allowed("b"))
		c.Append(Finish(c.State(), owed(t, c), Answer{Data: events.TurnFinishedData{Text: "of a", FinishReason: events.FinishDone}})[0])
		c.Append(Finish(c.State(), *Next(c.State(), "b", noon).Ask, Answer{Data: events.TurnFinishedData{Text: "of b", FinishReason: events.FinishDone}})...)
		if d := Next(c.State(), "a", noon).Append[0].(*events.StepFinishedData); d.Output != "of a" {
			t.Errorf("step a ends with the text %q", d.Output)
		}
	})
	t.Run("law 1: a turn that is finished is not finished again", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		task := owed(t, b)
		b.Append(Finish(b.State(), task, Answer{Data: calls(2, "read", `{"path":"x"}`)})...)
		if again := Finish(b.State(), task, Answer{Data: calls(2, "read", `{"path":"x"}`)}); len(again) != 0 {
			t.Errorf("%v", again)
		}
		s := b.State()
		if len(s.Open) != 2 || s.Open["c1-1"] == nil || s.Open["c1-2"] == nil {
			t.Errorf("open calls: %v", s.Open)
		}
		if d := Next(s, "a", noon); d.Ask != nil {
			t.Errorf("a turn is owed while calls are open: %+v", d)
		}
		finishCalls(b)
		if got := owed(t, b); got.Number != 2 {
			t.Errorf("turn %d is owed, want 2", got.Number)
		}
	})
	t.Run("LOOP-13 OBS-7 tokens add up over the turns", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		for range 3 {
			b.Append(Finish(b.State(), owed(t, b), Answer{Data: calls(1, "read", fmt.Sprintf(`{"path":"%d"}`, len(b.Events())))})...)
			finishCalls(b)
		}
		s := b.State()
		if s.Tokens.Total() != 45 || s.Turns().Len() != 3 {
			t.Errorf("%+v, %d turns", s.Tokens, s.Turns().Len())
		}
	})
	t.Run("a paused run is owed nothing until it resumes", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		b.Append(runtest.Paused("wait"))
		if d := Next(b.State(), "a", noon); d.Ask != nil || len(d.Append) != 0 {
			t.Errorf("%+v", d)
		}
		b.Append(runtest.Resumed())
		owed(t, b)
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-4bdg each cause of an end has its own finish reason", func(t *testing.T) {
		t.Parallel()
		reasons := map[string]bool{}
		end := func(b *runtest.Builder, say []events.Payload, want string) {
			t.Helper()
			last, ok := say[len(say)-1].(*events.StepFailedData)
			if !ok || last.FinishReason != want || last.Error == "" {
				t.Errorf("%v, want %s", say, want)
				return
			}
			b.Append(say...)
			reasons[want] = true
		}
		steps := started(2)
		for range 2 {
			steps.Append(Finish(steps.State(), owed(t, steps), Answer{Data: calls(1, "read", fmt.Sprintf(`{"path":"%d"}`, len(steps.Events())))})...)
			finishCalls(steps)
		}
		end(steps, Next(steps.State(), "a", noon).Append, events.FinishMaxSteps)

		doom := started(50)
		for range 5 {
			doom.Append(Finish(doom.State(), owed(t, doom), Answer{Data: calls(1, "read", `{"path":"same"}`)})...)
			finishCalls(doom)
		}
		end(doom, Next(doom.State(), "a", noon).Append, events.FinishDoomLoop)

		for _, why := range []string{events.FinishLength, events.FinishRefusal} {
			b := started(50)
			end(b, Finish(b.State(), owed(t, b), Answer{Data: events.TurnFinishedData{FinishReason: why}}), why)
		}
		bad := started(50)
		end(bad, Fail(bad.State(), owed(t, bad), Failure{Error: "key", Class: "auth"}, noon), events.FinishError)
		if len(reasons) != 5 {
			t.Errorf("reasons seen: %v", reasons)
		}
	})
	t.Run("PLUS-7 a request that may pass is made again later, each delay at least twice the one before, then the step fails", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		now, last := noon, time.Duration(0)
		for attempt := 1; ; attempt++ {
			d := Next(b.State(), "a", now)
			if !d.Wait.IsZero() {
				now = d.Wait
				d = Next(b.State(), "a", now)
			}
			if d.Ask.Attempt != attempt {
				t.Fatalf("attempt %d, want %d", d.Ask.Attempt, attempt)
			}
			say := Fail(b.State(), *d.Ask, Failure{Error: "busy", Class: "transient", Retryable: true}, now)
			b.Append(say...)
			if again := Fail(b.State(), *d.Ask, Failure{Error: "busy", Retryable: true}, now); len(again) != 0 {
				t.Fatalf("the same failure counted twice: %v", again)
			}
			deferred, ok := say[0].(*events.TurnDeferredData)
			if !ok {
				if attempt != MaxAttempts {
					t.Fatalf("gave up after %d attempts: %v", attempt, say)
				}
				return
			}
			delay := time.Duration(deferred.DelayMS) * time.Millisecond
			if delay < 2*last {
				t.Fatalf("delay %s after %s", delay, last)
			}
			last = delay
		}
	})
	t.Run("PLUS-7 a longer wait that the provider asks for is kept", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		say := Fail(b.State(), owed(t, b), Failure{Error: "slow down", Retryable: true, RetryAfter: 17 * time.Second}, noon)
		if got := say[0].(*events.TurnDeferredData).NotBefore; !got.Equal(noon.Add(17 * time.Second)) {
			t.Errorf("again at %s", got)
		}
	})
}

func TestHeld(t *testing.T) {
	t.Parallel()
	said := func(answer string) []events.HookAnswer {
		return []events.HookAnswer{{Hook: "station:h", On: events.OnTurn, Answer: answer, Message: "because"}}
	}
	owed := func(t *testing.T) (*runtest.Builder, Task) {
		t.Helper()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"), runtest.Allowed("a"), runtest.Ready("b"), runtest.Allowed("b"))
		return b, *Next(b.State(), "a", noon).Ask
	}
	t.Run("GUARD-2 law 1: a hook holds a turn back until the run was paused and resumed, then it is owed without asking again", func(t *testing.T) {
		t.Parallel()
		b, task := owed(t)
		say, held := Held(b.State(), task, said(events.HookInterrupt), noon)
		if !held || len(say) != 1 || say[0].(*events.TurnDeferredData).Class != events.ClassInterrupted {
			t.Fatalf("%+v", say)
		}
		b.Append(say...)
		if again, _ := Held(b.State(), task, said(events.HookInterrupt), noon); len(again) != 0 {
			t.Errorf("said again: %v", again)
		}
		for _, step := range []string{"a", "b"} {
			if d := Next(b.State(), step, noon); d.Ask != nil || len(d.Append) != 0 || !d.Wait.IsZero() {
				t.Errorf("step %s before the pause: %+v", step, d)
			}
		}
		b.Append(runtest.Paused("hook"), runtest.Resumed())
		if d := Next(b.State(), "a", noon); d.Ask == nil || !d.Ask.Step.Passed || d.Ask.Attempt != 1 {
			t.Errorf("after the resume: %+v", d.Ask)
		}
		if d := Next(b.State(), "b", noon); d.Ask == nil || d.Ask.Step.Passed {
			t.Errorf("the other step: %+v", d.Ask)
		}
	})
	t.Run("GUARD-2 a block fails the step with its reason, continue says nothing", func(t *testing.T) {
		t.Parallel()
		b, task := owed(t)
		if say, held := Held(b.State(), task, said(events.HookContinue), noon); held || say != nil {
			t.Errorf("%v", say)
		}
		for _, answer := range []string{events.HookBlock, ""} {
			say, held := Held(b.State(), task, said(answer), noon)
			if f, ok := say[0].(*events.StepFailedData); !held || !ok || f.FinishReason != events.FinishHook || !strings.Contains(f.Error, "because") || len(f.Hooks) != 1 {
				t.Errorf("%+v", say)
			}
		}
	})
	t.Run("GUARD-3 law 1: what a hook said after a call is told once, by the step that is owed a turn", func(t *testing.T) {
		t.Parallel()
		b, _ := owed(t)
		b.Append(runtest.Turn(1, "a", "calls", runtest.Asked(1, 1, "read", `{}`)))
		ref := runtest.Ref("a", "c1-1", "read")
		done := runtest.CallDone(ref, 0, "out")
		done.Hooks = said(events.HookInterrupt)
		b.Append(runtest.CallYes(ref, "read"), done)
		d := Next(b.State(), "a", noon)
		if len(d.Append) != 1 || d.Append[0].Kind() != events.TurnDeferred {
			t.Fatalf("%+v", d)
		}
		b.Append(d.Append...)
		if d := Next(b.State(), "a", noon); len(d.Append) != 0 || d.Ask != nil {
			t.Errorf("told again: %+v", d)
		}
		b.Append(runtest.Paused("hook"), runtest.Resumed())
		if d := Next(b.State(), "a", noon); d.Ask == nil || d.Ask.Step.Passed {
			t.Errorf("the turn itself was not asked about yet: %+v", d.Ask)
		}
	})
}
