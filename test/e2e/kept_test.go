package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// spoken gives a station whose model speaks by hand and whose services publish as said; the executor has a connection
// of its own, on which kill takes it away in the middle of a word.
func spoken(t *testing.T, streaming string, said chan<- streaming.Replay) (w *world, hand byHand, executor func() (kill func())) {
	t.Helper()
	server := jettest.Server(t)
	w = worldOn(t, jettest.Connect(t, server, jet.Config{DrainGrace: time.Second}))
	hand = byHand{make(chan llm.Delta)}
	w.ports.Models, w.ports.Replayed = hand, said
	w.tune = func(c *service.Config) { c.Streaming, c.Drain = streaming, time.Second }
	w.agent(events.Agent{Name: "hand", Model: "hand/hand", Prompt: "You speak."}, "")
	w.start(events.Planner, events.Gatekeeper, events.Toolrunner, events.Persister)
	return w, hand, func() func() {
		conn := jettest.Connect(t, server, jet.Config{DrainGrace: time.Second})
		st, err := conn.Station("test")
		if err != nil {
			t.Fatal(err)
		}
		own := *w
		own.ports = all.Ports{Ports: program.Ports(st, "test")}
		own.ports.Models, own.ports.Replayed = hand, said
		h := own.start(events.Executor)
		return func() {
			conn.Close()
			h.stop()
		}
	}
}

func TestKeptStream(t *testing.T) {
	t.Parallel()
	t.Run("OBS-12 PLUS-8 what JetStream keeps is heard by who comes after the executor was killed, and after it was replaced", func(t *testing.T) {
		t.Parallel()
		w, hand, executor := spoken(t, "jetstream", nil)
		kill := executor()
		early := w.viewer("kept")
		w.task(events.Task{ID: "kept", Agent: "hand", Task: "speak"})
		// An answer without a word ends the first turn; it is asked for again.
		hand.pieces <- llm.Delta{Thinking: "nothing to say"}
		hand.pieces <- llm.Delta{}
		w.await("kept", "at its second turn", func(s run.State) bool { return s.Turns().Len() == 1 })
		hand.pieces <- llm.Delta{Thinking: "let me see. "}
		hand.pieces <- llm.Delta{Text: "half of"}
		early.sees(w, "[thinking]nothing to say[end ]let me see. [token]half of")
		kill()
		w.viewer("kept").sees(w, "[thinking]let me see. [token]half of")

		defer executor()()
		w.publish("station.test.run.kept.control", `{"action":"pause"}`)
		w.await("kept", "paused", func(s run.State) bool { return s.Status == events.Paused })
		w.publish("station.test.run.kept.control", `{"action":"resume"}`)
		hand.pieces <- llm.Delta{Text: "the whole"}
		early.sees(w, "[token]the whole")
		w.viewer("kept").sees(w, "[token]the whole")
		hand.pieces <- llm.Delta{Text: " story"}
		hand.pieces <- llm.Delta{}
		early.sees(w, "[token]the whole story[end ]")
		if s := w.ended("kept"); s.Result.Output != "the whole story" {
			t.Errorf("the log says %q", s.Result.Output)
		}
	})
	t.Run("OBS-12 a Go channel hears all of it and no watcher does; by option NATS and JetStream hear it too, each byte once", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ streaming, watched string }{{"channel", ""}, {"channel, nats,jetstream", "[token]Once upon a time."}} {
			said := make(chan streaming.Replay, 64) // more than is said
			w, hand, executor := spoken(t, c.streaming, said)
			defer executor()()
			v := w.viewer("told")
			w.task(events.Task{ID: "told", Agent: "hand", Task: "speak"})
			hand.pieces <- llm.Delta{Text: "Once upon "}
			hand.pieces <- llm.Delta{Text: "a time."}
			if c.watched != "" {
				v.sees(w, c.watched)
				w.viewer("told").sees(w, c.watched)
			}
			hand.pieces <- llm.Delta{}
			w.ended("told")
			var received strings.Builder
			j := streaming.NewJoiner(func(p streaming.Piece) { received.WriteString(p.Content) })
			for len(said) > 0 {
				m := <-said
				j.Take(m.Data)
			}
			if received.String() != "Once upon a time." {
				t.Errorf("%s: the channel heard %q", c.streaming, received.String())
			}
			kept, _, err := w.st.Replay(w.ctx(), "told", 0)
			if err != nil || (len(kept) > 0) != (c.watched != "") {
				t.Errorf("%s: %d messages are kept: %v", c.streaming, len(kept), err)
			}
			v.mu.Lock()
			if c.watched == "" && v.text != "" {
				t.Errorf("%s: a watcher was told %q", c.streaming, v.text)
			}
			v.mu.Unlock()
		}
	})
	t.Run("OBS-12 OBS-13 no publisher says nothing, and NATS alone keeps nothing", func(t *testing.T) {
		t.Parallel()
		for streaming, want := range map[string]string{"none": "", "nats": "[token]unheard"} {
			w, hand, executor := spoken(t, streaming, nil)
			defer executor()()
			v := w.viewer("quiet")
			w.task(events.Task{ID: "quiet", Agent: "hand", Task: "speak"})
			hand.pieces <- llm.Delta{Text: "unheard"}
			if want != "" {
				v.sees(w, want)
			}
			hand.pieces <- llm.Delta{}
			w.ended("quiet")
			if kept, _, err := w.st.Replay(w.ctx(), "quiet", 0); err != nil || len(kept) > 0 {
				t.Errorf("%s: %d messages are kept: %v", streaming, len(kept), err)
			}
			v.mu.Lock()
			if want == "" && v.text != "" {
				t.Errorf("a watcher was told %q", v.text)
			}
			v.mu.Unlock()
		}
	})
}
