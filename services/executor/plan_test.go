package executor

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

// requester asks executors for the plan of one run.
type requester struct {
	t   *testing.T
	st  *mem.Station
	now time.Time
}

func requesting(t *testing.T, payloads ...events.Payload) *requester {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Seed(t, st.Journal(), runtest.New("s1", "r1").Append(payloads...)...)
	return &requester{t: t, st: st, now: time.Now()}
}

func (p *requester) ledger(by events.Service) *runlog.Ledger {
	p.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: by, Journal: p.st.JournalOf(by), Entropy: rand.Reader, Now: func() time.Time { return p.now }})
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// executor is one more replica, with that model.
func (p *requester) executor(m *talker) *Role {
	p.t.Helper()
	tools, err := tool.NewRegistry()
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := New(Config{Ledger: p.ledger(events.Executor), Timers: p.st.Timers(), Blobs: p.st.Blobs(), Live: streaming.New(p.st.Live()), Models: m, Tools: tools,
		Now: func() time.Time { return p.now }})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *requester) state() run.State {
	p.t.Helper()
	s, err := p.ledger(events.Executor).Fresh(p.t.Context(), "r1")
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *requester) say(payloads ...events.Payload) {
	p.t.Helper()
	if _, err := p.ledger(events.Planner).Write(p.t.Context(), "r1", func(run.State, time.Time) ([]events.Payload, error) { return payloads, nil }); err != nil {
		p.t.Fatal(err)
	}
}

// deliver delivers the request for the plan.
func (p *requester) deliver(r *Role, deliveries uint64) error {
	s := p.state()
	return r.Event(p.t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.PlanRequested, Sequence: 3, State: s, Deliveries: deliveries})
}

func requestOf(try int, fault string) *events.PlanRequestedData {
	return &events.PlanRequestedData{Event: "plan_requested", Try: try, Agents: []string{"worker"}, Fault: fault}
}

func TestPlanning(t *testing.T) {
	t.Parallel()
	begun := func() []events.Payload {
		return []events.Payload{runtest.Created(), runtest.Started(), requestOf(1, "")}
	}
	drafts := func(int, llm.Sink) (llm.Answer, error) {
		return llm.Answer{Text: `{"steps":[]}`, Finish: llm.Done, Usage: llm.Usage{Input: 10, Output: 1}}, nil
	}
	t.Run("PLAN-1 a request for a plan is made once, however often it is delivered", func(t *testing.T) {
		t.Parallel()
		p, m := requesting(t, begun()...), &talker{do: drafts}
		for n := range uint64(3) {
			if err := p.deliver(p.executor(m), n+1); err != nil {
				t.Fatal(err)
			}
		}
		s := p.state()
		if m.asked != 1 || s.Sequence != 4 || s.Planning.Owed != 0 || s.Planning.Answered != 4 || s.Planning.Text != `{"steps":[]}` || s.Tokens.Total() != 11 {
			t.Errorf("asked %d times, %d events: %+v", m.asked, s.Sequence, s.Planning)
		}
	})
	t.Run("PLAN-1 PLAN-3 a request that is delivered again after the next one was made asks nothing", func(t *testing.T) {
		t.Parallel()
		p, m := requesting(t, begun()...), &talker{do: drafts}
		if err := p.deliver(p.executor(m), 1); err != nil {
			t.Fatal(err)
		}
		p.say(requestOf(2, "no steps"))
		if err := p.deliver(p.executor(m), 2); err != nil || m.asked != 1 || p.state().Sequence != 5 {
			t.Errorf("%v: asked %d times, %d events", err, m.asked, p.state().Sequence)
		}
	})
	t.Run("LIFE-16 PLAN-1 of two executors that ask at the same time one answers", func(t *testing.T) {
		t.Parallel()
		p := requesting(t, begun()...)
		var both, done sync.WaitGroup
		both.Add(2)
		together := func(int, llm.Sink) (llm.Answer, error) {
			both.Done()
			both.Wait() // both were asked before one of them answers
			return drafts(0, nil)
		}
		errs := make([]error, 2)
		for i := range errs {
			r := p.executor(&talker{do: together})
			done.Go(func() { errs[i] = p.deliver(r, 1) })
		}
		done.Wait()
		if s := p.state(); errors.Join(errs...) != nil || s.Sequence != 4 || s.Tokens.Total() != 11 {
			t.Errorf("%v, %d events, %d tokens", errors.Join(errs...), s.Sequence, s.Tokens.Total())
		}
	})
	t.Run("PLUS-3 PERS-15 an executor that died with the answer is followed by one that asks again and counts the request that was lost", func(t *testing.T) {
		t.Parallel()
		all := begun()
		all[0].(*events.RunCreatedData).Options.MaxTokens = 1_000_000
		p, m := requesting(t, all...), &talker{do: drafts}
		if err := p.deliver(p.executor(m), 2); err != nil {
			t.Fatal(err)
		}
		if s := p.state(); m.asked != 1 || s.Lost.Requests != 1 || s.Lost.Tokens == 0 || s.Planning.Answered == 0 {
			t.Errorf("asked %d times: %+v %+v", m.asked, s.Lost, s.Planning)
		}
	})
	t.Run("PLUS-3 where the budget is used up the model is not asked", func(t *testing.T) {
		t.Parallel()
		all := begun()
		all[0].(*events.RunCreatedData).Options.MaxTokens = 10
		p, m := requesting(t, all...), &talker{do: drafts}
		if err := p.deliver(p.executor(m), 1); err != nil {
			t.Fatal(err)
		}
		if s := p.state(); m.asked != 0 || s.Planning.RunReason != events.FinishTokens || s.Planning.Error == "" {
			t.Errorf("asked %d times: %+v", m.asked, s.Planning)
		}
	})
	t.Run("LIFE-5 LIFE-6 while the run is paused nothing is asked; when it goes on, once", func(t *testing.T) {
		t.Parallel()
		p, m := requesting(t, append(begun(), runtest.Paused("wait"))...), &talker{do: drafts}
		r := p.executor(m)
		if err := p.deliver(r, 1); err != nil || m.asked != 0 {
			t.Fatalf("%v, asked %d times", err, m.asked)
		}
		p.say(runtest.Resumed())
		for range 2 {
			s := p.state()
			if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.RunResumed, Sequence: 5, State: s, Deliveries: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if s := p.state(); m.asked != 1 || s.Planning.Answered != 6 {
			t.Errorf("asked %d times: %+v", m.asked, s.Planning)
		}
	})
	t.Run("LIFE-5 LIFE-7a an answer is recorded where the run was paused in between, and not where it was stopped", func(t *testing.T) {
		t.Parallel()
		for _, stops := range []bool{false, true} {
			p := requesting(t, begun()...)
			m := &talker{do: func(int, llm.Sink) (llm.Answer, error) {
				if stops {
					p.say(runtest.Failed(p.state(), events.FinishStopped, "stopped"))
				} else {
					p.say(runtest.Paused("wait"))
				}
				return drafts(0, nil)
			}}
			if err := p.deliver(p.executor(m), 1); err != nil {
				t.Fatal(err)
			}
			s := p.state()
			if stops && s.Sequence != 4 || !stops && (s.Planning.Answered != 5 || s.Status != events.Paused) {
				t.Errorf("stops %v: %s, %d events", stops, s.Status, s.Sequence)
			}
		}
	})
	t.Run("PLUS-7 PLUS-13 where the provider is away the request is made again, later each time, and in the end the run waits for a person", func(t *testing.T) {
		t.Parallel()
		p := requesting(t, begun()...)
		m := &talker{do: func(int, llm.Sink) (llm.Answer, error) {
			return llm.Answer{}, &llm.Error{Class: llm.Transient, Err: errors.New("overloaded")}
		}}
		r, last := p.executor(m), time.Duration(0)
		r.cfg.MaxWait = 10 * time.Minute
		if err := p.deliver(r, 1); err != nil {
			t.Fatal(err)
		}
		begin := p.now
		for n := 1; !p.state().Planning.Outage.Pause; n++ {
			s := p.state()
			wait := s.Planning.NotBefore.Sub(p.now)
			if s.Planning.Attempt != n || wait < min(2*last, turn.MaxDelay) || len(p.st.TimersSet()) != 1 {
				t.Fatalf("attempt %d is followed by one in %s, after %s, timers %v", s.Planning.Attempt, wait, last, p.st.TimersSet())
			}
			if err := r.Due(t.Context(), "r1", "turn", planTimer, s); err != nil || m.asked != n {
				t.Fatalf("too early: %v, asked %d times", err, m.asked)
			}
			p.now, last = s.Planning.NotBefore, wait
			if err := r.Due(t.Context(), "r1", "turn", planTimer, p.state()); err != nil {
				t.Fatal(err)
			}
		}
		asked := m.asked
		if s, waited := p.state(), p.now.Sub(begin); waited > r.cfg.MaxWait || waited+turn.MaxDelay <= r.cfg.MaxWait || !strings.Contains(s.GivenUp().Error, "overloaded") || s.GivenUp().Provider != "scripted" {
			t.Errorf("after %s: %+v", waited, s.GivenUp())
		}
		for range 2 { // a timer that fires once more asks nothing before a person resumes the run
			p.now = p.now.Add(time.Hour)
			if err := r.Due(t.Context(), "r1", "turn", planTimer, p.state()); err != nil || m.asked != asked {
				t.Fatalf("%v, asked %d times", err, m.asked)
			}
		}
		p.say(runtest.PausedClock("provider"), runtest.Resumed())
		m.do = drafts
		s := p.state()
		if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.RunResumed, Sequence: s.Sequence, State: s, Deliveries: 1}); err != nil {
			t.Fatal(err)
		}
		if s := p.state(); m.asked != asked+1 || s.Planning.Owed != 0 || s.Planning.Text == "" || len(s.Outages()) != 0 {
			t.Errorf("asked %d times: %+v", m.asked, s.Planning)
		}
	})
	t.Run("PLAN-3 a model whose answer was no plan is shown that answer and what is wrong with it", func(t *testing.T) {
		t.Parallel()
		bad := &events.PlanAnsweredData{Event: "plan_answered", Try: 1, Attempt: 1, Text: "I would begin with tests."}
		p := requesting(t, append(begun(), bad, requestOf(2, "not the JSON that is wanted here"))...)
		s, m := p.state(), &talker{do: drafts}
		req, _, err := planning{p.executor(m)}.request(t.Context(), s, turn.PlanTask{Try: 2, Attempt: 1})
		if err != nil || len(req.Messages) != 3 || req.Messages[1].Text != bad.Text || !strings.Contains(req.Messages[2].Text, "not the JSON that is wanted here") || req.Meta.Turn != 2 || len(req.Schema) == 0 {
			t.Errorf("%v %+v", err, req)
		}
	})
	t.Run("PERS-4 a store that gives no answer does not end a run that waits for its plan", func(t *testing.T) {
		t.Parallel()
		ref := events.Ref{SHA256: strings.Repeat("0", 64), Size: 9, Type: "plan"}
		bad := &events.PlanAnsweredData{Event: "plan_answered", Try: 1, Attempt: 1, Text: "long", TextRef: &ref}
		p, m := requesting(t, append(begun(), bad, requestOf(2, "it is none"))...), &talker{do: drafts}
		r := p.executor(m)
		s := p.state()
		if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.PlanRequested, Sequence: s.Sequence, State: s, Deliveries: 1}); err == nil || p.state().Sequence != s.Sequence || m.asked != 0 {
			t.Errorf("%v, asked %d times, %d events", err, m.asked, p.state().Sequence)
		}
	})
	t.Run("PLAN-1 a long answer is an object that the event names", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("x", events.MaxInlineText+1)
		p, m := requesting(t, begun()...), &talker{do: func(int, llm.Sink) (llm.Answer, error) { return llm.Answer{Text: long, Finish: llm.Done}, nil }}
		if err := p.deliver(p.executor(m), 1); err != nil {
			t.Fatal(err)
		}
		ref := p.state().Planning.TextRef
		if ref == nil {
			t.Fatal("it is in the event")
		}
		if b, err := p.st.Blobs().Get(t.Context(), *ref); err != nil || string(b) != long {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}
