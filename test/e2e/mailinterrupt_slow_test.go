//go:build slow

package e2e

import (
	"testing"

	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

func TestMailInterruptsKilled(t *testing.T) {
	t.Parallel()
	t.Run("MSG-1 law 2: services that are killed between the interrupt and the turn after it give the mail once", func(t *testing.T) {
		t.Parallel()
		server := llmtest.Serve(t, llmtest.Stuck(speech("I delete the ")[:2]...), llmtest.Stuck(speech("I st")[:2]...), llmtest.Stream(speech("I stopped.")...))
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.AnthropicKey, c.AnthropicBaseURL = secret.New(llmtest.Key), server.URL }
		w.agent(events.Agent{Name: "asker", Model: "anthropic/claude-x"}, "")
		services := w.start()
		w.registerAddress("web/worker/nux", events.AddressSpec{Agent: "asker", Interrupts: events.InterruptsOfAll})
		w.send("web/worker/nux", events.MailDraft{ID: "m1", Body: "Clean up."})
		id := w.boxIs("web/worker/nux", "at work", func(s mailbox.State) bool { return s.Holder != nil && s.Holder.Started }).Holder.Run
		w.viewer(id).sees(w, "[token]I delete the ")
		w.send("web/worker/nux", urgent("m2", "Stop: it is the wrong disk."))
		w.until("the request after the interrupt", func() bool { return server.Requests() == 2 })
		services.stop()
		w.start()
		w.boxIs("web/worker/nux", "idle again", left("m2"))
		s := w.ended(id)
		if got := w.shows("web/worker/nux"); got["m1"] != 1 || got["m2"] != 1 || s.Result.Output != "I stopped." || server.Requests() != 3 {
			t.Errorf("%v, %d requests\n%s", got, server.Requests(), w.story(id))
		}
		if n := w.count(id)[string(events.MailInterrupted)]; n != 1 {
			t.Errorf("%d interrupts", n)
		}
	})
}
