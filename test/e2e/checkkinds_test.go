package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestCheckKinds has schemas, persons and branches decide whether a step is done.
func TestCheckKinds(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	w.agent(events.Agent{Name: "answers"}, `
turns:
  - when: {message: {contains: "does not fit the schema"}, turn: 2}
    text: '{"verdict":"fine"}'
  - when: {message: {contains: "too short"}, turn: 2}
    text: '{"verdict":"longer"}'
  - text: It is fine.
`)
	w.agent(events.Agent{Name: "commits", Tools: []string{"bash"}}, claims("echo yes > done.txt; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm done"))
	w.agent(events.Agent{Name: "detaches", Tools: []string{"bash"}}, claims("echo yes > done.txt; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm done; git checkout -q --detach"))
	w.agent(events.Agent{Name: "rests", Tools: []string{"bash"}}, claims("ls"))
	letters := w.letters()
	w.start()
	person := func(id string, c events.Check) run.State {
		t.Helper()
		c.Kind = events.CheckPerson
		w.task(events.Task{ID: id, Agent: "answers", Task: "go", By: "olga", Accept: &events.Accept{MaxAttempts: 2, Checks: []events.Check{c}}})
		return w.await(id, "waiting", waiting)
	}

	t.Run("PLUS-10 an output that does not fit the schema goes back to the agent; a schema alone verifies no run, which says what passed", func(t *testing.T) {
		w := w.on(t)
		a := &events.Accept{Checks: []events.Check{{Kind: events.CheckSchema, Schema: json.RawMessage(`{"type":"object","required":["verdict"]}`)}}}
		w.task(events.Task{ID: "schema", Agent: "answers", Task: "go", Accept: a})
		s := w.ended("schema")
		results, _ := w.checkResults("schema")
		if s.Status != events.Completed || len(results) != 2 || !strings.Contains(results[0], "does not fit the schema") || results[1] != "passed" {
			t.Fatalf("%s %q\n%s", s.Status, results, w.story("schema"))
		}
		if len(s.Result.Verified) > 0 || len(s.Result.Passed) != 1 || s.Result.Passed[0].Kind != events.CheckSchema {
			t.Errorf("verified %+v, passed %+v", s.Result.Verified, s.Result.Passed)
		}
	})
	t.Run("PLUS-10 GATE-8 a person rejects a claim with a reason, which the agent reads, and approves the next; the gate names the files and the output", func(t *testing.T) {
		w := w.on(t)
		person("judged", events.Check{})
		first := w.opened("judged")
		if first.Scope != events.ScopeCheck || !strings.Contains(string(first.Proposal), "It is fine.") || !strings.Contains(string(first.Proposal), `"tree":"`) {
			t.Fatalf("%+v %s", first, first.Proposal)
		}
		w.answerAs(first, "anna", events.Answer{Decision: "reject", Reason: "too short"})
		w.await("judged", "the second gate", func(s run.State) bool { return waiting(s) && len(s.Gates) == 2 })
		second := w.opened("judged")
		w.answerAs(first, "anna", events.Answer{Decision: "approve"}) // of the claim before
		if d := w.letter(letters); d.Code != "gate_closed" {
			t.Errorf("%+v", d)
		}
		w.answerAs(second, "anna", events.Answer{Decision: "approve", ProposalHash: first.ProposalHash})
		if d := w.letter(letters); d.Code != "stale_answer" {
			t.Errorf("%+v", d)
		}
		w.answerAs(second, "anna", events.Answer{Decision: "approve", ProposalHash: second.ProposalHash})
		s := w.ended("judged")
		results, _ := w.checkResults("judged")
		if s.Status != events.Completed || strings.Join(results, ", ") != "passed, anna rejected it: too short, passed, passed" {
			t.Fatalf("%s %q\n%s", s.Status, results, w.story("judged"))
		}
		if len(s.Result.Verified) != 1 || s.Result.Verified[0].Kind != events.CheckPerson || s.Result.Output != `{"verdict":"longer"}` {
			t.Errorf("%+v", s.Result)
		}
		w.answerAs(second, "anna", events.Answer{Decision: "reject"}) // a second time, and late
		if d := w.letter(letters); d.Code != "gate_closed" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("PLUS-10 GATE-8 SEC only those whom the check names decide, as many as it wants, each once and proven", func(t *testing.T) {
		w := w.on(t)
		person("named", events.Check{Approvers: []string{"anna", "bert"}, Votes: 2})
		g := w.opened("named")
		for _, c := range []struct {
			by, body, code string
		}{{"carl", `{"decision":"approve"}`, "not_approver"}, {"carl", `{"decision":"reject"}`, "not_approver"}, {"", `{"decision":"approve","by":"anna"}`, "unproven_answer"}} {
			subject := g.AnswerSubject
			if c.by != "" {
				subject += "." + c.by
			}
			w.publish(subject, c.body)
			if d := w.letter(letters); d.Code != c.code {
				t.Errorf("%+v: %s %s", c, d.Code, d.Reason)
			}
		}
		w.answerAs(g, "anna", events.Answer{Decision: "approve"})
		w.await("named", "a vote", func(s run.State) bool { return len(s.Gates[0].Votes) == 1 })
		w.answerAs(g, "anna", events.Answer{Decision: "approve"})
		if d := w.letter(letters); d.Code != "already_voted" {
			t.Errorf("%+v", d)
		}
		w.answerAs(g, "bert", events.Answer{Decision: "approve"})
		if s := w.ended("named"); s.Status != events.Completed || len(s.Result.Verified) != 1 {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-10 a person who does not answer in time has not approved", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "late", Agent: "answers", Task: "go", Accept: &events.Accept{MaxAttempts: 1, Checks: []events.Check{{Kind: events.CheckPerson, Expires: "1s"}}}})
		s := w.ended("late")
		if results, _ := w.checkResults("late"); s.Result.FinishReason != events.FinishUnverified || len(results) != 2 || !strings.Contains(results[1], "no one answered within") {
			t.Errorf("%q %+v", results, s.Result)
		}
	})
	t.Run("PLUS-10 SEC schemas that are too large, too deep, refer to something or say nothing are refused", func(t *testing.T) {
		w := w.on(t)
		deep := strings.Repeat(`{"type":"object","properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
		for schema, want := range map[string]string{
			`{"type":"object","title":"` + strings.Repeat("x", 9<<10) + `"}`: "at most 8192",
			deep: "deeper than",
			`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`: "references are not followed",
			`{"type":"object","$ref":"https://example.com/x.json"}`:              "references are not followed",
			`{"type":"object","items":{"$ref":"#"}}`:                             "references are not followed",
			`{"type":"number","multipleOf":1e-99999999}`:                         "too large",
			`{"verdict":"string"}`:                                               "has no type",
			`{"type":"nonsense"}`:                                                "schema",
			`[]`:                                                                 "has no type",
		} {
			w.publish("station.test.task", `{"id":"bad","agent":"answers","task":"go","accept":{"checks":[{"kind":"schema","schema":`+schema+`}]}}`)
			if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, want) {
				t.Errorf("%.100s: %s %q, want %q", schema, d.Code, d.Reason, want)
			}
		}
	})
	for agent, want := range map[string]string{"commits": "passed", "detaches": "no branch", "rests": "has no commit after"} {
		t.Run("PLUS-10 a branch must have commits after its base: "+agent, func(t *testing.T) {
			w, no := w.on(t), false
			a := &events.Accept{MaxAttempts: 1, Checks: []events.Check{{Kind: events.CheckGit, Require: []string{events.RequireAhead}}}}
			w.task(events.Task{ID: agent, Agent: agent, Task: "go", Repo: r.url(), Branch: "main", Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &no}}, Accept: a})
			w.ended(agent)
			if results, _ := w.checkResults(agent); len(results) != 1 || !strings.Contains(results[0], want) {
				t.Errorf("%q, want %q", results, want)
			}
		})
	}
	t.Run("PLUS-10 SEC a run of a session that commits nothing has no commit of its own, and its branch is ahead all the same", func(t *testing.T) {
		w, no := w.on(t), false
		for id, agent := range map[string]string{"earlier": "commits"} {
			w.task(events.Task{ID: id, Agent: agent, Task: "go", Session: "both", Repo: r.url(), Branch: "main", Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &no}}})
			w.ended(id)
		}
		for what, want := range map[string]string{events.RequireCommit: "adds none", events.RequireAhead: "passed"} {
			id := "rests-" + what[:3]
			a := &events.Accept{MaxAttempts: 1, Checks: []events.Check{{Kind: events.CheckGit, Require: []string{what}}}}
			w.task(events.Task{ID: id, Agent: "rests", Task: "go", Session: "both", Repo: r.url(), Branch: "main", Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &no}}, Accept: a})
			w.ended(id)
			if results, _ := w.checkResults(id); len(results) != 1 || !strings.Contains(results[0], want) {
				t.Errorf("%s: %q, want %q", what, results, want)
			}
		}
	})
}
