package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func working() []events.Payload {
	return []events.Payload{runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a")}
}

// allow delivers the event that owes step a its first turn.
func (p *requester) allow(r *Role, deliveries uint64) {
	p.t.Helper()
	s := p.state()
	if err := r.Event(p.t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.StepAllowed, Sequence: 5, Step: "a", State: s, Deliveries: deliveries}); err != nil {
		p.t.Fatal(err)
	}
}

// due fires the timer of step a at that time.
func (p *requester) due(r *Role, at time.Time) {
	p.t.Helper()
	p.now = at
	if err := r.Due(p.t.Context(), "r1", "turn", "a", p.state()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *requester) step() *run.Step {
	s := p.state()
	return s.Step("a")
}

func overloaded(int, llm.Sink) (llm.Answer, error) {
	return llm.Answer{}, &llm.Error{Class: llm.Transient, Status: 503, Provider: "anthropic", Err: errors.New("overloaded")}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	finished := func(int, llm.Sink) (llm.Answer, error) { return llm.Answer{Text: "done", Finish: llm.Done}, nil }
	t.Run("PLUS-13 an outage of an hour is survived by one turn, and what was asked for too early or too late asks nothing", func(t *testing.T) {
		t.Parallel()
		p, m := requesting(t, working()...), &talker{do: overloaded}
		r := p.executor(m)
		p.allow(r, 1)
		for begin := p.now; p.now.Sub(begin) < time.Hour; {
			asked, next := m.asked, p.step().NotBefore
			if timers := p.st.TimersSet(); len(timers) != 1 || next.Sub(p.now) > turn.MaxDelay {
				t.Fatalf("timers %v, next in %s", timers, next.Sub(p.now))
			}
			p.due(r, next.Add(-time.Millisecond))
			if m.asked != asked {
				t.Fatal("asked too early")
			}
			p.due(r, next)
			if m.asked != asked+1 {
				t.Fatalf("asked %d times when it was due", m.asked-asked)
			}
			p.due(r, next) // the same timer twice
			if m.asked != asked+1 {
				t.Fatal("a timer that fired twice asked twice")
			}
		}
		if o := p.step().Outage; o.Provider != "anthropic" || o.HTTPStatus != 503 || o.Tries != m.asked {
			t.Errorf("asked %d times: %+v", m.asked, o)
		}
		m.do = finished
		p.due(r, p.step().NotBefore)
		if st := p.step(); st.Status != events.StepIsCompleted || st.Outage != nil {
			t.Errorf("%+v", st)
		}
		p.due(r, p.now) // late: nothing is owed
		if s := p.state(); s.Turns().Len() != 1 {
			t.Errorf("%d turns", s.Turns().Len())
		}
	})
	t.Run("PLUS-13 law 2: a crash between the deferral and its timer is completed by the next delivery", func(t *testing.T) {
		t.Parallel()
		d := runtest.TurnWaits(1, "a", 1, time.Now(), false)
		d.NotBefore = time.Now().Add(time.Minute)
		p, m := requesting(t, append(working(), d)...), &talker{do: finished}
		if p.allow(p.executor(m), 2); m.asked != 0 || len(p.st.TimersSet()) != 1 {
			t.Errorf("asked %d times, timers %v", m.asked, p.st.TimersSet())
		}
	})
	t.Run("PLUS-13 a refused key sets no timer, and the resumed run takes the same turn", func(t *testing.T) {
		t.Parallel()
		p := requesting(t, working()...)
		m := &talker{do: func(int, llm.Sink) (llm.Answer, error) {
			return llm.Answer{}, &llm.Error{Class: llm.Auth, Status: 401, Err: errors.New("no such key")}
		}}
		r := p.executor(m)
		p.allow(r, 1)
		p.allow(r, 2) // delivered again before the planner paused the run
		s := p.state()
		if m.asked != 1 || len(p.st.TimersSet()) != 0 || s.GivenUp() == nil || s.GivenUp().Class != "auth" || s.GivenUp().Provider != "scripted" {
			t.Fatalf("asked %d times, timers %v, %+v", m.asked, p.st.TimersSet(), s.GivenUp())
		}
		p.say(runtest.PausedClock("provider"), runtest.Resumed())
		m.do = finished
		s = p.state()
		for n := range uint64(2) {
			if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.RunResumed, Sequence: s.Sequence, State: p.state(), Deliveries: n + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if st := p.step(); m.asked != 2 || st.Status != events.StepIsCompleted || st.Turns != 1 {
			t.Errorf("asked %d times: %+v", m.asked, st)
		}
	})
	t.Run("PLUS-13 each class of errors has its remedy", func(t *testing.T) {
		t.Parallel()
		for class, want := range map[llm.Class]string{llm.Transient: "waits", llm.RateLimit: "waits", llm.Auth: "paused", llm.Invalid: "ends", llm.TooLong: "shorter", "": "ends"} {
			p := requesting(t, working()...)
			m := &talker{do: func(int, llm.Sink) (llm.Answer, error) {
				if class == "" {
					return llm.Answer{}, errors.New("agent is not pinned")
				}
				return llm.Answer{}, &llm.Error{Class: class, Err: errors.New("no")}
			}}
			p.allow(p.executor(m), 1)
			st, got := p.step(), "ends"
			switch {
			case st.Outage != nil && st.Outage.Pause:
				got = "paused"
			case st.Outage != nil:
				got = "waits"
			case st.TooLong > 0:
				got = "shorter"
			case st.Status != events.StepIsFailed:
				got = string(st.Status)
			}
			if got != want {
				t.Errorf("%q: %s, want %s", class, got, want)
			}
		}
	})
	t.Run("PLUS-13 a request has a time limit only where one is set", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			slow := &slowModel{takes: time.Hour}
			r := &Role{}
			if a, err := r.timed(slow).Ask(t.Context(), llm.Request{}, nil); err != nil || a.Text != "done" {
				t.Errorf("without a limit: %v", err)
			}
			r.cfg.Timeout = time.Minute
			begin := time.Now()
			_, err := r.timed(slow).Ask(t.Context(), llm.Request{}, nil)
			if f := r.failure(err, "anthropic/x", false); !f.Retryable || !f.Begun || f.Provider != "anthropic" || time.Since(begin) != time.Minute {
				t.Errorf("%v: %+v after %s", err, f, time.Since(begin))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := r.timed(slow).Ask(ctx, llm.Request{}, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the end of the run is taken for a slow answer: %v", err)
			}
		})
	})
}

type slowModel struct{ takes time.Duration }

func (m *slowModel) Ask(ctx context.Context, _ llm.Request, _ llm.Sink) (llm.Answer, error) {
	select {
	case <-time.After(m.takes):
		return llm.Answer{Text: "done", Finish: llm.Done}, nil
	case <-ctx.Done():
		return llm.Answer{}, ctx.Err()
	}
}
