package executor

import (
	"context"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

// cut is a model that says a text, reports so, and then waits for the end of the request; asked again it is done.
type cut struct {
	text  string
	spoke chan struct{}
	asked []llm.Request
}

func (m *cut) Model(string) (llm.Model, string, error) { return m, "test", nil }

func (m *cut) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	if m.asked = append(m.asked, req); len(m.asked) > 1 {
		return llm.Answer{Text: "done", Finish: llm.Done, Usage: llm.Usage{Input: 7, Output: 1}}, nil
	}
	sink(llm.Delta{Text: m.text})
	close(m.spoke)
	<-ctx.Done()
	return llm.Answer{}, ctx.Err()
}

// replica is an executor of the run that asks m.
func (p *requester) replica(m Models) *Role {
	p.t.Helper()
	tools, err := tool.NewRegistry()
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := New(Config{Ledger: p.ledger(events.Executor), Timers: p.st.Timers(), Blobs: p.st.Blobs(), Live: streaming.New(p.st.Live()), Models: m, Tools: tools,
		Interrupts: NewInterrupts()})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// interrupt pauses the run as a person who interrupts it does, and has an executor receive that as it is stored.
func (p *requester) interrupt(r *Role) {
	p.t.Helper()
	d := runtest.PausedClock("a person")
	d.Interrupt = true
	p.say(d)
	last, ok, err := p.st.Journal().Last(p.t.Context(), "r1")
	if err != nil || !ok {
		p.t.Fatal(ok, err)
	}
	r.cfg.Interrupts.Republished("other", kernel.Record{Kind: events.RunPaused, Bytes: last.Bytes}) // no run of ours
	r.cfg.Interrupts.Republished("r1", kernel.Record{Kind: events.RunPaused, Bytes: last.Bytes})
	r.cfg.Interrupts.Republished("r1", kernel.Record{Kind: events.RunPaused, Bytes: last.Bytes}) // twice
}

// resume lets the run go on, and delivers that.
func (p *requester) resume(r *Role, deliveries uint64) {
	p.t.Helper()
	if s := p.state(); s.Status == events.Paused {
		p.say(runtest.Resumed())
	}
	s := p.state()
	if err := r.Event(p.t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.RunResumed, Sequence: s.Sequence, State: s, Deliveries: deliveries}); err != nil {
		p.t.Fatal(err)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, text string) (*requester, *cut, *Role) {
		t.Helper()
		p, m := requesting(t, working()...), &cut{text: text, spoke: make(chan struct{})}
		r := p.replica(m)
		ended := make(chan struct{})
		go func() { p.allow(r, 1); close(ended) }()
		<-m.spoke
		p.interrupt(r)
		<-ended
		return p, m, r
	}
	t.Run("LIFE-3 what was said is in the log with estimated tokens, and the next prompt has it", func(t *testing.T) {
		t.Parallel()
		p, m, r := begin(t, "I look at the ")
		s := p.state()
		if s.Status != events.Paused || s.Turns().Len() != 1 {
			t.Fatalf("%s, %d turns", s.Status, s.Turns().Len())
		}
		said, st := s.Turns().At(0), s.Step("a")
		if said.Text != "I look at the " || !said.Interrupted || said.InputTokens == 0 || said.OutputTokens == 0 || s.Tokens.Total() == 0 {
			t.Errorf("%+v", said)
		}
		if st.Status != events.StepIsRunning || st.Final || st.Owed != s.Sequence {
			t.Errorf("%+v at %d", st, s.Sequence)
		}
		p.allow(r, 2) // the same delivery again, as after a crash: the run is paused
		if len(m.asked) != 1 || p.state().Sequence != s.Sequence {
			t.Errorf("asked %d times, %d events", len(m.asked), p.state().Sequence)
		}
		p.resume(r, 1)
		s = p.state()
		if s.Step("a").Status != events.StepIsCompleted || s.Step("a").Output != "done" || len(m.asked) != 2 {
			t.Fatalf("asked %d times: %+v", len(m.asked), s.Step("a"))
		}
		var seen bool
		for i, msg := range m.asked[1].Messages {
			if msg.Role == llm.Assistant && msg.Text == "I look at the " && i+1 < len(m.asked[1].Messages) {
				seen = strings.Contains(m.asked[1].Messages[i+1].Text, "a person interrupted your answer here")
			}
		}
		if !seen {
			t.Errorf("%+v", m.asked[1].Messages)
		}
		p.resume(r, 2) // law 1
		if p.state().Sequence != s.Sequence || len(m.asked) != 2 {
			t.Error("a second look answered")
		}
	})
	t.Run("LIFE-3 where nothing was said nothing is kept, and the resumed run takes the same turn", func(t *testing.T) {
		t.Parallel()
		p, m, r := begin(t, " ")
		if s := p.state(); s.Turns().Len() != 0 || s.Status != events.Paused {
			t.Fatalf("%d turns", s.Turns().Len())
		}
		p.resume(r, 1)
		if s := p.state(); s.Turns().Len() != 1 || s.Step("a").Status != events.StepIsCompleted || len(m.asked) != 2 {
			t.Errorf("asked %d times: %+v", len(m.asked), s.Step("a"))
		}
	})
	t.Run("LIFE-3 law 2: a crash behind the text is completed by the next delivery, whichever it is", func(t *testing.T) {
		t.Parallel()
		d := runtest.Turn(1, "a", "I look")
		d.Interrupted, d.FinishReason = true, events.FinishInterrupted
		for name, history := range map[string][]events.Payload{
			"the run is still paused":        append(working(), runtest.PausedClock("a person"), d),
			"it was resumed before the text": append(working(), runtest.PausedClock("a person"), runtest.Resumed(), d),
		} {
			p, m := requesting(t, history...), &cut{spoke: make(chan struct{}), asked: make([]llm.Request, 1)}
			r := p.replica(m)
			p.allow(r, 2)
			if p.state().Status == events.Paused {
				if len(m.asked) != 1 {
					t.Errorf("%s: asked while paused", name)
				}
				p.resume(r, 1)
			}
			if s := p.state(); s.Step("a").Status != events.StepIsCompleted || s.Turns().Len() != 2 || len(m.asked) != 2 {
				t.Errorf("%s: asked %d times, %+v", name, len(m.asked), s.Step("a"))
			}
		}
	})
	t.Run("LIFE-2 a text that comes after the end of the run is not stored", func(t *testing.T) {
		t.Parallel()
		p, m := requesting(t, working()...), &cut{text: "late", spoke: make(chan struct{})}
		r := p.replica(m)
		ended := make(chan struct{})
		go func() { p.allow(r, 1); close(ended) }()
		<-m.spoke
		p.say(runtest.Failed(p.state(), events.FinishStopped, "stopped"))
		d := runtest.PausedClock("a person") // stored before the end, and received after it
		d.Interrupt = true
		late := runtest.New("s1", "r1").Append(append(working(), d)...)
		r.cfg.Interrupts.Republished("r1", kernel.Record{Kind: events.RunPaused, Bytes: late[len(late)-1]})
		<-ended
		if s := p.state(); s.Turns().Len() != 0 || s.Status != events.Failed {
			t.Errorf("%s with %d turns", s.Status, s.Turns().Len())
		}
	})
}
