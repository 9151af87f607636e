package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/replay"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/gatekeeper"
)

// outside registers an agent that is a program of others.
func (w *world) outside(name string, r events.Runtime, rules ...events.Rule) {
	w.t.Helper()
	w.agent(events.Agent{Name: name, Model: "runtime/fake", Prompt: "Work.", Runtime: &r, Guards: rules,
		Tools: []string{"bash", "edit", events.ToolRuntime}}, "")
}

// order returns the positions of events of a call, by kind.
func (w *world) order(runID, call string) map[events.Kind]int {
	w.t.Helper()
	at := map[events.Kind]int{}
	for i, r := range w.events(runID) {
		if about, err := events.AboutOf(r.Bytes); err == nil && about.Call == call {
			at[r.Kind] = i + 1
		}
	}
	return at
}

// inner returns what ended inside of calls, in the order it ended.
func inner(s run.State) (all []run.CallRecord) {
	for _, r := range run.All(s.ToolCallHistory) {
		if r.Parent != "" {
			all = append(all, r)
		}
	}
	return all
}

// programLaw is what the verdicts on agents with a runtime rest on.
func programLaw(t *testing.T) replay.Policy {
	t.Helper()
	registry, err := tool.NewRegistry(tools.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	known := toolbox.New(registry, nil)
	return replay.Policy{Policy: gatekeeper.Policy(gatekeeper.Config{Tools: registry, ToolsOf: known.For}),
		Knows: func(a events.Agent, name string) bool { _, ok := known.For(a).Get(name); return ok }}
}

func TestRuntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sessions := t.TempDir()
	deny := events.Rule{ID: "no-deploys", Tool: "bash", Match: events.Match{Glob: "deploy *"}, Action: "deny", Reason: "nothing is deployed"}
	ask := events.Rule{ID: "asks", Tool: "bash", Match: events.Match{Glob: "release *"}, Action: "ask", Reason: "a release needs a person"}
	for _, driver := range []string{events.DriverACP, events.DriverClaude} {
		w.outside("p"+driver, runtimetest.Runtime(driver, sessions), deny, ask)
	}
	first := w.start(events.Toolrunner)
	w.start(events.Planner, events.Executor, events.Gatekeeper, events.Persister)
	work := func(id, file string) string { return filepath.Join(w.dir, "work", "run", id, file) }

	for _, driver := range []string{events.DriverACP, events.DriverClaude} {
		t.Run("PLUS-12a ID-3a ID-8 ECO-6a a step is carried out by a program over "+driver+", and what it does inside stands in the log", func(t *testing.T) {
			w, id := w.on(t), "r"+driver
			w.task(events.Task{ID: id, Agent: "p" + driver, Task: "!say hello\n!bash echo made > made; echo out\n!bash deploy now\n!say bye"})
			s := w.ended(id)
			if s.Status != events.Completed || !strings.Contains(s.Plan.Steps[0].Output, "hello") || !strings.Contains(s.Plan.Steps[0].Output, "bye") {
				t.Fatalf("%s: %+v\n%s", s.Status, s.Result, w.story(id))
			}
			calls := inner(s)
			if len(calls) != 2 || calls[0].Result != "out\n" || !calls[0].Success || calls[0].Parent != "c1-1" || calls[0].CallName != "bash" ||
				calls[1].Outcome != run.OutcomeRefused || calls[1].Rule != "no-deploys" {
				t.Fatalf("%+v", calls)
			}
			if b, err := os.ReadFile(work(id, "made")); err != nil || string(b) != "made\n" {
				t.Errorf("%q, %v", b, err)
			}
			at := w.order(id, calls[0].ID)
			if !(0 < at[events.CallRequested] && at[events.CallRequested] < at[events.CallAllowed] &&
				at[events.CallAllowed] < at[events.CallStarted] && at[events.CallStarted] < at[events.CallFinished]) {
				t.Errorf("%v\n%s", at, w.story(id))
			}
			if at = w.order(id, calls[1].ID); at[events.CallStarted]+at[events.CallAllowed] != 0 {
				t.Errorf("a refused call was begun: %v", at)
			}
			if r := replayed(t, programLaw(t), w.log(id)); !r.OK() || r.Decided == 0 {
				t.Errorf("a replay decides otherwise: %+v", r)
			}
			if s.TotalToolCalls != 2 || s.CallsHeld != 0 { // the prompt and what was allowed
				t.Errorf("%d calls count, %d are held", s.TotalToolCalls, s.CallsHeld)
			}
		})
	}
	t.Run("PLUS-12b GATE-9 a person answers with a plain message, and the program goes on", func(t *testing.T) {
		for _, decision := range []string{"approve", "reject"} {
			w, id := w.on(t), "gate-"+decision
			w.task(events.Task{ID: id, Agent: "pacp", Task: "!bash release () { echo released > released; }; release it"})
			s := w.await(id, "waiting", waiting)
			g := w.opened(id)
			if g.Call != "c1-1-1" || !strings.Contains(string(g.Proposal), "release it") {
				t.Fatalf("%+v", g)
			}
			if c := s.Open["c1-1-1"]; c == nil || c.Phase != run.CallRequested {
				t.Fatalf("%+v", s.Open)
			}
			w.publish(g.AnswerSubject+".anna", `{"decision":"`+decision+`","reason":"so","proposal_hash":"`+g.ProposalHash+`"}`)
			if decision == "reject" {
				w.await(id, "paused", func(s run.State) bool { return s.Status == events.Paused })
				w.publish("station.test.run."+id+".control", `{"action":"resume","by":"anna"}`)
			}
			s = w.ended(id)
			_, err := os.Stat(work(id, "released"))
			calls := inner(s)
			if s.Status != events.Completed || (err == nil) != (decision == "approve") || len(calls) != 1 ||
				(calls[0].Outcome == run.OutcomeFinished) != (decision == "approve") {
				t.Fatalf("%s: %v, %+v\n%s", decision, err, calls, w.story(id))
			}
		}
	})
	t.Run("TOOL-9 what a program does inside is in the budget of the run", func(t *testing.T) {
		w, most := w.on(t), 2
		w.task(events.Task{ID: "budget", Agent: "pacp", Task: "!bash true\n!bash echo 2", MaxToolCalls: &most})
		s := w.ended("budget")
		if calls := inner(s); s.Status != events.Completed || len(calls) != 2 || calls[0].Outcome != run.OutcomeFinished || calls[1].Code != events.RefusedBudget {
			t.Errorf("%s: %+v", s.Status, calls)
		}
	})
	t.Run("PLUS-12c CONT-4 a program that dies goes on in its session, and what it had begun is unknown", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "dies", Agent: "pacp", Task: "!again echo again\n!bash kill -9 $PPID"})
		s := w.await("dies", "waiting", func(s run.State) bool { return waiting(s) || s.Status.Ended() }) // it asks for the same again
		calls := inner(s)
		unknown := func(c run.CallRecord) bool {
			return c.Code == events.OutcomeUnknown && strings.Contains(string(c.Arguments), "PPID")
		}
		again := func(c run.CallRecord) bool { return c.Success && c.Result == "again\n" }
		if !slices.ContainsFunc(calls, unknown) || !slices.ContainsFunc(calls, again) {
			t.Errorf("%s: %+v\n%s", s.Status, calls, w.story("dies"))
		}
	})
	t.Run("PLUS-12c SAFE-7 what a program had begun when it died stands before a person when it asks for it again", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "twice", Agent: "pclaude", Task: "!bash if mkdir once; then kill -9 $PPID; exit; fi; echo ran >> ran"})
		s := w.await("twice", "waiting", func(s run.State) bool { return waiting(s) || s.Status.Ended() })
		if _, err := os.Stat(work("twice", "ran")); err == nil || s.Status.Ended() || len(s.Unknown) != 1 {
			t.Fatalf("%s: %v, %v\n%s", s.Status, err, s.Unknown, w.story("twice"))
		}
		g := w.opened("twice")
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+g.ProposalHash+`"}`)
		s = w.ended("twice")
		b, err := os.ReadFile(work("twice", "ran"))
		if calls := inner(s); err != nil || string(b) != "ran\n" || s.Status != events.Completed || len(calls) != 2 || calls[0].Code != events.OutcomeUnknown {
			t.Errorf("%s: %q, %v, %+v\n%s", s.Status, b, err, calls, w.story("twice"))
		}
		if r := replayed(t, programLaw(t), w.log("twice")); !r.OK() {
			t.Errorf("a replay decides otherwise: %+v", r)
		}
	})
	t.Run("PLUS-12d C43 a program that asks no one is not started where nothing keeps it in", func(t *testing.T) {
		w := w.on(t)
		r := runtimetest.Runtime(events.DriverCodex, sessions)
		r.Gate = events.RuntimeAsksNot
		w.outside("free", r)
		w.task(events.Task{ID: "free", Agent: "free", Task: "!bash echo made > made"})
		s := w.ended("free")
		if _, err := os.Stat(work("free", "made")); err == nil || s.Status != events.Failed || !strings.Contains(s.Plan.Steps[0].Error, "asks no one") {
			t.Errorf("%s, %q, %v", s.Status, s.Plan.Steps[0].Error, err)
		}
	})
	t.Run("SAFE-7 PLUS-12c a call whose toolrunner is lost goes on in the session of the program, or is unknown", func(t *testing.T) {
		w := w.on(t)
		mute := runtimetest.Runtime(events.DriverACP, sessions)
		mute.Resumes = false
		w.outside("mute", mute, ask)
		for id, agent := range map[string]string{"resumed": "pacp", "unknown": "mute"} {
			w.task(events.Task{ID: id, Agent: agent, Task: "!bash echo one >> steps\n!again echo two >> steps\n!bash release it"})
			w.await(id, "waiting", waiting)
		}
		first.stop()
		w.start(events.Toolrunner)
		s := w.ended("unknown")
		if call := s.ToolCallHistory.At(s.ToolCallHistory.Len() - 1); s.Status != events.Failed || call.Code != events.OutcomeUnknown ||
			!strings.Contains(call.Result, "resumes none") {
			t.Errorf("%s: %+v\n%s", s.Status, call, w.story("unknown"))
		}
		s = w.await("resumed", "waiting again", func(s run.State) bool { return len(s.Gates) == 2 && len(s.Waiting()) == 1 })
		g := w.opened("resumed")
		w.publish(g.AnswerSubject+".anna", `{"decision":"approve","proposal_hash":"`+g.ProposalHash+`"}`)
		s = w.ended("resumed")
		b, err := os.ReadFile(work("resumed", "steps"))
		if err != nil || !strings.Contains(string(b), "two") || s.Status != events.Completed {
			t.Errorf("%s: %q, %v\n%s", s.Status, b, err, w.story("resumed"))
		}
		var sessions []string
		for _, r := range w.events("resumed") {
			if f, err := events.Decode(r.Bytes); err == nil && r.Kind == events.CallProgressed {
				var d events.CallProgressedData
				if err := json.Unmarshal(f.Data, &d); err != nil {
					t.Fatal(err)
				}
				sessions = append(sessions, d.Session)
			}
		}
		if len(sessions) != 1 || sessions[0] == "" { // the second attempt is in the same one, and so nothing new
			t.Errorf("sessions %q", sessions)
		}
	})
}

func TestRuntimeInGit(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	sessions, no := t.TempDir(), false
	for _, driver := range []string{events.DriverACP, events.DriverClaude} {
		fake := runtimetest.Runtime(driver, sessions)
		w.agent(events.Agent{Name: "p" + driver, Model: "runtime/fake", Prompt: "Work.", Runtime: &fake,
			Tools: []string{"bash", "edit", events.ToolRuntime}, Git: &events.GitSettings{RequireApproval: &no}}, "")
	}
	deliverers(t, w, "lander=")
	w.start()
	w.addQueue("main", r, "lander", "grep -q good *.txt")
	for _, driver := range []string{events.DriverACP, events.DriverClaude} {
		t.Run("PLUS-12a GIT-10 GIT-11 DLV-1 WORK-13 a named agent that is a program over "+driver+" works on an item in a repository, and its work lands", func(t *testing.T) {
			w, r := w.on(t), remote{t, r.dir}
			w.registerAddress("web/guest/"+driver, events.AddressSpec{Agent: "p" + driver})
			w.addItem("item"+driver, events.WorkSpec{Title: "Write it", Accept: accept("test -s " + driver + ".txt")})
			c := slingTo("web/guest/" + driver)
			c.Dispatch.Repo, c.Dispatch.Branch, c.Dispatch.Deliver = r.url(), "main", &events.WorkDeliver{Queue: "main"}
			c.Dispatch.Task = "!bash echo good > " + driver + ".txt\n!say Written."
			w.work("item"+driver, c)
			s := w.itemIs("item"+driver, "released", isReleased)
			if got := r.git("-C", r.dir, "show", "main:"+driver+".txt"); got != "good" || w.went("item"+driver) != delivered {
				t.Errorf("main has %q; %s\n%s", got, w.went("item"+driver), w.story(s.Last.Run))
			}
			if rep := replayed(t, programLaw(t), w.log(s.Last.Run)); !rep.OK() {
				t.Errorf("a replay decides otherwise: %+v", rep)
			}
		})
	}
}
