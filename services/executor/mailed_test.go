package executor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// urgentBox is a mailbox with one message that interrupts; looks counts who looked before it came.
type urgentBox struct {
	there bool
	looks int
}

func (b *urgentBox) Inject(_, step string, has func(id string) bool, _ time.Time) *events.MailInjectedData {
	if !b.there || has("m1") {
		return nil
	}
	d := runtest.Mail(step, "m1")
	d.Text = "Mail has come: | Stop, the disk is full."
	return d
}

func (b *urgentBox) Interrupted(_ string, has func(id string) bool, _ time.Time) bool {
	if b.looks++; b.looks == -1 {
		b.there = true // it comes between the look at the mail and the request
	}
	return b.there && !has("m1")
}

// woken is working as the run of an address.
func woken() []events.Payload {
	return append([]events.Payload{runtest.WokenCreated()}, working()[1:]...)
}

// mailed gives an executor a mailbox.
func (p *requester) mailed(m Models, box *urgentBox) *Role {
	p.t.Helper()
	r := p.replica(m)
	r.cfg.Mail = func(context.Context, string) (Mailbox, error) { return box, nil }
	return r
}

// mailComes has mail end the answer, as a planner does.
func (p *requester) mailComes(r *Role, box *urgentBox) {
	p.t.Helper()
	box.there = true
	p.say(runtest.Interrupting("m1"))
	last, ok, err := p.st.Journal().Last(p.t.Context(), "r1")
	if err != nil || !ok {
		p.t.Fatal(ok, err)
	}
	for _, id := range []string{"other", "r1", "r1"} {
		r.cfg.Interrupts.Republished(id, kernel.Record{Kind: events.MailInterrupted, Bytes: last.Bytes})
	}
}

// reads is what a model was asked behind a text of its own.
func reads(q llm.Request, behind string) string {
	var b strings.Builder
	for _, m := range q.Messages {
		b.WriteString(m.Text + "\n")
	}
	_, rest, _ := strings.Cut(b.String(), behind)
	return rest
}

func TestMailInterrupts(t *testing.T) {
	t.Parallel()
	t.Run("MSG-1 an answer ends at once, its text is kept with estimated tokens, and the mail is what the model reads next", func(t *testing.T) {
		t.Parallel()
		p, m, box := requesting(t, woken()...), &cut{text: "I delete the ", spoke: make(chan struct{})}, &urgentBox{}
		r := p.mailed(m, box)
		ended := make(chan struct{})
		go func() { p.allow(r, 1); close(ended) }()
		<-m.spoke
		p.mailComes(r, box)
		<-ended
		s := p.state()
		said := s.Turns().At(0)
		if said.Text != "I delete the " || !said.Interrupted || said.FinishReason != events.FinishMailed || said.InputTokens == 0 ||
			said.OutputTokens == 0 {
			t.Errorf("%+v", said)
		}
		if s.Step("a").Output != "done" || s.Turns().Len() != 2 || len(m.asked) != 2 || len(s.Messages) != 1 || s.Messages[0].After != 1 {
			t.Fatalf("asked %d times, %+v", len(m.asked), s.Messages)
		}
		next := reads(m.asked[1], "I delete the ")
		if note, mail := strings.Index(next, "mail that has come for you"), strings.Index(next, "| Stop, the disk is full."); note < 0 || mail < note {
			t.Errorf("the model reads %q", next)
		}
		before := s.Sequence
		r.cfg.Interrupts.Republished("r1", kernel.Record{Kind: events.MailInterrupted})
		p.allow(r, 2) // law 1: late, and twice
		if s = p.state(); s.Sequence != before || len(m.asked) != 2 {
			t.Errorf("asked %d times, %d events after %d", len(m.asked), s.Sequence, before)
		}
	})
	t.Run("MSG-1 law 2: a crash at each place between is completed by the next delivery, with the mail once", func(t *testing.T) {
		t.Parallel()
		said := runtest.Turn(1, "a", "I delete the ")
		said.Interrupted, said.FinishReason = true, events.FinishMailed
		for name, history := range map[string][]events.Payload{
			"behind the interrupt": append(woken(), runtest.Interrupting("m1")),
			"behind the text":      append(woken(), runtest.Interrupting("m1"), said),
			"behind the mail":      append(woken(), runtest.Interrupting("m1"), said, runtest.Mail("a", "m1")),
			"no text":              append(woken(), runtest.Interrupting("m1"), runtest.Mail("a", "m1")),
		} {
			p, m := requesting(t, history...), &cut{spoke: make(chan struct{}), asked: make([]llm.Request, 1)}
			p.allow(p.mailed(m, &urgentBox{there: true}), 2)
			s := p.state()
			if s.Step("a").Status != events.StepIsCompleted || len(s.Messages) != 1 || len(m.asked) != 2 {
				t.Errorf("%s: asked %d times, %s, %+v", name, len(m.asked)-1, s.Step("a").Status, s.Messages)
			}
		}
	})
	t.Run("MSG-1 mail that comes between the look at the mailbox and the request is given to that turn", func(t *testing.T) {
		t.Parallel()
		p, m, box := requesting(t, woken()...), &cut{spoke: make(chan struct{}), asked: make([]llm.Request, 1)}, &urgentBox{looks: -2}
		p.allow(p.mailed(m, box), 1)
		if s := p.state(); len(m.asked) != 2 || len(s.Messages) != 1 || s.Turns().Len() != 1 || !strings.Contains(reads(m.asked[1], ""), "the disk is full") {
			t.Errorf("asked %d times, %+v", len(m.asked)-1, s.Messages)
		}
	})
	t.Run("MSG-1 the answer of an agent that is not the one with the address goes on", func(t *testing.T) {
		t.Parallel()
		i := NewInterrupts()
		mine, done := i.begin(t.Context(), request{run: "r1", mailed: true})
		defer done()
		others, done := i.begin(t.Context(), request{run: "r1"})
		defer done()
		i.Republished("r1", kernel.Record{Kind: events.MailInterrupted})
		if mine.Err() == nil || others.Err() != nil {
			t.Errorf("%v, %v", mine.Err(), others.Err())
		}
	})
}

// busy is a model in whose first answer something else happens.
type busy struct {
	meanwhile func()
	asked     []llm.Request
}

func (m *busy) Model(string) (llm.Model, string, error) { return m, "test", nil }

func (m *busy) Ask(_ context.Context, req llm.Request, _ llm.Sink) (llm.Answer, error) {
	if m.asked = append(m.asked, req); len(m.asked) == 1 {
		m.meanwhile()
	}
	return llm.Answer{Text: "done", Finish: llm.Done, Usage: llm.Usage{Input: 7, Output: 1}}, nil
}

// patientBox is a mailbox whose message interrupts no one.
type patientBox struct{ *urgentBox }

func (patientBox) Interrupted(string, func(string) bool, time.Time) bool { return false }

// given has another executor give the turn mail.
func (p *requester) given(id string) {
	p.t.Helper()
	_, err := p.ledger(events.Executor).Write(p.t.Context(), "r1", func(run.State, time.Time) ([]events.Payload, error) {
		return []events.Payload{runtest.Mail("a", id)}, nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestMailOfAnotherExecutor(t *testing.T) {
	t.Parallel()
	t.Run("MSG-4 SAFE-7 mail that another executor gave the same turn is in the prompt of this one", func(t *testing.T) {
		t.Parallel()
		p, m := requesting(t, woken()...), &busy{meanwhile: func() {}}
		r, before := p.mailed(m, &urgentBox{}), p.state()
		r.cfg.Mail = func(context.Context, string) (Mailbox, error) { return patientBox{&urgentBox{there: true}}, nil }
		p.given("m1")
		if err := r.serve(t.Context(), "r1", "a", before, 0); err != nil {
			t.Fatal(err)
		}
		if s := p.state(); len(m.asked) != 1 || s.Step("a").Output != "done" || !strings.Contains(reads(m.asked[0], ""), "Mail has come.") {
			t.Errorf("%+v, %s", m.asked, s.Step("a").Status)
		}
	})
	t.Run("MSG-4 SAFE-7 an answer to a prompt without mail that another executor gave meanwhile does not count, and the model is asked with it", func(t *testing.T) {
		t.Parallel()
		p, m := requesting(t, woken()...), &busy{}
		m.meanwhile = func() { p.given("m1") }
		p.allow(p.mailed(m, &urgentBox{}), 1)
		if s := p.state(); len(m.asked) != 2 || s.Turns().Len() != 1 || s.Step("a").Output != "done" || !strings.Contains(reads(m.asked[1], ""), "Mail has come.") {
			t.Errorf("asked %d times, %d turns, %s", len(m.asked), s.Turns().Len(), s.Step("a").Status)
		}
	})
}
