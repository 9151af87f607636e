package turn

import (
	"fmt"
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
	b.Say(c, runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	return b
}

// sideBySide is a run with two steps that both owe a turn.
func sideBySide() *runtest.Builder {
	b := runtest.New("main", "r1")
	b.Say(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b")), runtest.Ready("a"), runtest.Ready("b"),
		runtest.Allowed("a"), runtest.Allowed("b"))
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
		b.Say(runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "ok"))
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-3 PLAN-11 a final answer ends the step explicitly; a crash between the two facts is completed", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		say := Finish(b.State(), owed(t, b), Answer{Data: events.TurnFinishedData{Text: "done", FinishReason: events.FinishDone}, Text: "done"})
		if len(say) != 2 {
			t.Fatalf("%v", say)
		}
		b.Say(say[0])
		rest := Next(b.State(), "a", noon).Say
		if len(rest) != 1 || rest[0].(*events.StepFinishedData).Output != "done" {
			t.Fatalf("%v", rest)
		}
	})
	t.Run("PERS-15 law 2: another step is faster between the two facts, and the decision made again ends the step", func(t *testing.T) {
		t.Parallel()
		for reason, want := range map[string]events.Kind{events.FinishDone: events.StepFinished, events.FinishLength: events.StepFailed, events.FinishRefusal: events.StepFailed} {
			b := sideBySide()
			task, answer := owed(t, b), Answer{Data: events.TurnFinishedData{Text: "mine", FinishReason: reason}, Text: "mine"}
			b.Say(Finish(b.State(), task, answer)[0])
			other := Next(b.State(), "b", noon)
			b.Say(Finish(b.State(), *other.Ask, Answer{Data: events.TurnFinishedData{Text: "theirs", FinishReason: events.FinishDone}, Text: "theirs"})...)
			for who, rest := range map[string][]events.Payload{"who wrote the turn": Finish(b.State(), task, answer), "who looks next": Next(b.State(), "a", noon).Say} {
				if len(rest) != 1 || rest[0].Kind() != want {
					t.Fatalf("%s, %s: %v, want %s", reason, who, rest, want)
				}
				if f, ok := rest[0].(*events.StepFinishedData); ok && (f.Output != "mine" || f.FinishReason != reason || f.Turns != 1) {
					t.Errorf("%s: %+v", who, f)
				}
			}
			b.Say(Finish(b.State(), task, answer)...)
			if again := Finish(b.State(), task, answer); len(again) != 0 {
				t.Errorf("said twice: %v", again)
			}
		}
	})
	t.Run("law 1: a turn that is finished is not finished again", func(t *testing.T) {
		t.Parallel()
		b := started(50)
		task := owed(t, b)
		b.Say(Finish(b.State(), task, Answer{Data: calls(2, "read", `{"path":"x"}`)})...)
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
			b.Say(Finish(b.State(), owed(t, b), Answer{Data: calls(1, "read", fmt.Sprintf(`{"path":"%d"}`, len(b.Facts())))})...)
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
		b.Say(runtest.Paused("wait"))
		if d := Next(b.State(), "a", noon); d.Ask != nil || len(d.Say) != 0 {
			t.Errorf("%+v", d)
		}
		b.Say(runtest.Resumed())
		owed(t, b)
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-4 each cause of an end has its own finish reason", func(t *testing.T) {
		t.Parallel()
		reasons := map[string]bool{}
		end := func(b *runtest.Builder, say []events.Payload, want string) {
			t.Helper()
			last, ok := say[len(say)-1].(*events.StepFailedData)
			if !ok || last.FinishReason != want || last.Error == "" {
				t.Errorf("%v, want %s", say, want)
				return
			}
			b.Say(say...)
			reasons[want] = true
		}
		steps := started(2)
		for range 2 {
			steps.Say(Finish(steps.State(), owed(t, steps), Answer{Data: calls(1, "read", fmt.Sprintf(`{"path":"%d"}`, len(steps.Facts())))})...)
			finishCalls(steps)
		}
		end(steps, Next(steps.State(), "a", noon).Say, events.FinishMaxSteps)

		doom := started(50)
		for range DoomLoop {
			doom.Say(Finish(doom.State(), owed(t, doom), Answer{Data: calls(1, "read", `{"path":"same"}`)})...)
			finishCalls(doom)
		}
		end(doom, Next(doom.State(), "a", noon).Say, events.FinishDoomLoop)

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
			b.Say(say...)
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
