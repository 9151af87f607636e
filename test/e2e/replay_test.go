package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/replay"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/gatekeeper"
)

var record = flag.Bool("record", false, "write the recorded histories that do not exist yet")

// recorded holds logs of real runs, which are only ever added to.
const recorded = "../histories/recorded"

// lawOf is what verdicts rest on, with rules and terms of a station.
func lawOf(t *testing.T, terms events.GateTerms, rules ...events.Rule) replay.Policy {
	t.Helper()
	registry, err := tool.NewRegistry(tools.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	return replay.Policy{Policy: gatekeeper.Policy(gatekeeper.Config{Tools: registry, Rules: rules, Terms: terms}),
		Knows: func(_ events.Agent, name string) bool { _, ok := registry.Get(name); return ok }}
}

func replayed(t *testing.T, law replay.Policy, log []byte) replay.Report {
	t.Helper()
	r, err := replay.Log(t.Context(), law, bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// log is what inspan export writes.
func (w *world) log(runID string) []byte {
	var b bytes.Buffer
	for _, r := range w.events(runID) {
		b.Write(r.Bytes)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// history lets real runs happen: plans, refusals, retries, gates of every kind, edits, ends, a pause, a fork.
func history(t *testing.T) map[string][]byte {
	w := newWorld(t)
	ask := events.Rule{ID: "careful", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask"}
	hasty := events.Rule{ID: "hasty", Tool: "bash", Action: "ask", Gate: events.GateTerms{ExpiresMS: 50}}
	w.agent(events.Agent{Name: "writer", Tools: []string{"write"}}, writer)
	w.agent(events.Agent{Name: "shouter", Tools: []string{"bash"}, Guards: []events.Rule{ask}}, shouter)
	w.agent(events.Agent{Name: "several", Tools: []string{"bash"}, Guards: []events.Rule{ask}, Gates: events.GateTerms{Approvers: 2}}, shouter)
	w.agent(events.Agent{Name: "hasty", Tools: []string{"bash"}, Guards: []events.Rule{hasty}}, shouter)
	w.agent(events.Agent{Name: "pusher", Tools: []string{"bash", "read"}, MaxToolCalls: 1}, `
turns:
  - when: {turn: 1, attempt: 1}
    error: {class: transient, message: "busy"}
  - when: {turn: 1, attempt: 2}
    calls:
      - {name: bash, input: {command: "git push --force"}}
      - {name: read, input: {path: none.txt}}
      - {name: read, input: {path: none.txt, nope: 1}}
      - {name: write, input: {path: a, content: b}}
      - {name: read, input: {path: more.txt}}
  - when: {turn: 2}
    text: "I give up."
`)
	w.agent(events.Agent{Name: "looper", Tools: []string{"read"}, MaxSteps: 3}, `
turns:
  - when: {turn: {from: 1, to: 9}}
    calls:
      - {name: read, input: {path: none.txt}}
`)
	w.start()
	three := 3
	plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "one", Description: "first"}, {ID: "two", Description: "second", Needs: []string{"one"}, Critical: true}}}
	w.task(events.Task{ID: "plan", Agent: "writer", Task: "write", Plan: plan, Autonomy: &three})
	w.task(events.Task{ID: "edited", Agent: "shouter", Task: "shout"})
	w.task(marked(events.Task{ID: "direct", Agent: "shouter", Task: "shout"}, false))
	w.task(events.Task{ID: "several", Agent: "several", Task: "shout"})
	w.task(events.Task{ID: "expired", Agent: "hasty", Task: "shout"})
	w.task(events.Task{ID: "refused", Agent: "pusher", Task: "push"})
	w.task(events.Task{ID: "steps", Agent: "looper", Task: "read"})
	w.await("plan", "waiting", waiting)
	w.answerAs(w.opened("plan"), "anna", events.Answer{Decision: "reject", Reason: "not yet"})
	w.await("plan", "paused", func(s run.State) bool { return s.Status == events.Paused })
	w.publish("station.test.run.plan.control", `{"action":"resume","by":"anna"}`)
	w.await("plan", "waiting", func(s run.State) bool { return waiting(s) && len(s.Gates) == 2 })
	w.answerAs(w.opened("plan"), "anna", events.Answer{Decision: "approve"})
	w.task(events.Task{ID: "revised", Agent: "writer", Task: "write", Plan: plan, Autonomy: &three})
	w.await("revised", "waiting", waiting)
	w.answerAs(w.opened("revised"), "anna", events.Answer{Decision: "reject", Reason: "another way"})
	w.await("revised", "paused", func(s run.State) bool { return s.Status == events.Paused })
	w.publish("station.test.run.revised.control", `{"action":"revise","by":"anna","plan":{"steps":[{"id":"other","description":"another way","needs":["one"]}]}}`)
	w.await("revised", "revised", func(s run.State) bool { return s.Step("other") != nil })
	w.publish("station.test.run.revised.control", `{"action":"resume","by":"anna"}`)
	w.await("edited", "waiting", waiting)
	w.answerAs(w.opened("edited"), "anna", events.Answer{Decision: "approve", EditedInput: json.RawMessage(`{"command":"echo soft"}`)})
	w.await("direct", "waiting", waiting)
	w.answerAs(w.opened("direct"), "anna", events.Answer{Decision: "approve"})
	w.await("several", "waiting", waiting)
	w.answerAs(w.opened("several"), "anna", events.Answer{Decision: "approve"})
	w.await("several", "voted", func(s run.State) bool { return len(s.Gates[0].Votes) == 1 })
	w.answerAs(w.opened("several"), "bert", events.Answer{Decision: "approve"})
	w.await("expired", "paused", func(s run.State) bool { return s.Status == events.Paused })
	w.publish("station.test.run.expired.control", `{"action":"resume","by":"anna"}`)
	w.ended("edited")
	w.agent(events.Agent{Name: "claims", Tools: []string{"bash"}}, `
turns:
  - when: {message: {contains: "The step is not done"}, turn: 2}
    calls:
      - {name: bash, input: {command: "cat loud.txt > done.txt || echo > done.txt"}}
  - text: '{"verdict":"done"}'
`)
	w.task(events.Task{ID: "checked", Agent: "claims", Task: "go", Accept: &events.Accept{Checks: []events.Check{
		{Kind: events.CheckCommand, Run: "test -f done.txt"}, {Kind: events.CheckSchema, Schema: json.RawMessage(`{"type":"object"}`)},
		{Kind: events.CheckPerson}}}})
	w.await("checked", "waiting", waiting)
	w.answerAs(w.opened("checked"), "anna", events.Answer{Decision: "approve"})
	w.task(events.Task{ID: "fork", ForkOf: &events.ForkPoint{Run: "edited", Sequence: w.eventOf("edited", events.GateOpened)}, Say: "Speak up."})
	logs := map[string][]byte{}
	for _, id := range []string{"plan", "edited", "several", "expired", "refused", "steps", "fork", "direct", "revised", "checked"} {
		w.ended(id)
		logs[id] = w.log(id)
	}
	return logs
}

func TestReplay(t *testing.T) {
	t.Parallel()
	logs := history(t)
	if *record {
		for id, log := range logs {
			path := filepath.Join(recorded, id+".jsonl")
			if _, err := os.Stat(path); err == nil {
				continue
			}
			if err := os.WriteFile(path, log, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	kinds := map[events.Kind]bool{}
	t.Run("PLUS-6 the decisions of runs that have just happened are made again as they were", func(t *testing.T) {
		for id, log := range logs {
			r := replayed(t, lawOf(t, events.GateTerms{}), log)
			if !r.OK() || r.Decided == 0 || r.Decided+r.Taken != int(r.Events) {
				t.Errorf("%s: %+v\n%s", id, r, log)
			}
			for line := range bytes.Lines(log) {
				_, p, err := events.Read(bytes.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				kinds[p.Kind()] = true
			}
		}
		for _, k := range []events.Kind{events.GateVoted, events.GateExpired, events.GateRejected, events.CallRefused, events.TurnDeferred, events.StepFailed, events.RunForked, events.RunResumed, events.CallStarted, events.PlanRevised, events.StepClaimed, events.CheckFailed, events.CheckPassed} {
			if !kinds[k] {
				t.Errorf("no %s was among them", k)
			}
		}
	})
	t.Run("PLUS-6 a rule, a limit or terms that changed are found, and the line says where and what", func(t *testing.T) {
		deny := events.Rule{ID: "quiet", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "deny", Reason: "not here"}
		r := replayed(t, lawOf(t, events.GateTerms{}, deny), logs["edited"])
		if len(r.Changes) == 0 {
			t.Fatal("a rule that denies what was asked changed nothing")
		}
		line := r.Changes[0].String()
		for _, want := range []string{"run edited, event ", "(gate.opened)", "today: call.refused", "quiet"} {
			if !strings.Contains(line, want) {
				t.Errorf("%q lacks %q", line, want)
			}
		}
		r = replayed(t, lawOf(t, events.GateTerms{Approvers: 3}), logs["several"])
		if len(r.Changes) != 1 || !slices.Equal(r.Changes[0].Fields, []string{"approvers"}) {
			t.Errorf("terms: %+v", r.Changes)
		}
		if !replayed(t, lawOf(t, events.GateTerms{}, deny), logs["plan"]).OK() {
			t.Error("a rule about another tool changed a decision")
		}
	})
	t.Run("PLUS-6 SAFE-3 a log that was changed, cut or mixed up is refused, and nothing of it is decided", func(t *testing.T) {
		for what, log := range map[string][]byte{
			"changed": bytes.Replace(logs["edited"], []byte("echo soft"), []byte("echo SOFT"), 1),
			"dropped": bytes.Join(slices.Delete(bytes.SplitAfter(bytes.Clone(logs["edited"]), []byte("\n")), 3, 4), nil),
			"mixed":   append(bytes.Clone(logs["plan"]), logs["edited"]...),
			"no log":  []byte("hello\n"),
		} {
			if r := replayed(t, lawOf(t, events.GateTerms{}), log); r.Refused == nil || r.OK() || r.Decided > 0 {
				t.Errorf("%s: %+v", what, r)
			}
		}
	})
	t.Run("PLUS-6 the recorded histories are decided as they were, those that are bad are refused, and made-up ones are told apart", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(recorded, "*.jsonl"))
		if err != nil || len(files) < 7 {
			t.Fatalf("%d recorded histories, %v", len(files), err)
		}
		others, _ := filepath.Glob("../histories/*.jsonl")
		for _, file := range append(files, others...) {
			log, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, real, bad := replayed(t, lawOf(t, events.GateTerms{}), log), slices.Contains(files, file), strings.HasPrefix(filepath.Base(file), "bad-")
			switch {
			case filepath.Base(file) == "expired.jsonl" && r.Reworded != 2:
				t.Errorf("%s: %d reason texts of an earlier version, want 2: %+v", file, r.Reworded, r)
			case real && !r.OK():
				t.Errorf("%s: %v %v", file, r.Refused, r.Changes)
			case bad != (r.Refused != nil):
				t.Errorf("%s: refused %v", file, r.Refused)
			case !real && !bad && (r.Decided == 0 || len(r.Changes) == 0):
				t.Errorf("%s: no one decided what it says, and no decision differs: %+v", file, r)
			}
		}
	})
}
