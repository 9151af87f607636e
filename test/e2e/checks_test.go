package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// checkResults are the results of the checks of a run, as "passed" or the reason why not.
func (w *world) checkResults(runID string) (all []string, trees []string) {
	w.t.Helper()
	for _, r := range w.events(runID) {
		switch p := payload(w.t, r).(type) {
		case *events.CheckPassedData:
			all, trees = append(all, "passed"), append(trees, p.Tree)
		case *events.CheckFailedData:
			all, trees = append(all, p.Reason), append(trees, p.Tree)
		}
	}
	return all, trees
}

func payload(t testing.TB, r kernel.Record) events.Payload {
	t.Helper()
	_, p, err := events.Read(r.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func accept(run string) *events.Accept {
	return &events.Accept{Checks: []events.Check{{Kind: events.CheckCommand, Run: run}}}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "lazy"}, "turns:\n  - text: It is done.\n")
	w.agent(events.Agent{Name: "learns", Tools: []string{"bash"}}, `
turns:
  - when: {message: {contains: "The step is not done"}, turn: 2}
    calls:
      - {name: bash, input: {command: "echo yes > done.txt"}}
  - text: It is done.
`)
	w.agent(events.Agent{Name: "leaves", Tools: []string{"bash", "bash_output", "kill_shell"}}, `
turns:
  - {when: {turn: 1}, calls: [{name: bash, input: {command: "echo $$ > pid.txt; echo begun; while :; do sleep 1; done", run_in_background: true}}]}
  - {when: {turn: 2}, calls: [{name: bash_output, input: {bash_id: bg-c1-1, wait_ms: 20000}}]}
  - text: It is done.
`)
	w.agent(events.Agent{Name: "checked", Accept: accept("true")}, "turns:\n  - text: It is done.\n")
	w.start()
	t.Run("PLUS-10 a claim that its check does not bear out goes back to the agent, which fixes it, and is then verified", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "learns", Agent: "learns", Task: "go", Accept: accept("test -f done.txt")})
		s := w.ended("learns")
		results, trees := w.checkResults("learns")
		if s.Status != events.Completed || len(results) != 2 || results[0] != "exit status 1" || results[1] != "passed" {
			t.Fatalf("%s %v: %+v\n%s", s.Status, results, s.Result, w.story("learns"))
		}
		if trees[0] == trees[1] || len(s.Result.Verified) != 1 || s.Result.Verified[0].Tree != trees[1] ||
			s.Result.Verified[0].Name != "test -f done.txt" {
			t.Errorf("trees %v, verified %+v", trees, s.Result.Verified)
		}
	})
	t.Run("PLUS-10 an agent that only says that it is done fails as unverified after its last claim", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "lazy", Agent: "lazy", Task: "go", Accept: accept("test -f done.txt")})
		s := w.ended("lazy")
		n := w.count("lazy")
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishUnverified || n["step.claimed"] != events.DefaultClaims ||
			n["check.failed"] != events.DefaultClaims || n["step.finished"] != 0 || len(s.Result.Verified) != 0 {
			t.Errorf("%s: %+v\n%s", s.Status, s.Result, w.story("lazy"))
		}
	})
	t.Run("PLUS-10 the checks of an agent's definition and of the task must all pass, in order, on one tree", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "both", Agent: "checked", Task: "go", Accept: accept("true && echo fine")})
		s := w.ended("both")
		results, trees := w.checkResults("both")
		if strings.Join(results, " ") != "passed passed" || trees[0] != trees[1] || len(s.Result.Verified) != 2 {
			t.Errorf("%v %v %+v", results, trees, s.Result)
		}
	})
	t.Run("PLUS-10 a run without checks is verified by none", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "plain", Agent: "lazy", Task: "go"})
		if s := w.ended("plain"); s.Status != events.Completed || len(s.Result.Verified) != 0 || w.count("plain")["step.claimed"] != 0 {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-10 a check that hangs fails at its time limit", func(t *testing.T) {
		w := w.on(t)
		a := accept("sleep 3600")
		a.Checks[0].Timeout, a.MaxAttempts = "1s", 1
		w.task(events.Task{ID: "hangs", Agent: "lazy", Task: "go", Accept: a})
		s := w.ended("hangs")
		if results, _ := w.checkResults("hangs"); len(results) != 1 || !strings.Contains(results[0], "1s") || s.Status != events.Failed {
			t.Errorf("%v: %+v", results, s.Result)
		}
	})
	t.Run("PLUS-10 background commands of a step have ended when it is checked", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "leaves", Agent: "leaves", Task: "go", Accept: accept(`test -s pid.txt && ! kill -0 "$(cat pid.txt)"`)})
		s := w.ended("leaves")
		if results, _ := w.checkResults("leaves"); s.Status != events.Completed || len(results) != 1 || s.TotalToolCalls != 2 {
			t.Errorf("%s %v: %+v\n%+v", s.Status, results, s.Result, run.Slice(s.ToolCallHistory))
		}
	})
	t.Run("PLUS-10 what a check expects to be reported must be in its output", func(t *testing.T) {
		w := w.on(t)
		a := accept("echo TestOne ran")
		a.Checks[0].Expect, a.MaxAttempts = []string{"TestOne", "TestTwo"}, 1
		w.task(events.Task{ID: "expects", Agent: "lazy", Task: "go", Accept: a})
		s := w.ended("expects")
		if results, _ := w.checkResults("expects"); len(results) != 1 || !strings.Contains(results[0], `no "TestTwo"`) || s.Status != events.Failed {
			t.Errorf("%v: %+v", results, s.Result)
		}
	})
	t.Run("PLUS-10 an artifact decides that a step is done, and verifies nothing alone", func(t *testing.T) {
		w := w.on(t)
		for min, want := range map[int64]string{4: "passed", 5: "want at least 5"} {
			id := fmt.Sprint("artifact", min)
			a := &events.Accept{MaxAttempts: 1, Checks: []events.Check{{Kind: events.CheckArtifact, Path: "done.txt", MinBytes: min}}}
			w.agent(events.Agent{Name: id, Tools: []string{"bash"}}, claims("echo yes > done.txt"))
			w.task(events.Task{ID: id, Agent: id, Task: "go", Accept: a})
			s := w.ended(id)
			if results, _ := w.checkResults(id); len(results) != 1 || !strings.Contains(results[0], want) || len(s.Result.Verified) > 0 {
				t.Errorf("%v, want %q: %+v", results, want, s.Result)
			}
		}
	})
	t.Run("PLUS-10 checks that cannot be carried out are refused with the reason, and no run begins", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		for accept, want := range map[string]string{
			`{"checks":[{"kind":"review","agent":"lazy","model":"x"}]}`: "unknown field",
			`{"checks":[{"kind":"review"}]}`:                            "the name of the agent that reviews",
			`{"checks":[{"kind":"magic"}]}`:                             "not known",
			`{"checks":[]}`:                                             "0 checks",
			`{"checks":[` + strings.Repeat(`{"kind":"command","run":"true"},`, 999) + `{"kind":"command","run":"true"}]}`: "1000 checks",
			`{"checks":[{"kind":"command","run":"a\u0000b"}]}`:                                                            "NUL",
			`{"checks":[{"kind":"command","run":"true","name":"a\nb"}]}`:                                                  "control character",
			`{"checks":[{"kind":"command","run":"true","timeout":"2h"}]}`:                                                 "timeout",
			`{"checks":[{"kind":"command","run":"true"}],"max_attempts":21}`:                                              "max_attempts",
			`{"checks":[{"kind":"artifact","path":"../secret"}]}`:                                                         "below the workspace",
			`{"checks":[{"kind":"artifact","path":"/etc/passwd"}]}`:                                                       "below the workspace",
			`{"checks":[{"kind":"command","run":"true"}],"protect":["a/../../b"]}`:                                        "below the workspace",
			`{"checks":[{"kind":"command","run":"true"}],"protect":["tests\n"]}`:                                          "control character",
			`{"checks":[{"kind":"command","run":"true"}],"protect":["tests"]}`:                                            "needs a run that works in git",
			`{"checks":[{"kind":"git","require":["clean"]}]}`:                                                             "needs a run that works in git",
			`{"checks":[{"kind":"git","require":["ahead_of_base"]}]}`:                                                     "needs a run that works in git",
			`{"checks":[{"kind":"git","require":["nonsense"]}]}`:                                                          "not known",
			`{"checks":[{"kind":"expr"}]}`:                                                                                "expr is empty",
			`{"checks":[{"kind":"files"}]}`:                                                                               "not known",
			`{"checks":[{"kind":"person","expires":"0s"}]}`:                                                               "expires",
			`{"checks":[{"kind":"person","approvers":["a b"]}]}`:                                                          "no name",
		} {
			w.publish("station.test.task", `{"id":"bad","agent":"lazy","task":"go","accept":`+accept+`}`)
			if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, want) {
				t.Errorf("%.100s: %s %q, want %q", accept, d.Code, d.Reason, want)
			}
		}
		w.publish("station.test.task", `{"id":"bad","agent":"lazy","task":"go","plan":{"steps":[{"id":"a","description":"b","accept":{"checks":[{"kind":"git","require":["clean"]}]}}]}}`)
		if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "plan step a: a check of the kind git needs a run that works in git") {
			t.Errorf("a step of a plan: %s %q", d.Code, d.Reason)
		}
		if s := w.state("bad"); s.Sequence > 0 {
			t.Errorf("a run began: %+v", s.Created.Accept)
		}
	})
	t.Run("PLUS-10 a plan that a model makes cannot have checks", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "plans", Plan: "model"}, `
turns:
  - {when: {purpose: plan}, text: '{"steps":[{"id":"a","description":"b","accept":"true"}]}'}
  - text: It is done.
`)
		w.task(events.Task{ID: "plans", Agent: "plans", Task: "go"})
		s := w.ended("plans")
		if s.Status != events.Failed || !strings.Contains(s.Result.Error, "accept") || w.count("plans")["step.claimed"] > 0 {
			t.Errorf("%s: %+v", s.Status, s.Result)
		}
	})
}
