package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// begunWait is a run whose only step waits for a signal, with an agent that is woken.
func begunWait(w events.StepWake, limitMS int64) *runtest.Builder {
	hold := runtest.Step("hold")
	hold.Flow = &events.StepFlow{Kind: events.ControlWait, Signal: "go", WaitMS: limitMS, Wake: &w}
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(hold), runtest.Ready("hold"), runtest.Allowed("hold"))
	return b
}

// goesOn has the plan decide what it does by itself, whose answers to questions are all holds.
func goesOn(s run.State, holds any, now time.Time) []events.Payload {
	var answers []Answer
	for _, q := range Questions(s) {
		answers = append(answers, Answer{Question: q, Value: holds})
	}
	if say := Answered(s, answers, now); len(say) > 0 {
		return say
	}
	return Next(s, now)
}

// looks has an agent look: it says something, or fails for a reason.
func looks(b *runtest.Builder, look, reason string) {
	if reason != "" {
		d := runtest.StepBad(look, "it broke")
		d.FinishReason = reason
		b.Append(d)
		return
	}
	b.Append(runtest.Turn(held(b).ModelTurns()+1, look, "seen"), runtest.StepDone(look, "seen"))
}

// now is the time of the next event.
func now(b *runtest.Builder) time.Time {
	return runtest.Start.Add(time.Duration(b.State().Sequence) * time.Second)
}

func TestWaking(t *testing.T) {
	t.Parallel()
	wake := events.StepWake{EveryMS: 1000, Until: "last"}
	t.Run("PLAN-12b each time between two looks is at least twice the one before, up to the most that there is", func(t *testing.T) {
		t.Parallel()
		for _, w := range []events.StepWake{{EveryMS: 1}, {EveryMS: 1000}, {EveryMS: 1000, Factor: 3.5}, {EveryMS: 7, MostMS: 1000},
			{EveryMS: events.MaxFlowTime.Milliseconds()}, {EveryMS: 1, Factor: 100}} {
			most := events.MaxFlowTime
			if w.MostMS > 0 {
				most = time.Duration(w.MostMS) * time.Millisecond
			}
			for look := 2; look <= events.MaxParts; look++ {
				before, d := w.Delay(look-1), w.Delay(look)
				if d < min(2*before, most) || d > most || d <= 0 || d != w.Delay(look) {
					t.Fatalf("%+v: %s, then %s before look %d", w, before, d, look)
				}
			}
		}
		if w := (events.StepWake{EveryMS: 1000}); w.Delay(1) != time.Second || w.Delay(2) != 2*time.Second || w.Delay(3) != 4*time.Second {
			t.Errorf("%s, %s, %s", w.Delay(1), w.Delay(2), w.Delay(3))
		}
		if w := (events.StepWake{EveryMS: 1000, Factor: 1}); w.Delay(400) != time.Second {
			t.Error("a factor of 1 has the same time always")
		}
	})
	t.Run("PLAN-12b a look is made once for its time, and not before the last has ended", func(t *testing.T) {
		t.Parallel()
		b := begunWait(wake, 0)
		for look := 1; look <= 4; look++ {
			say := goesOn(b.State(), false, now(b))
			if said(say) != fmt.Sprintf("expanded hold %d+1", look) {
				t.Fatalf("look %d: %s", look, said(say))
			}
			d, _ := say[0].(*events.StepExpandedData)
			if d.NotBefore.Sub(now(b)) != wake.Delay(look) || d.DelayMS != wake.Delay(look).Milliseconds() {
				t.Errorf("look %d: %+v", look, d)
			}
			b.Append(d)
			if _, err := b.Try(d); err == nil {
				t.Fatalf("the log takes look %d twice", look)
			}
			at, ok := Wake(b.State())
			if !ok || !at.Equal(d.NotBefore) {
				t.Errorf("look %d: the planner wakes at %s, %t, want %s", look, at, ok, d.NotBefore)
			}
			if say := goesOn(b.State(), false, at.Add(-time.Millisecond)); len(say) > 0 {
				t.Errorf("before its time: %s", said(say))
			}
			id := events.PartID("hold", look)
			if say := goesOn(b.State(), false, at); said(say) != "ready "+id {
				t.Errorf("at its time: %s", said(say))
			}
			b.Append(runtest.Ready(id))
			if say := goesOn(b.State(), false, at); len(say) > 0 {
				t.Errorf("a second planner: %s", said(say))
			}
			b.Append(runtest.Allowed(id))
			looks(b, id, map[bool]string{true: "", false: events.FinishTimeout}[look%2 == 1])
			if deps := strings.Join(held(b).Step(id).Dependencies, " "); deps != map[int]string{1: "", 2: "hold-1", 3: "hold-1", 4: "hold-3"}[look] {
				t.Errorf("look %d gets the results of %q", look, deps)
			}
		}
	})
	t.Run("PLAN-12b a look ends the wait where its condition holds, with what it found; one that says neither fails it", func(t *testing.T) {
		t.Parallel()
		for holds, want := range map[any]string{true: "completed hold", false: "expanded hold 2+1", "x": "failed hold"} {
			b := begunWait(wake, 0)
			b.Append(goesOn(b.State(), holds, now(b))...)
			b.Append(runtest.Ready("hold-1"), runtest.Allowed("hold-1"))
			looks(b, "hold-1", "")
			say := goesOn(b.State(), holds, now(b))
			if said(say) != want {
				t.Errorf("%v: %s, want %s", holds, said(say), want)
			}
			b.Append(say...)
			if st := held(b).Step("hold"); holds == true && st.Output != held(b).Step("hold-1").Output {
				t.Errorf("%+v", st)
			}
			if say := goesOn(b.State(), holds, now(b)); len(say) > 0 {
				t.Errorf("%v, again: %s", holds, said(say))
			}
		}
	})
	t.Run("PLAN-12b a look that failed for good ends the wait, and so does the last of those that there may be", func(t *testing.T) {
		t.Parallel()
		b := begunWait(wake, 0)
		b.Append(goesOn(b.State(), false, now(b))...)
		b.Append(runtest.Ready("hold-1"), runtest.Allowed("hold-1"))
		looks(b, "hold-1", events.FinishRefusal)
		if say := goesOn(b.State(), false, now(b)); said(say) != "failed hold" {
			t.Error(said(say))
		}
		st := whole("w", events.MaxParts, events.StepFlow{Kind: events.ControlWait, Signal: "go", Wake: &wake})
		last := part("w", events.MaxParts, events.StepIsFailed)
		last.Reason = events.FinishTimeout
		if say := Next(running(st, last), noon); said(say) != "failed w" {
			t.Error(said(say))
		}
	})
	t.Run("PLAN-12b the log takes no look without a time, no two at once, none before the step waits, and no end without one that was completed", func(t *testing.T) {
		t.Parallel()
		look := func(n int) *events.StepExpandedData {
			return &events.StepExpandedData{Event: "step_expanded", Step: "hold", From: n, Count: 1, NotBefore: noon}
		}
		b := begunWait(wake, 0)
		timeless, two, second := look(1), look(1), look(2)
		timeless.NotBefore, two.Count = time.Time{}, 2
		end := &events.StepSettledData{Event: "step_settled", Step: "hold", Status: events.StepIsCompleted}
		for _, p := range []events.Payload{timeless, two, second, end} {
			if _, err := b.Try(p); err == nil {
				t.Errorf("the log takes %+v", p)
			}
		}
		b.Append(look(1))
		for _, p := range []events.Payload{second, end} {
			if _, err := b.Try(p); err == nil {
				t.Errorf("the log takes %+v while the agent is to look", p)
			}
		}
		b.Append(runtest.Ready("hold-1"), runtest.Allowed("hold-1"))
		looks(b, "hold-1", events.FinishTimeout)
		if _, err := b.Try(end); err == nil {
			t.Error("the log takes the end by a look that failed")
		}
		early := runtest.New("demo", "r")
		hold := runtest.Step("hold")
		hold.Flow = &events.StepFlow{Kind: events.ControlWait, Signal: "go", Wake: &wake}
		early.Append(runtest.Created(), runtest.Started(), runtest.Plan(hold))
		if _, err := early.Try(look(1)); err == nil {
			t.Error("the log takes a look before the step waits")
		}
	})
}

// TestWakingCut stops the planner behind each event of a wait, has the signal come or the time pass there, and has
// another planner go on.
func TestWakingCut(t *testing.T) {
	t.Parallel()
	const limit = 60_000
	course := []func(b *runtest.Builder){
		func(b *runtest.Builder) { b.Append(goesOn(b.State(), false, now(b))...) },
		func(b *runtest.Builder) { b.Append(runtest.Ready("hold-1")) },
		func(b *runtest.Builder) { b.Append(runtest.Allowed("hold-1")) },
		func(b *runtest.Builder) { looks(b, "hold-1", "") },
		func(b *runtest.Builder) { b.Append(goesOn(b.State(), false, now(b))...) },
		func(b *runtest.Builder) { b.Append(runtest.Ready("hold-2")) },
		func(b *runtest.Builder) { b.Append(runtest.Allowed("hold-2")) },
		func(b *runtest.Builder) { looks(b, "hold-2", events.FinishTimeout) },
		func(b *runtest.Builder) { b.Append(goesOn(b.State(), false, now(b))...) },
	}
	for cut := range len(course) + 1 {
		t.Run(fmt.Sprintf("PLAN-12b PLAN-15 a planner ends behind event %d of a wait", cut), func(t *testing.T) {
			t.Parallel()
			begin := func() *runtest.Builder {
				b := begunWait(events.StepWake{EveryMS: 1000, Until: "last"}, limit)
				for _, move := range course[:cut] {
					move(b)
				}
				return b
			}
			b, late := begin(), begin()
			g := Signal{Name: "go", Data: json.RawMessage(`1`), By: "ci", Input: 7}
			say, err := Signalled(b.State(), g)
			if err != nil {
				t.Fatal(err)
			}
			b.Append(say...)
			if again, err := Signalled(b.State(), g); err != nil || len(again) > 0 {
				t.Errorf("the signal again: %s, %v", said(again), err)
			}
			up := held(late).Step("hold").BeganAt.Add(limit * time.Millisecond)
			for range 3 { // a look may be ready, and a condition may be open
				late.Append(goesOn(late.State(), false, up)...)
			}
			for what, b := range map[events.StepStatus]*runtest.Builder{events.StepIsCompleted: b, events.StepIsFailed: late} {
				s := b.State()
				if st := s.Step("hold"); st.Status != what {
					t.Errorf("hold is %s, want %s", st.Status, what)
				}
				for _, p := range s.Plan.PartsOf("hold") {
					if !p.Ended() {
						t.Errorf("look %s is %s", p.ID, p.Status)
					}
				}
				if say := goesOn(s, false, up.Add(time.Hour)); len(say) > 0 {
					t.Errorf("after its end: %s", said(say))
				}
			}
		})
	}
}

func TestWakeFault(t *testing.T) {
	t.Parallel()
	good := events.StepWake{EveryMS: 1000, Factor: 2, MostMS: 5000, Until: "last"}
	for what, change := range map[string]func(*events.StepFlow){
		"no time":                  func(f *events.StepFlow) { f.Wake.EveryMS = 0 },
		"a time below zero":        func(f *events.StepFlow) { f.Wake.EveryMS = -1 },
		"a time above all":         func(f *events.StepFlow) { f.Wake.EveryMS = events.MaxFlowTime.Milliseconds() + 1 },
		"a factor below one":       func(f *events.StepFlow) { f.Wake.Factor = 0.99 },
		"a factor above all":       func(f *events.StepFlow) { f.Wake.Factor = 101 },
		"at most less than at all": func(f *events.StepFlow) { f.Wake.MostMS = 999 },
		"at most below zero":       func(f *events.StepFlow) { f.Wake.MostMS = -1 },
		"no condition":             func(f *events.StepFlow) { f.Wake.Until = "" },
		"a long condition":         func(f *events.StepFlow) { f.Wake.Until = strings.Repeat("x", events.MaxExpression+1) },
		"no signal":                func(f *events.StepFlow) { f.Signal, f.WaitMS = "", 5 },
		"no kind":                  func(f *events.StepFlow) { f.Kind, f.Signal = "", "" },
	} {
		t.Run("PLAN-12b a plan is refused whose wait has "+what, func(t *testing.T) {
			t.Parallel()
			w := good
			f := events.StepFlow{Kind: events.ControlWait, Signal: "go", Wake: &w}
			if fault := f.Fault("hold", ""); fault != "" {
				t.Fatal(fault)
			}
			if change(&f); f.Fault("hold", "") == "" {
				t.Errorf("it is taken: %+v", *f.Wake)
			}
		})
	}
}

func held(b *runtest.Builder) *run.State { s := b.State(); return &s }
