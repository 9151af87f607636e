package e2e

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestInterrupt(t *testing.T) {
	t.Parallel()
	half, whole := llmtest.Stuck(speech("half of it")[:2]...), llmtest.Stream(speech("the rest")...)
	interrupted := func(t *testing.T) (*world, *llmtest.Server, run.State) {
		t.Helper()
		w, server := providing(t, nil, half, whole)
		w.task(events.Task{ID: "cut", Agent: "asker", Task: "ask"})
		w.viewer("cut").sees(w, "[token]half of it")
		w.control("cut", events.Control{Action: "pause", Interrupt: true, By: "anna"})
		s := w.await("cut", "interrupted", func(s run.State) bool { return s.Turns().Len() == 1 })
		return w, server, s
	}
	t.Run("LIFE-3 an interrupt keeps what the model said so far, counts its tokens, and the resumed run goes on from it", func(t *testing.T) {
		t.Parallel()
		w, server, s := interrupted(t)
		said := s.Turns().At(0)
		if !paused(s) || said.Text != "half of it" || !said.Interrupted || said.FinishReason != events.FinishInterrupted || len(said.Calls) > 0 {
			t.Fatalf("%s %+v", s.Status, said)
		}
		if said.InputTokens <= 0 || said.OutputTokens <= 0 || s.Tokens.Total() != said.InputTokens+said.OutputTokens {
			t.Errorf("%d+%d tokens of the turn, %d of the run", said.InputTokens, said.OutputTokens, s.Tokens.Total())
		}
		if server.Requests() != 1 {
			t.Errorf("%d requests while the run is paused", server.Requests())
		}
		w.control("cut", events.Control{Action: "resume"})
		s = w.ended("cut")
		if s.Status != events.Completed || s.Result.Output != "the rest" || s.Turns().Len() != 2 || server.Requests() != 2 {
			t.Errorf("%d requests\n%s", server.Requests(), w.story("cut"))
		}
		asked := string(server.Last())
		if at := strings.Index(asked, "half of it"); at < 0 || !strings.Contains(asked[at:], "a person interrupted your answer here") {
			t.Errorf("the model does not read what it said: %s", asked)
		}
	})
	t.Run("LIFE-3 a run that is stopped after an interrupt ends with the text in its log, and nothing behind the end", func(t *testing.T) {
		t.Parallel()
		w, server, _ := interrupted(t)
		w.control("cut", events.Control{Action: "stop"})
		s := w.ended("cut")
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped || s.Turns().At(0).Text != "half of it" || server.Requests() != 1 {
			t.Errorf("%s", w.story("cut"))
		}
	})
	t.Run("LIFE-3 interrupt goes with a pause alone", func(t *testing.T) {
		t.Parallel()
		w, _ := providing(t, nil, whole)
		w.task(events.Task{ID: "done", Agent: "asker", Task: "ask"})
		w.control("done", events.Control{Action: "stop", Interrupt: true})
		if s := w.ended("done"); s.Status != events.Completed {
			t.Errorf("%s", w.story("done"))
		}
	})
}
