package lifecycle

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// at builds a run in a status.
func at(t *testing.T, s events.Status) *runtest.Builder {
	t.Helper()
	b := runtest.New("main", "r1")
	b.Append(runtest.Created())
	if s == events.Created {
		return b
	}
	b.Append(runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b", "a")))
	switch s {
	case events.Paused:
		b.Append(runtest.Paused("a person asked"))
	case events.Failed:
		b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
	case events.Completed:
		finish(b, "a", "b")
		b.Append(runtest.PlanDone(2), runtest.Completed(b.State()))
	case events.Created, events.Running:
	}
	return b
}

func finish(b *runtest.Builder, steps ...string) {
	for _, st := range steps {
		s := b.State()
		b.Append(runtest.Ready(st), runtest.Allowed(st), runtest.Turn(s.Turns().Len()+1, st, "done"), runtest.StepDone(st, "output of "+st))
	}
}

func TestMoves(t *testing.T) {
	t.Parallel()
	all := []events.Status{events.Created, events.Running, events.Paused, events.Completed, events.Failed}
	legal := map[[2]events.Status]bool{
		{events.Created, events.Running}: true, {events.Running, events.Paused}: true, {events.Running, events.Completed}: true,
		{events.Running, events.Failed}: true, {events.Paused, events.Running}: true, {events.Paused, events.Failed}: true,
	}
	t.Run("LIFE-2 LIFE-3 exactly the six moves of the table", func(t *testing.T) {
		t.Parallel()
		for _, from := range all {
			for _, to := range all {
				err := Check(from, to)
				if got, want := err == nil, legal[[2]events.Status{from, to}]; got != want {
					t.Errorf("%s to %s: accepted %v, want %v", from, to, got, want)
				}
				move, is := errors.AsType[*MoveError](err)
				if err != nil && (!is || move.From != from || move.To != to) {
					t.Errorf("%s to %s: error %v does not name both", from, to, err)
				}
			}
		}
	})
}

func TestControl(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-5 pause and LIFE-6 resume keep everything else", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Running)
		before := b.State()
		say, err := Pause(before, noon, Wish{By: "anna", Reason: "lunch", Input: 7})
		if err != nil || len(say) != 1 {
			t.Fatalf("pause: %v %v", say, err)
		}
		b.Append(say...)
		if s := b.State(); s.Status != events.Paused || s.PauseReason != "lunch" {
			t.Fatalf("status %s reason %q", s.Status, s.PauseReason)
		}
		if say, err := Pause(b.State(), noon, Wish{Input: 7}); err != nil || len(say) != 0 {
			t.Errorf("a second look at the same message said %v, %v", say, err)
		}
		say, err = Resume(b.State(), Wish{By: "anna", Input: 8})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		after := b.State()
		if after.Status != events.Running || after.Plan != before.Plan || after.TotalToolCalls != before.TotalToolCalls {
			t.Errorf("resumed state differs: %+v", after)
		}
	})
	t.Run("LIFE-3 a wrong move is refused and says nothing", func(t *testing.T) {
		t.Parallel()
		for _, s := range []events.Status{events.Created, events.Paused, events.Completed, events.Failed} {
			if say, err := Pause(at(t, s).State(), noon, Wish{}); err == nil || say != nil {
				t.Errorf("pause while %s: %v, %v", s, say, err)
			}
		}
		for _, s := range []events.Status{events.Created, events.Running, events.Completed, events.Failed} {
			if say, err := Resume(at(t, s).State(), Wish{}); err == nil || say != nil {
				t.Errorf("resume while %s: %v, %v", s, say, err)
			}
		}
	})
	t.Run("LIFE-7a stop ends in failed, from running and from paused", func(t *testing.T) {
		t.Parallel()
		for _, s := range []events.Status{events.Running, events.Paused} {
			b := at(t, s)
			say, err := Stop(b.State(), noon, Wish{By: "anna", Reason: "enough"})
			if err != nil {
				t.Fatal(err)
			}
			b.Append(say...)
			if got := b.State(); got.Status != events.Failed || got.Result.FinishReason != events.FinishStopped || got.Result.By != "anna" {
				t.Errorf("from %s: %s %+v", s, got.Status, got.Result)
			}
		}
	})
	t.Run("LIFE-7a stop of a run that was only created starts it first, so that the table is kept", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Created)
		say, err := Stop(b.State(), noon, Wish{})
		if err != nil || len(say) != 2 {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say...)
		if got := b.State().Result.FinishReason; got != events.FinishCancelled {
			t.Errorf("finish reason %q", got)
		}
	})
	t.Run("GATE-10 the autonomy level changes for steps not yet started", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Running)
		say, err := Adjust(b.State(), 5, Wish{Input: 3})
		if err != nil {
			t.Fatal(err)
		}
		b.Append(say...)
		if got := b.State().Options.Autonomy; got != 5 {
			t.Errorf("autonomy %d", got)
		}
		if say, _ := Adjust(b.State(), 5, Wish{Input: 4}); len(say) != 0 {
			t.Errorf("the level in force was said again: %v", say)
		}
	})
	t.Run("LOOP-14 a run whose time is up fails with timeout, not before", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Running)
		deadline, ok := Deadline(b.State())
		if !ok {
			t.Fatal("no deadline")
		}
		if say, _ := Timeout(b.State(), deadline.Add(-time.Millisecond), 0); len(say) != 0 {
			t.Errorf("too early: %v", say)
		}
		say, _ := Timeout(b.State(), deadline, 0)
		b.Append(say...)
		if got := b.State().Result; got.FinishReason != events.FinishTimeout || got.Success {
			t.Errorf("%+v", got)
		}
		if say, _ := Timeout(b.State(), deadline, 0); len(say) != 0 {
			t.Errorf("said again after the end: %v", say)
		}
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()
	running := func() *runtest.Builder {
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		return b
	}
	t.Run("PLUS-13 law 1: a run is paused once for a provider that was given up, with the reason", func(t *testing.T) {
		t.Parallel()
		b := running()
		b.Append(runtest.TurnWaits(1, "a", 1, b.State().UpdatedAt, false))
		if say, _ := Interrupted(b.State()); len(say) != 0 {
			t.Fatalf("while it is waited for: %v", say)
		}
		b.Append(runtest.TurnWaits(1, "a", 2, b.State().UpdatedAt, true))
		say, err := Interrupted(b.State())
		if err != nil || len(say) != 1 {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say...)
		if s := b.State(); s.Status != events.Paused || !strings.Contains(s.PauseReason, "anthropic") || !strings.Contains(s.PauseReason, "overloaded") || !s.Clock.Paused {
			t.Errorf("%s %q %+v", s.Status, s.PauseReason, s.Clock)
		}
		if again, _ := Interrupted(b.State()); len(again) != 0 {
			t.Errorf("paused again: %v", again)
		}
		b.Append(runtest.Resumed())
		if again, _ := Interrupted(b.State()); len(again) != 0 {
			t.Errorf("a late delivery pauses the resumed run: %v", again)
		}
	})
	t.Run("PLUS-13 LOOP-14 a run is not timed out while it is paused, and has its whole working time", func(t *testing.T) {
		t.Parallel()
		b := running()
		from, _ := Deadline(b.State())
		paused := b.State().UpdatedAt.Add(time.Minute)
		b.AppendAt(paused, runtest.PausedClock("lunch"))
		if say, _ := Timeout(b.State(), paused.Add(100*time.Hour), 0); len(say) != 0 {
			t.Fatalf("while paused: %v", say)
		}
		b.AppendAt(paused.Add(100*time.Hour), runtest.Resumed())
		if say, _ := Timeout(b.State(), from.Add(100*time.Hour-time.Millisecond), 0); len(say) != 0 {
			t.Fatalf("too early: %v", say)
		}
		say, _ := Timeout(b.State(), from.Add(100*time.Hour), 0)
		if len(say) != 1 || !strings.Contains(say[0].(*events.RunFailedData).Error, "100h0m0s") {
			t.Errorf("%v", say)
		}
	})
	t.Run("PLUS-21a LOOP-14 the time in which the station was halted counts towards no deadline", func(t *testing.T) {
		t.Parallel()
		b := running()
		deadline, _ := Deadline(b.State())
		if say, _ := Timeout(b.State(), deadline.Add(time.Hour-time.Millisecond), time.Hour); len(say) != 0 {
			t.Errorf("too early: %v", say)
		}
		if say, _ := Timeout(b.State(), deadline.Add(time.Hour), time.Hour); len(say) != 1 {
			t.Errorf("%v", say)
		}
	})
	t.Run("PLUS-13 LIFE-2 a run that waits, or was given up and not paused yet, can be stopped", func(t *testing.T) {
		t.Parallel()
		for _, pause := range []bool{false, true} {
			b := running()
			b.Append(runtest.TurnWaits(1, "a", 1, b.State().UpdatedAt, pause))
			say, err := Stop(b.State(), noon, Wish{By: "anna", Input: 7})
			if err != nil {
				t.Fatal(err)
			}
			b.Append(say...)
			s := b.State()
			if again, _ := Interrupted(s); s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || len(again) != 0 || len(s.Outages()) != 0 {
				t.Errorf("%s %+v %v", s.Status, s.Result, again)
			}
		}
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-4 begin creates, starts, plans and readies; a second look says nothing; each prefix completes", func(t *testing.T) {
		t.Parallel()
		created, made := runtest.Created(), runtest.Plan(runtest.Step("a"), runtest.Step("b", "a"))
		whole, err := Begin(run.State{}, noon, created, made, nil)
		if err != nil || len(whole) != 4 {
			t.Fatalf("%v %v", whole, err)
		}
		for cut := range len(whole) + 1 {
			b := runtest.New("main", "r1")
			b.Append(whole[:cut]...)
			rest, err := Begin(b.State(), noon, created, made, nil)
			if err != nil || len(rest) != len(whole)-cut {
				t.Fatalf("after %d events: %d more, %v", cut, len(rest), err)
			}
			b.Append(rest...)
			s := b.State()
			if st := s.Step("a"); st == nil || st.Status != events.StepIsReady {
				t.Errorf("after %d events step a is %+v", cut, st)
			}
		}
	})
	t.Run("PLAN-7ab PROP-14 the end of the last step ends plan and run, once", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Running)
		finish(b, "a", "b")
		whole, _ := Progress(b.State(), noon)
		if len(whole) != 2 || whole[0].Kind() != events.PlanCompleted || whole[1].Kind() != events.RunCompleted {
			t.Fatalf("%v", whole)
		}
		b.Append(whole[0])
		rest, _ := Progress(b.State(), noon)
		if len(rest) != 1 || rest[0].Kind() != events.RunCompleted {
			t.Fatalf("after a crash between the two: %v", rest)
		}
		b.Append(rest...)
		s := b.State()
		if s.Result.StepsCompleted != 2 || s.Result.StepsTotal != 2 || s.Result.Output != "output of b" || s.Result.DurationMS < 0 {
			t.Errorf("LIFE-12 result: %+v", s.Result)
		}
		if again, _ := Progress(s, noon); len(again) != 0 {
			t.Errorf("said again: %v", again)
		}
	})
	t.Run("TEST-3a LIFE-6 PLAN-7 a run that was paused and resumed ends with its last step as any other", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Running)
		b.Append(runtest.Paused("wait"), runtest.Resumed())
		finish(b, "a", "b")
		if whole, _ := Progress(b.State(), noon); len(whole) != 2 || whole[1].Kind() != events.RunCompleted {
			t.Fatalf("its steps are done and it goes on for ever: %v", whole)
		}
	})
	t.Run("PLAN-6a LIFE-18 a failed step blocks what depends on it, and the run fails once nothing is left to do", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Running)
		b.Append(runtest.Ready("a"), runtest.Allowed("a"), runtest.StepBad("a", "it broke"))
		say, _ := Progress(b.State(), noon)
		if len(say) != 1 {
			t.Fatalf("%v", say)
		}
		b.Append(say...)
		r := b.State().Result
		if r.Success || r.Error != "step failed: a: it broke" || len(r.FailedSteps) != 1 || len(r.BlockedSteps) != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("GATE-6ab a rejected gate pauses the run with the reason, once", func(t *testing.T) {
		t.Parallel()
		b := at(t, events.Running)
		b.Append(runtest.Ready("a"), runtest.GateAt("g1", "a", ""))
		b.Append(runtest.No(b.State().Gates[0], "too risky"))
		say, _ := Rejected(b.State(), runtest.Start)
		if len(say) != 1 {
			t.Fatalf("%v", say)
		}
		b.Append(say...)
		if s := b.State(); s.Status != events.Paused || s.PauseReason != "gate rejected: too risky" {
			t.Errorf("%s %q", s.Status, s.PauseReason)
		}
		b.Append(runtest.Resumed())
		if again, _ := Rejected(b.State(), runtest.Start); len(again) != 0 {
			t.Errorf("paused again after the resume: %v", again)
		}
	})
}
