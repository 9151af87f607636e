package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func running(steps ...*run.Step) run.State {
	return run.State{Status: events.Running, Plan: &run.Plan{Steps: steps}}
}

func whole(id string, parts int, f events.StepFlow) *run.Step {
	return &run.Step{ID: id, Status: events.StepIsRunning, StepCourse: run.StepCourse{Flow: &f, Parts: parts, Listed: f.Each != nil && f.Each.Over != ""}}
}

func part(of string, n int, status events.StepStatus) *run.Step {
	return &run.Step{ID: events.PartID(of, n), Status: status, Output: fmt.Sprintf(`{"n":%d}`, n),
		StepCourse: run.StepCourse{Part: &events.StepPart{Of: of, Number: n}}}
}

// said is what the plan decides, in short.
func said(say []events.Payload) string {
	var all []string
	for _, p := range say {
		switch d := p.(type) {
		case *events.StepReadyData:
			all = append(all, "ready "+d.Step)
		case *events.StepExpandedData:
			all = append(all, fmt.Sprintf("expanded %s %d+%d", d.Step, d.From, d.Count))
		case *events.StepSettledData:
			all = append(all, fmt.Sprintf("%s %s", d.Status, d.Step))
		default:
			all = append(all, string(p.Kind()))
		}
	}
	return strings.Join(all, ", ")
}

func TestNext(t *testing.T) {
	t.Parallel()
	retry := events.StepFlow{Retry: &events.StepRetry{Attempts: 2, BackoffMS: 1000, Factor: 2}}
	failedFor := func(n int, reason string) *run.Step {
		p := part("a", n, events.StepIsFailed)
		p.Reason = reason
		return p
	}
	each := func(need, parallel int) events.StepFlow {
		return events.StepFlow{Each: &events.StepEach{Over: "[1, 2, 3]", Need: need, Parallel: parallel}}
	}
	wait := whole("w", 0, events.StepFlow{Kind: events.ControlWait, WaitMS: 1000})
	wait.BeganAt = noon
	late := part("a", 2, events.StepIsPending)
	late.Part.NotBefore = noon.Add(time.Second)
	for _, c := range []struct {
		what string
		s    run.State
		want string
	}{
		{"FORM-1 an attempt that failed for a while is followed by another one", running(whole("a", 1, retry), failedFor(1, events.FinishTimeout)), "expanded a 2+1"},
		{"FORM-1 an attempt that failed for good is the last", running(whole("a", 1, retry), failedFor(1, events.FinishRefusal)), "failed a"},
		{"FORM-1 there are no more attempts than the plan has", running(whole("a", 2, retry), failedFor(1, events.FinishTimeout), failedFor(2, events.FinishTimeout)), "failed a"},
		{"FORM-1 an attempt does not begin before its time", running(whole("a", 2, retry), failedFor(1, events.FinishTimeout), late), ""},
		{"FORM-10 not more parts begin than may be under way", running(whole("e", 3, each(0, 1)), part("e", 1, events.StepIsRunning), part("e", 2, events.StepIsPending), part("e", 3, events.StepIsPending)), ""},
		{"FORM-10 the next part begins when there is room", running(whole("e", 3, each(0, 1)), part("e", 1, events.StepIsCompleted), part("e", 2, events.StepIsPending), part("e", 3, events.StepIsPending)), "ready e-2"},
		{"FORM-10 a join of one has enough with one", running(whole("e", 3, each(1, 1)), part("e", 1, events.StepIsCompleted), part("e", 2, events.StepIsPending), part("e", 3, events.StepIsPending)), "skipped e-2, skipped e-3"},
		{"FORM-10 a join of all has not enough with two", running(whole("e", 3, each(0, 0)), part("e", 1, events.StepIsCompleted), part("e", 2, events.StepIsCompleted), part("e", 3, events.StepIsRunning)), ""},
		{"FORM-10 a list ends when all its parts have", running(whole("e", 2, each(0, 0)), part("e", 1, events.StepIsCompleted), part("e", 2, events.StepIsCompleted)), "completed e"},
		{"a wait goes on until its time has passed", running(wait), ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if got := said(Next(c.s, noon)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("a plan wakes for the next attempt and for the end of a wait", func(t *testing.T) {
		t.Parallel()
		s := running(whole("a", 2, retry), failedFor(1, events.FinishTimeout), late)
		if at, ok := Wake(s); !ok || !at.Equal(noon.Add(time.Second)) || said(Next(s, at)) != "ready a-2" {
			t.Errorf("%s %v: %s", at, ok, said(Next(s, at)))
		}
		if at, ok := Wake(running(wait)); !ok || said(Next(running(wait), at)) != "completed w" {
			t.Errorf("%s %v", at, ok)
		}
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	when := &run.Step{ID: "a", Status: events.StepIsPending, StepCourse: run.StepCourse{Flow: &events.StepFlow{When: "vars.x"}}}
	loop := func(rounds int) run.State {
		return running(whole("l", rounds, events.StepFlow{Each: &events.StepEach{Until: "last.n > 1", Most: 2}}), part("l", rounds, events.StepIsCompleted))
	}
	answer := func(s run.State, v any) string {
		q := Questions(s)
		if len(q) != 1 {
			return fmt.Sprintf("%d questions", len(q))
		}
		a := Answer{Question: q[0], Value: v}
		if v == nil {
			a.Skip = true
		}
		return said(Answered(s, []Answer{a}, noon))
	}
	for _, c := range []struct {
		what, got, want string
	}{
		{"FORM-1 a step whose condition is false is skipped", answer(running(when), nil), "skipped a"},
		{"FORM-1 a step whose condition holds is ready", answer(running(when), true), "ready a"},
		{"PLAN-15a a loop that does not end goes round again", answer(loop(1), false), "expanded l 2+1"},
		{"PLAN-15a a loop ends where its condition holds", answer(loop(1), true), "completed l"},
		{"PLAN-15a a loop ends at its bound", answer(loop(2), false), "failed l"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if c.got != c.want {
				t.Errorf("got %q, want %q", c.got, c.want)
			}
		})
	}
	t.Run("PLAN-15a an answer about an earlier round says nothing", func(t *testing.T) {
		t.Parallel()
		old := Answer{Question: Questions(loop(1))[0], Value: true}
		if got := said(Answered(loop(2), []Answer{old}, noon)); got != "" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("the outputs of parts are a list of documents", func(t *testing.T) {
		t.Parallel()
		if got := joined([]*run.Step{part("e", 1, events.StepIsCompleted), part("e", 2, events.StepIsFailed)}); !json.Valid([]byte(got)) || got != `[{"n":1},null]` {
			t.Errorf("got %s", got)
		}
	})
}

func stepOf(b *runtest.Builder, id string) *run.Step {
	s := b.State()
	return s.Step(id)
}

// TestFlowFold holds what the log refuses of a control flow, whoever asks for it.
func TestFlowFold(t *testing.T) {
	t.Parallel()
	begun := func() *runtest.Builder {
		first, tries, cond := runtest.Step("first"), runtest.Step("tries", "first"), runtest.Step("cond", "first")
		tries.Flow = &events.StepFlow{Retry: &events.StepRetry{Attempts: 2}}
		cond.Flow = &events.StepFlow{When: "steps.first.output == 'yes'"}
		b := runtest.New("demo", "r")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(first, tries, cond))
		return b
	}
	after := func(b *runtest.Builder) *runtest.Builder {
		b.Append(runtest.Ready("first"), runtest.Allowed("first"), runtest.Turn(1, "first", "no"), runtest.StepDone("first", "no"))
		return b
	}
	tries := func(b *runtest.Builder) *events.StepExpandedData { return runtest.Expanded(stepOf(b, "tries")) }
	for _, c := range []struct {
		what string
		p    func(b *runtest.Builder) events.Payload
	}{
		{"FORM-1 a step is not ready without its condition", func(b *runtest.Builder) events.Payload { return runtest.Ready(stepOf(after(b), "cond").ID) }},
		{"FORM-1 a step is not skipped for another condition", func(b *runtest.Builder) events.Payload {
			after(b)
			return &events.StepSettledData{Event: "step_settled", Step: "cond", Status: events.StepIsSkipped, When: "False"}
		}},
		{"FORM-1 no attempt begins before what the step needs", func(b *runtest.Builder) events.Payload { return tries(b) }},
		{"FORM-1 no attempt is made twice", func(b *runtest.Builder) events.Payload {
			d := tries(after(b))
			b.Append(d)
			return d
		}},
		{"FORM-1 no attempt begins before the one before it has ended", func(b *runtest.Builder) events.Payload {
			b.Append(tries(after(b)))
			return tries(b)
		}},
		{"FORM-1 a step does not end before its attempts", func(b *runtest.Builder) events.Payload {
			b.Append(tries(after(b)))
			return runtest.Settled(stepOf(b, "tries"), events.StepIsFailed)
		}},
		{"FORM-1 what an agent is to do is not completed by its plan", func(b *runtest.Builder) events.Payload {
			after(b)
			d := runtest.Settled(stepOf(b, "cond"), events.StepIsCompleted)
			d.When = stepOf(b, "cond").Flow.When
			return d
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			b := begun()
			p := c.p(b)
			if _, err := b.Try(p); err == nil {
				t.Errorf("the log takes %+v", p)
			}
		})
	}
}

func TestSignalled(t *testing.T) {
	t.Parallel()
	held := func(from ...events.Payload) *runtest.Builder {
		hold, next := runtest.Step("hold"), runtest.Step("next", "hold")
		hold.Flow = &events.StepFlow{Kind: events.ControlWait, Signal: "go"}
		next.Flow = hold.Flow
		b := runtest.New("demo", "r")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(hold, next))
		b.Append(from...)
		return b
	}
	waiting := func() *runtest.Builder { return held(runtest.Ready("hold"), runtest.Allowed("hold")) }
	g := Signal{Name: "go", Data: json.RawMessage(`{"n": 1}`), By: "ci", Input: 7}
	t.Run("PLAN-12a a signal completes the step that waits, and the same message again says nothing", func(t *testing.T) {
		t.Parallel()
		b := waiting()
		say, err := Signalled(b.State(), g)
		if err != nil || said(say) != "completed hold" {
			t.Fatalf("%s, %v", said(say), err)
		}
		b.Append(say...)
		b.Append(runtest.Ready("next"), runtest.Allowed("next")) // waits for the same signal
		if say, err := Signalled(b.State(), g); len(say) > 0 || err != nil {
			t.Errorf("again: %s, %v", said(say), err)
		}
		if say, err := Signalled(b.State(), Signal{Name: "go", Input: 8}); said(say) != "completed next" || err != nil {
			t.Errorf("another: %s, %v", said(say), err)
		}
		if _, err := b.Try(&events.StepSettledData{Event: "step_settled", Step: "next", Status: events.StepIsCompleted, Input: 7}); err == nil {
			t.Error("the log takes one message for two steps")
		}
	})
	t.Run("PLAN-12a what waits for a signal is not completed by anything else", func(t *testing.T) {
		t.Parallel()
		b := waiting()
		if _, err := b.Try(&events.StepSettledData{Event: "step_settled", Step: "hold", Status: events.StepIsCompleted}); err == nil {
			t.Error("the log takes it")
		}
	})
	t.Run("PLAN-12a before its step waits a signal is early, and another one unknown", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]string{"go": SignalEarly, "other": SignalUnknown} {
			_, err := Signalled(held().State(), Signal{Name: name, Input: 7})
			if bad, ok := errors.AsType[*SignalError](err); !ok || bad.Code != want || bad.Hint == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("PLAN-12a data at the limit, above it, and what is none", func(t *testing.T) {
		t.Parallel()
		most := json.RawMessage(`"` + strings.Repeat("x", events.MaxSignal-2) + `"`)
		if fault := CheckSignal("go", most); fault != "" || signalText(most) != strings.Repeat("x", events.MaxSignal-2) {
			t.Error(fault)
		}
		for name, data := range map[string]string{"go": string(most) + " ", "a b": "1", "x": "{"} {
			if CheckSignal(name, json.RawMessage(data)) == "" {
				t.Errorf("%s %.20s is taken", name, data)
			}
		}
	})
}
