package e2e

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

const review = "---\nmodel: scripted/%\nharness: agentic\noutput:\n  format: json\n  schema:\n    verdict(enum): [good, bad]\n    \"notes?(array)\": string\n---\nReview it.\n"

func TestOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, script := range map[string]string{
		"fits":    "turns:\n  - text: \"```json\\n{\\\"verdict\\\":\\\"good\\\",\\\"notes\\\":[\\\"x\\\"]}\\n```\"\n",
		"mends":   "turns:\n  - when: {message: {contains: \"cannot be used\"}}\n    text: '{\"verdict\":\"bad\"}'\n  - text: It is bad.\n",
		"refuses": "turns:\n  - text: '{\"verdict\":\"ugly\"}'\n",
	} {
		a, _, err := agentfile.Parse(name, []byte(strings.Replace(review, "%", name, 1)))
		if err != nil {
			t.Fatal(err)
		}
		w.agent(a, script)
	}
	w.agent(events.Agent{Name: "silent"}, "turns:\n  - text: \"  \"\n")
	w.agent(events.Agent{Name: "garbled", Tools: []string{"bash"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: "{\"command\": "}
  - when: {turn: 2}
    text: "Told: {{result.1}}"
`)
	w.agent(events.Agent{Name: "declines"}, "turns:\n  - text: I do not do that.\n    finish: refusal\n")
	w.agent(events.Agent{Name: "cut", Tools: []string{"bash"}}, `
turns:
  - when: {attempt: 1}
    text: I call the
    error: {class: transient, message: "the stream ended in the middle of a tool call"}
  - text: Whole.
`)
	w.start()
	ask := func(t *testing.T, agent string) (out *events.Result, turns, deferred int) {
		w := w.on(t)
		w.task(events.Task{ID: agent, Agent: agent, Task: "go"})
		s := w.ended(agent)
		return s.Result, s.Turns().Len(), w.count(agent)["turn.deferred"]
	}
	t.Run("DLV-9 an answer that fits is the output, without its fence", func(t *testing.T) {
		if r, turns, _ := ask(t, "fits"); r.Output != `{"verdict":"good","notes":["x"]}` || turns != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("DLV-9 an answer that does not fit is told, and asked for once more", func(t *testing.T) {
		if r, turns, _ := ask(t, "mends"); !r.Success || r.Output != `{"verdict":"bad"}` || turns != 2 {
			t.Errorf("%d turns: %+v", turns, r)
		}
	})
	t.Run("DLV-9 LOOP-4 an answer that does not fit the second time fails the run with its own reason", func(t *testing.T) {
		if r, turns, _ := ask(t, "refuses"); r.FinishReason != events.FinishOutput || turns != 2 || !strings.Contains(r.Error, "/verdict") {
			t.Errorf("%d turns: %+v", turns, r)
		}
	})
	t.Run("LOOP-4 an answer without a word is told, and fails the run with its own reason the second time", func(t *testing.T) {
		if r, turns, _ := ask(t, "silent"); r.FinishReason != events.FinishEmpty || turns != 2 || !strings.Contains(r.Error, "said nothing") {
			t.Errorf("%d turns: %+v", turns, r)
		}
	})
	t.Run("TOOL-5 arguments that are no JSON are refused, the model is told, and the run goes on", func(t *testing.T) {
		if r, turns, _ := ask(t, "garbled"); !r.Success || turns != 2 || r.ToolCallCount != 0 {
			t.Errorf("%d turns: %+v", turns, r)
		}
		s := w.state("garbled")
		if c := s.ToolCallHistory.At(0); c.Code != events.RefusedInput || c.Result == "" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("LOOP-4 a refusal fails the run with its own reason", func(t *testing.T) {
		if r, _, _ := ask(t, "declines"); r.FinishReason != events.FinishRefusal || !strings.Contains(r.Error, "refused") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("PLUS-7 a stream that is cut in the middle is asked for again, and nothing of it is kept", func(t *testing.T) {
		if r, turns, deferred := ask(t, "cut"); !r.Success || r.Output != "Whole." || turns != 1 || deferred != 1 {
			t.Errorf("%d turns, %d deferred: %+v", turns, deferred, r)
		}
	})
}
