package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const shouter = `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "echo loud > loud.txt"}}
  - when: {turn: 2}
    text: "Result: {{result.1}}"
`

// answerAs publishes an answer in somebody's name.
func (w *world) answerAs(g events.GateOpenedData, by string, a events.Answer) {
	w.t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(g.AnswerSubject+"."+by, string(b))
}

func TestGateTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "careful", Tool: "bash", Action: "ask"}}
	never := append([]events.Rule{{ID: "no-secrets", Tool: "bash", Match: events.Match{Glob: "*secret*"}, Action: "deny"}}, ask...)
	hasty := events.Rule{ID: "hasty", Tool: "bash", Action: "ask", Gate: events.GateTerms{ExpiresMS: 200}}
	w.agent(events.Agent{Name: "shouter", Tools: []string{"bash"}, Guards: never}, shouter)
	w.agent(events.Agent{Name: "several", Tools: []string{"bash"}, Guards: ask, Gates: events.GateTerms{Approvers: 2}}, shouter)
	w.agent(events.Agent{Name: "hasty", Tools: []string{"bash"}, Guards: []events.Rule{hasty}}, shouter)
	hasty.Gate.OnExpiry = events.ExpiryFails
	w.agent(events.Agent{Name: "strict", Tools: []string{"bash"}, Guards: []events.Rule{hasty}}, shouter)
	letters := w.letters()
	roles, whole := w.start(), w
	workspace := func(runID, file string) string {
		b, _ := os.ReadFile(filepath.Join(w.dir, "work", "run", runID, file))
		return string(b)
	}

	t.Run("SAFE-10 SAFE-9 what runs is what was edited, and the agent is told; late and contradictory answers change nothing", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "edit", Agent: "shouter", Task: "shout"})
		w.await("edit", "waiting", waiting)
		g := w.opened("edit")
		w.answerAs(g, "anna", events.Answer{Decision: "approve", EditedInput: json.RawMessage(`{"command":"cat secret"}`)})
		if d := w.letter(letters); d.Code != events.RefusedGuard || !strings.Contains(d.Reason, "no-secrets") {
			t.Fatalf("%+v", d)
		}
		edited := events.Answer{Decision: "approve", ProposalHash: g.ProposalHash, EditedInput: json.RawMessage(`{ "command": "echo soft > soft.txt; echo '<done>'" }`)}
		w.answerAs(g, "anna", edited)
		s := w.ended("edit")
		if s.Status != events.Completed || workspace("edit", "soft.txt") != "soft\n" || workspace("edit", "loud.txt") != "" {
			t.Fatalf("%+v, soft %q, loud %q", s.Result, workspace("edit", "soft.txt"), workspace("edit", "loud.txt"))
		}
		if r := s.ToolCallHistory.At(0); !r.Edited || !strings.Contains(string(r.Arguments), "soft.txt") {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(s.Result.Output, "changed the arguments") || !strings.Contains(s.Result.Output, "echo soft > soft.txt") {
			t.Errorf("the agent was not told: %q", s.Result.Output)
		}
		w.answerAs(g, "bert", events.Answer{Decision: "reject"})
		if d := w.letter(letters); d.Code != "gate_closed" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("SAFE-10 a gate of two waits for the second, through a restart; one of them is not enough", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "two", Agent: "several", Task: "shout", By: "olga"})
		w.await("two", "waiting", waiting)
		g := w.opened("two")
		if g.Approvers != 2 {
			t.Fatalf("%+v", g)
		}
		w.answerAs(g, "olga", events.Answer{Decision: "approve"})
		if d := w.letter(letters); d.Code != "own_request" {
			t.Errorf("%+v", d)
		}
		w.answerAs(g, "anna", events.Answer{Decision: "approve"})
		s := w.await("two", "voted", func(s run.State) bool { return len(s.Gates[0].Votes) == 1 })
		if !waiting(s) {
			t.Fatal("one vote was enough")
		}
		roles.stop()
		w.answerAs(g, "anna", events.Answer{Decision: "approve"})
		roles = whole.start()
		if d := w.letter(letters); d.Code != "already_voted" {
			t.Errorf("%+v", d)
		}
		w.answerAs(g, "bert", events.Answer{Decision: "approve"})
		if s := w.ended("two"); s.Status != events.Completed || len(s.Gates[0].Votes) != 2 || s.Gates[0].By != "bert" {
			t.Errorf("%+v %+v", s.Result, s.Gates[0])
		}
	})
	t.Run("SAFE-10 no one answers: the run pauses as for a no, and goes on without the call; a late yes is refused", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "late", Agent: "hasty", Task: "shout"})
		s := w.await("late", "paused", func(s run.State) bool { return s.Status == events.Paused })
		if s.Gates[0].Status != run.GateExpired || !strings.HasPrefix(s.PauseReason, "gate expired") {
			t.Fatalf("%q %+v", s.PauseReason, s.Gates[0])
		}
		w.answerAs(w.opened("late"), "anna", events.Answer{Decision: "approve"})
		if d := w.letter(letters); d.Code != "gate_expired" {
			t.Errorf("%+v", d)
		}
		w.publish("station.test.run.late.control", `{"action":"resume"}`)
		if s := w.ended("late"); s.Status != events.Completed || workspace("late", "loud.txt") != "" || s.ToolCallHistory.At(0).Code != events.RefusedByPerson {
			t.Errorf("%+v %+v", s.Result, s.ToolCallHistory.At(0))
		}
	})
	t.Run("SAFE-10 no one answers, and the gate was one that ends its run", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "strict", Agent: "strict", Task: "shout"})
		if s := w.ended("strict"); s.Status != events.Failed || s.Result.FinishReason != events.FinishExpired || workspace("strict", "loud.txt") != "" {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("SAFE-10 the timer is lost: the first who answers late is refused, and the gate expires by that", func(t *testing.T) {
		w := w.on(t)
		roles.stop()
		w.ports.Timers = lostTimers{}
		w.start()
		w.task(events.Task{ID: "lost", Agent: "hasty", Task: "shout"})
		s := w.await("lost", "waiting", waiting)
		w.await("lost", "past its time", func(run.State) bool { return w.now().After(s.Gates[0].ExpiresAt) })
		if s := w.state("lost"); s.Gates[0].Status != run.GatePending {
			t.Fatalf("without a timer it is %s", s.Gates[0].Status)
		}
		w.answerAs(w.opened("lost"), "anna", events.Answer{Decision: "approve"})
		if d := w.letter(letters); d.Code != "gate_expired" {
			t.Errorf("%+v", d)
		}
		w.await("lost", "paused", func(s run.State) bool { return s.Status == events.Paused && s.Gates[0].Status == run.GateExpired })
	})
}
