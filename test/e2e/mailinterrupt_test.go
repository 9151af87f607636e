package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// urgent is a message that interrupts.
func urgent(id, body string) events.MailDraft {
	return events.MailDraft{ID: id, Body: body, Priority: "urgent", Interrupt: true}
}

func TestMailInterrupts(t *testing.T) {
	t.Parallel()
	t.Run("MSG-1 MSG-4 mail ends the answer at once: the text is kept, and the mail is what the model is shown next, once", func(t *testing.T) {
		t.Parallel()
		w, server := providing(t, nil, llmtest.Stuck(speech("I delete the ")[:2]...), llmtest.Stream(speech("I stopped.")...))
		w.registerAddress("web/worker/nux", events.AddressSpec{Agent: "asker", Interrupts: events.InterruptsOfPeople})
		w.send("web/worker/nux", events.MailDraft{ID: "m1", Body: "Clean up."})
		id := w.boxIs("web/worker/nux", "at work", func(s mailbox.State) bool { return s.Holder != nil && s.Holder.Started }).Holder.Run
		w.viewer(id).sees(w, "[token]I delete the ")
		w.send("web/worker/nux", events.MailDraft{ID: "m2", Body: "Have a nice day."})
		w.boxIs("web/worker/nux", "given one more", func(s mailbox.State) bool { return s.Waits("m2") })
		w.send("web/worker/nux", urgent("m3", "Stop: it is the wrong disk."))
		w.send("web/worker/nux", urgent("m3", "Stop: it is the wrong disk."))
		w.boxIs("web/worker/nux", "idle again", left("m3"))
		s := w.ended(id)
		said := s.Turns().At(0)
		if said.Text != "I delete the " || !said.Interrupted || said.FinishReason != events.FinishMailed || said.InputTokens <= 0 || said.OutputTokens <= 0 {
			t.Errorf("%+v", said)
		}
		if s.Status != events.Completed || s.Result.Output != "I stopped." || s.Turns().Len() != 2 || server.Requests() != 2 || s.Cuts() != 1 {
			t.Errorf("%d requests\n%s", server.Requests(), w.story(id))
		}
		last := s.Messages[len(s.Messages)-1]
		if len(s.Messages) != 2 || last.After != 1 || last.Mail[0] != "m3" || s.Tokens.Total() <= said.InputTokens+said.OutputTokens {
			t.Errorf("%+v", s.Messages)
		}
		asked := string(server.Last())
		at := strings.Index(asked, "I delete the ")
		note, mail := strings.Index(asked, "interrupted your answer here"), strings.Index(asked, "| Stop: it is the wrong disk.")
		if at < 0 || note < at || mail < note || strings.Count(asked, "| Stop: it is the wrong disk.") != 1 {
			t.Errorf("the model reads %s", asked)
		}
		if got := w.shows("web/worker/nux"); got["m1"] != 1 || got["m3"] != 1 {
			t.Errorf("%v", got)
		}
	})
	t.Run("MSG-1 mail interrupts only where the address was registered for it, and nobody else's answer", func(t *testing.T) {
		t.Parallel()
		w, _ := providing(t, nil, llmtest.Stream(speech("Read.")...))
		letters := w.letters()
		w.registerAddress("web/worker/nux", events.AddressSpec{Agent: "asker"})
		w.registerAddress("list/all", events.AddressSpec{Members: []string{"web/worker/nux"}})
		for address, d := range map[string]events.MailDraft{"web/worker/nux": urgent("m1", "Stop."), "list/all": urgent("m2", "Stop.")} {
			w.send(address, d)
			if d := w.letter(letters); d.Code != mailbox.NoInterrupt || !strings.Contains(d.Hint, "without interrupt") {
				t.Errorf("%s: %+v", address, d)
			}
		}
		w.send("web/worker/nux", events.MailDraft{ID: "m3", Body: "Stop.", Interrupt: true})
		if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "urgent") {
			t.Errorf("%+v", d)
		}
		if s := w.box("web/worker/nux"); len(s.Pending) > 0 || s.Epoch != 0 {
			t.Errorf("%+v", s.Mailbox)
		}
	})
}

// noted is a model by hand that says what it was asked.
type noted struct {
	byHand
	asked chan llm.Request
}

func (m noted) Model(string) (llm.Model, string, error) { return m, "hand", nil }

func (m noted) Ask(ctx context.Context, q llm.Request, sink llm.Sink) (llm.Answer, error) {
	select {
	case m.asked <- q:
	case <-ctx.Done():
		return llm.Answer{}, ctx.Err()
	}
	return m.byHand.Ask(ctx, q, sink)
}

func TestWatchedAgent(t *testing.T) {
	t.Parallel()
	t.Run("MSG-13 CONT-5 an agent that is watched by its address asks the model the same as one that is not, and its log is the same", func(t *testing.T) {
		t.Parallel()
		play := func(watched bool) string {
			m := noted{byHand{make(chan llm.Delta)}, make(chan llm.Request)}
			w := newWorld(t)
			w.ports.Models = m
			w.agent(events.Agent{Name: "hand", Model: "hand/hand", Prompt: "You speak."}, "")
			w.start()
			w.registerAddress("web/worker/nux", events.AddressSpec{Agent: "hand"})
			w.send("web/worker/nux", events.MailDraft{ID: "m1", Body: "Clean up."})
			q := <-m.asked
			id := w.box("web/worker/nux").Holder.Run
			m.pieces <- llm.Delta{Text: "Read."}
			if watched {
				w.viewer(id).sees(w, "[token]Read.")
			}
			m.pieces <- llm.Delta{}
			w.boxIs("web/worker/nux", "idle again", left("m1"))
			s := w.ended(id)
			return fmt.Sprintf("%+v\n%s\n%d turns, %v", q.Messages, strings.Join(w.said(id), " "), s.Turns().Len(), w.shows("web/worker/nux"))
		}
		if alone, seen := play(false), play(true); alone != seen {
			t.Errorf("alone:\n%s\nwatched:\n%s", alone, seen)
		}
	})
}
