package run_test

import (
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// lived builds a run minute by minute: its timeout is half an hour and it started at minute 0.
type lived struct {
	*runtest.Builder
	start time.Time
}

func living(steps ...string) lived {
	l := lived{Builder: runtest.New("demo", "r")}
	l.Append(runtest.Created())
	l.start = l.State().UpdatedAt
	l.at(0, runtest.Started())
	var plan []events.PlanStep
	for _, s := range steps {
		plan = append(plan, runtest.Step(s))
	}
	if l.at(0, runtest.Plan(plan...)); len(steps) == 0 {
		return l
	}
	for _, s := range steps {
		l.at(0, runtest.Ready(s), runtest.Allowed(s))
	}
	return l
}

func (l lived) minute(n float64) time.Time {
	return l.start.Add(time.Duration(n * float64(time.Minute)))
}

func (l lived) at(n float64, payloads ...events.Payload) { l.AppendAt(l.minute(n), payloads...) }

// waits defers the turn of a step at minute n until minute until.
func (l lived) waits(n, until float64, step string, attempt int, pause bool) {
	s := l.State()
	d := runtest.TurnWaits(s.Turns().Len()+1, step, attempt, l.minute(n), pause)
	d.NotBefore = l.minute(until)
	l.at(n, d)
}

// deadline expects the end of the run's time at minute n, or none for a negative n.
func (l lived) deadline(t *testing.T, n float64) {
	t.Helper()
	s := l.State()
	at, ok := s.Deadline()
	if ok != (n >= 0) || ok && !at.Equal(l.minute(n)) {
		t.Errorf("deadline at minute %v (%v), want %v", at.Sub(l.start).Minutes(), ok, n)
	}
}

func TestDeadlineClock(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-13 LOOP-14 a pause does not count towards the deadline, and has none", func(t *testing.T) {
		t.Parallel()
		l := living("a")
		l.deadline(t, 30)
		l.at(5, runtest.PausedClock("lunch"))
		l.deadline(t, -1)
		l.at(65, runtest.Resumed())
		l.deadline(t, 90)
		l.at(70, runtest.Turn(1, "a", "Done."))
		l.deadline(t, 90)
	})
	t.Run("EVT-8 a pause of an older program counts", func(t *testing.T) {
		t.Parallel()
		l := living("a")
		l.at(5, runtest.Paused("lunch"))
		l.deadline(t, 30)
		l.at(65, runtest.Resumed())
		l.deadline(t, 30)
		if got := l.State().Clock; got != (run.Clock{}) {
			t.Errorf("clock %+v", got)
		}
	})
	t.Run("PLUS-13 a wait for a provider does not count; the answer does, from when its request was due", func(t *testing.T) {
		t.Parallel()
		l := living("a")
		l.waits(2, 3, "a", 1, false)
		l.deadline(t, 31) // as it is expected: it goes on at minute 3
		l.waits(4, 10, "a", 2, false)
		l.deadline(t, 38) // of which 8 minutes do not count
		l.at(12, runtest.Turn(1, "a", "Done."))
		l.deadline(t, 38)
		if got := l.State().Clock; got.StoppedMS != (8*time.Minute).Milliseconds() || !got.Since.IsZero() {
			t.Errorf("clock %+v", got)
		}
	})
	t.Run("PLUS-13 while another step works the clock runs", func(t *testing.T) {
		t.Parallel()
		l := living("a", "b")
		l.waits(2, 20, "a", 1, false)
		l.deadline(t, 30)
		l.at(6, runtest.Turn(1, "b", "Done."))
		l.deadline(t, 30)
		l.at(6, runtest.StepDone("b", "done"))
		l.deadline(t, 44) // from minute 6 to 20
	})
	t.Run("PLUS-13 of two steps that wait the first that is due lets the clock go on", func(t *testing.T) {
		t.Parallel()
		l := living("a", "b")
		l.waits(2, 20, "a", 1, false)
		l.waits(4, 10, "b", 1, false)
		l.deadline(t, 36)
		l.at(11, runtest.Turn(1, "b", "Done."))
		l.deadline(t, 36)
	})
	t.Run("PLUS-13 a pause during a wait, and one for the wait, are not counted twice", func(t *testing.T) {
		t.Parallel()
		l := living("a")
		l.waits(2, 4, "a", 1, false)
		l.at(3, runtest.PausedClock("lunch"))
		l.deadline(t, -1)
		l.at(5, runtest.Resumed())
		l.waits(6, 6, "a", 2, true)
		l.deadline(t, -1) // it waits for its pause
		l.at(7, runtest.PausedClock("provider anthropic: overloaded"))
		l.at(9, runtest.Resumed())
		l.deadline(t, 37) // from minute 2 to 9
		if s := l.State(); len(s.Outages()) != 0 || s.Lasting(s.Step("a").Outage) != nil || s.Step("a").Owed == 0 {
			t.Errorf("the wait does not begin anew: %+v", s.Step("a"))
		}
	})
	t.Run("PLUS-13 clocks that differ between services never lengthen a deadline backwards", func(t *testing.T) {
		t.Parallel()
		l := living("a")
		l.at(5, runtest.PausedClock("lunch"))
		l.at(4, runtest.Resumed())
		l.deadline(t, 30)
	})
	t.Run("PLUS-13 a wait for the plan does not count either", func(t *testing.T) {
		t.Parallel()
		l := lived{Builder: runtest.New("demo", "r")}
		l.Append(runtest.Created())
		l.start = l.State().UpdatedAt
		l.at(0, runtest.Started(), &events.PlanRequestedData{Event: "plan_requested", Try: 1})
		d := runtest.PlanWaits(1, 1, l.minute(1), false)
		d.NotBefore = l.minute(6)
		l.at(1, d)
		l.deadline(t, 35)
		l.at(7, &events.PlanAnsweredData{Event: "plan_answered", Try: 1, Text: "{}"})
		l.deadline(t, 35)
	})
}

func TestOutage(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-13 PLUS-5 an outage counts its failed requests from the first one, and ends with the answer", func(t *testing.T) {
		t.Parallel()
		l := living("a")
		for n := 1; n <= 3; n++ {
			l.waits(float64(n), float64(n)+0.5, "a", n, false)
		}
		s := l.State()
		all := s.Outages()
		if len(all) != 1 || all[0].Tries != 3 || !all[0].Since.Equal(l.minute(1)) || all[0].Provider != "anthropic" || s.GivenUp() != nil {
			t.Fatalf("%+v", all)
		}
		l.at(4, runtest.PausedClock("lunch"))
		l.at(60, runtest.Resumed())
		s = l.State()
		if o := s.Outages(); len(o) != 1 || o[0].Tries != 3 || s.Step("a").NotBefore.IsZero() {
			t.Errorf("after a pause it waits for the next request as before: %+v", o)
		}
		l.waits(60, 60.5, "a", 4, false)
		s = l.State()
		if o := s.Outages(); len(o) != 1 || o[0].Tries != 1 || !o[0].Since.Equal(l.minute(60)) {
			t.Errorf("after a pause the wait is not counted anew: %+v", o)
		}
		l.at(61, runtest.Turn(1, "a", "Done."))
		s = l.State()
		if o := s.Outages(); len(o) != 0 {
			t.Errorf("after the answer: %+v", o)
		}
	})
	t.Run("EVT-8 a deferral of an older program is no outage and stops no clock", func(t *testing.T) {
		t.Parallel()
		l := living("a")
		l.at(2, runtest.TurnDeferred(1, "a", 1, l.minute(2)))
		s := l.State()
		if len(s.Outages()) != 0 || s.Clock != (run.Clock{}) {
			t.Errorf("%+v %+v", s.Outages(), s.Clock)
		}
	})
}
