package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// points are all that hooks are asked at, and what a block at each leads to.
var points = []string{events.OnRunStart, events.OnTurn, events.OnPreTool, events.OnPostTool, events.OnRunStop}

// asks counts and keeps the questions of one responder.
type asks struct {
	mu  sync.Mutex
	all []hook.Question
}

func (a *asks) of(runID string) []hook.Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	var own []hook.Question
	for _, q := range a.all {
		if q.Run == runID {
			own = append(own, q)
		}
	}
	return own
}

// respond answers a hook of a subject, and keeps what it was asked.
func (w *world) respond(name, answer string) *asks {
	w.t.Helper()
	a := &asks{}
	stop, err := w.st.AnswerHook(name, func(b []byte) []byte {
		var q hook.Question
		if err := json.Unmarshal(b, &q); err != nil {
			w.t.Errorf("the question is not JSON: %v", err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, q)
		if answer == "" {
			return nil
		}
		return []byte(answer)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = stop() })
	return a
}

// program writes a hook that agent files may name.
func (w *world) program(name, script string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// hooked is a world in which agent files may name programs, with a policy of the station.
func hooked(t *testing.T, policy string) *world {
	t.Helper()
	w := newWorld(t)
	dir := filepath.Join(w.dir, "hooks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.dir, "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ports.Questions = w.st
	w.tune = func(c *service.Config) { c.HooksDir, c.Policy = dir, file }
	return w
}

// with registers an agent that writes one file, with a hook, and starts a run of it in the same name.
func (w *world) with(name string, h events.Hook) {
	w.t.Helper()
	h.ID = "h"
	w.agent(events.Agent{Name: name, Tools: []string{"write"}, Hooks: []events.Hook{h}}, writer)
	level := 5
	w.task(events.Task{ID: name, Agent: name, Task: "write", Autonomy: &level})
}

// answers are all that hooks answered in a run, as the events have it.
func (w *world) answers(runID string) []events.HookAnswer {
	w.t.Helper()
	var all []events.HookAnswer
	for _, r := range w.events(runID) {
		f, err := events.Decode(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		var d struct{ Hooks []events.HookAnswer }
		if err := json.Unmarshal(f.Data, &d); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, d.Hooks...)
	}
	return all
}

// blocked says what is wrong with the end of a run in which a hook blocked at a point.
func (w *world) blocked(point string, s run.State) string {
	n := w.count(s.HarnessID)
	var last run.CallRecord
	if s.ToolCallHistory.Len() > 0 {
		last = s.ToolCallHistory.At(0)
	}
	ok := false
	switch point {
	case events.OnRunStart:
		ok = s.Status == events.Failed && s.Result.FinishReason == events.FinishHook && n["turn.finished"] == 0 && n["step.ready"] == 0
	case events.OnTurn:
		ok = s.Status == events.Failed && n["step.failed"] == 1 && n["turn.finished"] == 0 && strings.Contains(s.Result.Error, "h")
	case events.OnPreTool:
		ok = s.Status == events.Completed && last.Code == events.RefusedHook && last.Rule == "hook:agent:h" && n["call.started"] == 0
	case events.OnPostTool:
		ok = s.Status == events.Completed && n["call.finished"] == 1 && !last.Success && strings.Contains(last.Result, "withheld") && !strings.Contains(last.Result, "wrote")
	case events.OnRunStop:
		ok = s.Status == events.Failed && s.Result.FinishReason == events.FinishHook && n["call.finished"] == 1
	}
	if !ok {
		return fmt.Sprintf("%s %+v %+v\n%s", s.Status, s.Result, last, w.story(s.HarnessID))
	}
	return ""
}

func TestHooks(t *testing.T) {
	t.Parallel()
	w := hooked(t, "version: 1\nhooks:\n  - {id: h, on: pre_tool, tool: bash, subject: station}\n")
	station := w.respond("station", `{"answer":"block","message":"no shell on this station"}`)
	yes := w.respond("yes", `{"answer":"continue","message":"fine","more":1}`)
	w.respond("no", `{"answer":"block","message":"not today"}`)
	wait := w.respond("wait", `{"answer":"interrupt","message":"let anna look"}`)
	w.program("seen", `env > "$0.env"; cat > "$0.json"; echo '{"answer":"continue"}'`)
	w.start()

	t.Run("GUARD-1 GUARD-14 who says continue costs no event, and each answer stands in the event that followed", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "plain", Tools: []string{"write"}}, writer)
		level := 5
		w.task(events.Task{ID: "plain", Agent: "plain", Task: "write", Autonomy: &level})
		w.ended("plain")
		for _, point := range points {
			w.with("yes-"+point, events.Hook{On: point, Subject: "yes"})
		}
		for _, point := range points {
			id := "yes-" + point
			if s := w.ended(id); s.Status != events.Completed || !slices.Equal(w.said(id), w.said("plain")) {
				t.Errorf("%s: %s\n%s", point, s.Status, w.story(id))
			}
			asked, told := yes.of(id), w.answers(id)
			want := 1
			if point == events.OnTurn {
				want = 2
			}
			if len(asked) != want || len(told) != want || told[0].Answer != events.HookContinue || told[0].Message != "fine" || told[0].On != point || asked[0].On != point || asked[0].Station != "test" {
				t.Errorf("%s: asked %+v, told %+v", point, asked, told)
			}
			switch q := asked[0]; point {
			case events.OnPreTool:
				if q.Call.Tool != "write" || !strings.Contains(string(q.Call.Input), "out.txt") || q.Result != nil {
					t.Errorf("GUARD-2: the request is not in %+v", q)
				}
			case events.OnPostTool:
				if q.Call.Tool != "write" || !strings.Contains(string(q.Call.Input), "out.txt") || q.Result == nil || !q.Result.Success {
					t.Errorf("GUARD-3: request and result are not in %+v", q)
				}
			case events.OnRunStop:
				if q.End == nil || q.End.Status != "completed" {
					t.Errorf("%+v", q)
				}
			}
		}
	})
	t.Run("LOOP-4e GUARD-2 GUARD-3 block stops what was about to follow, at each point", func(t *testing.T) {
		w := w.on(t)
		for _, point := range points {
			w.with("no-"+point, events.Hook{On: point, Subject: "no"})
		}
		for _, point := range points {
			s := w.ended("no-" + point)
			if fault := w.blocked(point, s); fault != "" {
				t.Errorf("%s: %s", point, fault)
			}
			if told := w.answers(s.HarnessID); len(told) == 0 || told[0].Message != "not today" || told[0].Fault != "" {
				t.Errorf("%s: %+v", point, told)
			}
		}
	})
	t.Run("GUARD-2 interrupt pauses the run with its reason, or opens a gate, and a person lets it go on", func(t *testing.T) {
		w := w.on(t)
		for _, point := range points {
			w.with("wait-"+point, events.Hook{On: point, Subject: "wait"})
		}
		for _, point := range points {
			id := "wait-" + point
			if point == events.OnPreTool {
				w.await(id, "waiting", waiting)
				g := w.opened(id)
				if g.Rule != "hook:agent:h" || !strings.Contains(g.Reason, "let anna look") || len(g.Hooks) != 1 {
					t.Errorf("%+v", g)
				}
				w.publish(g.AnswerSubject+".anna", `{"decision":"approve"}`)
			} else {
				s := w.await(id, "paused", func(s run.State) bool { return s.Status == events.Paused })
				if !strings.Contains(s.PauseReason, "let anna look") {
					t.Errorf("%s: %q", point, s.PauseReason)
				}
				w.publish(events.ControlSubject("test", id), `{"action":"resume","by":"anna"}`)
				if point == events.OnTurn { // the second turn is asked about anew
					w.await(id, "paused again", func(s run.State) bool { return s.Status == events.Paused && s.Turns().Len() == 1 })
					w.publish(events.ControlSubject("test", id), `{"action":"resume","by":"bert"}`)
				}
			}
			s := w.ended(id)
			want := 1
			if point == events.OnTurn {
				want = 2
			}
			if n := len(wait.of(id)); s.Status != events.Completed || n != want || s.ToolCallHistory.Len() != 1 || !s.ToolCallHistory.At(0).Success {
				t.Errorf("%s: %s, asked %d times\n%s", point, s.Status, n, w.story(id))
			}
		}
	})
	t.Run("GUARD-2 SAFE-11 a program gets the question on its standard input and nothing of the service's environment", func(t *testing.T) {
		w := w.on(t)
		w.with("seen", events.Hook{On: events.OnPreTool, Command: []string{"seen"}})
		if s := w.ended("seen"); s.Status != events.Completed || !s.ToolCallHistory.At(0).Success {
			t.Fatalf("%s\n%+v", w.story("seen"), w.answers("seen"))
		}
		env, _ := os.ReadFile(filepath.Join(w.dir, "hooks", "seen.env"))
		if len(env) == 0 {
			t.Error("it wrote no environment")
		}
		own := []string{"PATH", "HOME", "TMPDIR", "LANG", "TERM", "PWD", "OLDPWD", "SHLVL", "_", local.MarkerName}
		for line := range strings.Lines(string(env)) {
			if name, _, _ := strings.Cut(line, "="); !slices.Contains(own, name) {
				t.Errorf("it was given %s", line)
			}
		}
		b, _ := os.ReadFile(filepath.Join(w.dir, "hooks", "seen.json"))
		var q hook.Question
		if err := json.Unmarshal(b, &q); err != nil || q.Call == nil || q.Call.Tool != "write" || q.Run != "seen" || q.V != 1 {
			t.Errorf("%v: %s", err, b)
		}
	})
	t.Run("GUARD-9 an agent cannot take a hook of the station back, nor ask before it", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "sly", Tools: []string{"bash"}, Hooks: []events.Hook{{ID: "h", On: events.OnPreTool, Subject: "yes"}},
			Guards: []events.Rule{{ID: "h", Action: "allow"}}}, calling("bash", `{command: "echo hello"}`))
		w.task(events.Task{ID: "sly", Agent: "sly", Task: "talk"})
		s := w.ended("sly")
		if c := s.ToolCallHistory.At(0); c.Code != events.RefusedHook || c.Rule != "hook:station:h" || !strings.Contains(c.Result, "no shell on this station") {
			t.Errorf("%+v", c)
		}
		if len(station.of("sly")) != 1 || len(yes.of("sly")) != 0 {
			t.Errorf("the station's hook was asked %d times, the agent's %d times", len(station.of("sly")), len(yes.of("sly")))
		}
	})
	t.Run("GUARD-4 the registry serves permission checks and the detection of loops", func(t *testing.T) {
		w := w.on(t)
		w.with("readonly", events.Hook{On: events.OnPreTool, Builtin: "read-only"})
		w.agent(events.Agent{Name: "looping", Tools: []string{"glob"}, Hooks: []events.Hook{{ID: "h", On: events.OnPreTool, Builtin: "doom-loop"}, {ID: "log", On: events.OnTurn, Builtin: "audit"}}},
			"turns:\n  - when: {turn: {from: 1, to: 9}}\n    calls:\n      - {name: glob, input: {pattern: \"*\"}}\n")
		w.task(events.Task{ID: "looping", Agent: "looping", Task: "look"})
		if c := w.ended("readonly").ToolCallHistory.At(0); c.Code != events.RefusedHook || !strings.Contains(c.Result, "only tools that read") {
			t.Errorf("%+v", c)
		}
		s := w.await("looping", "waiting", waiting)
		if g := w.opened("looping"); s.Turns().Len() != 3 || !strings.Contains(g.Reason, "3 times in a row") {
			t.Errorf("after %d turns: %+v", s.Turns().Len(), g)
		}
	})
}

func TestHooksThatFail(t *testing.T) {
	t.Parallel()
	w := hooked(t, "version: 1\n")
	w.respond("silent", "")
	w.respond("odd", `{"answer":"maybe"}`)
	w.respond("long", strings.Repeat(" ", hook.MaxAnswer+1))
	w.program("hang", "sleep 1000 & sleep 1000")
	w.program("crash", "echo '{\"answer\":\"continue\"}'; exit 1")
	w.program("rubbish", "echo yes")
	w.program("empty", "exit 0")
	w.program("flood", "yes")
	w.program("two", `echo '{"answer":"continue"} {"answer":"continue"}'`)
	w.start()
	faults := []struct {
		name, fault string
		hook        events.Hook
	}{
		{"hang", hook.FaultTimeout, events.Hook{Command: []string{"hang"}, TimeoutMS: 300}},
		{"crash", hook.FaultCrash, events.Hook{Command: []string{"crash"}}},
		{"rubbish", hook.FaultMalformed, events.Hook{Command: []string{"rubbish"}}},
		{"empty", hook.FaultMalformed, events.Hook{Command: []string{"empty"}}},
		{"two", hook.FaultMalformed, events.Hook{Command: []string{"two"}}},
		{"flood", hook.FaultFlood, events.Hook{Command: []string{"flood"}}},
		{"absent", hook.FaultCrash, events.Hook{Command: []string{"absent"}}},
		{"climb", hook.FaultUnavailable, events.Hook{Command: []string{"../hooks/rubbish"}}},
		{"silent", hook.FaultTimeout, events.Hook{Subject: "silent", TimeoutMS: 300}},
		{"odd", hook.FaultMalformed, events.Hook{Subject: "odd"}},
		{"long", hook.FaultFlood, events.Hook{Subject: "long"}},
		{"nobody", hook.FaultNoResponder, events.Hook{Subject: "nobody"}},
		{"unknown", hook.FaultUnavailable, events.Hook{Builtin: "unknown"}},
	}
	t.Run("GUARD-2 GUARD-9 GUARD-14 a hook that hangs, breaks, says malformed input or too much, or is not there blocks, at each point", func(t *testing.T) {
		w := w.on(t)
		for _, f := range faults {
			for _, point := range points {
				f.hook.On = point
				w.with(f.name+"-"+point, f.hook)
			}
		}
		for _, f := range faults {
			for _, point := range points {
				id := f.name + "-" + point
				if fault := w.blocked(point, w.ended(id)); fault != "" {
					t.Errorf("%s: %s", id, fault)
				}
				if told := w.answers(id); len(told) == 0 || told[0].Answer != events.HookBlock || told[0].Fault != f.fault || told[0].Message == "" {
					t.Errorf("%s: %+v", id, told)
				}
			}
		}
	})
}

func TestHooksAskedTwice(t *testing.T) {
	t.Parallel()
	w := hooked(t, "version: 1\n")
	asked := make(chan hook.Question, 16)
	var deaf sync.Mutex // held while the gatekeeper is to die without an answer
	deaf.Lock()
	stop, err := w.st.AnswerHook("slow", func(b []byte) []byte {
		var q hook.Question
		if err := json.Unmarshal(b, &q); err != nil {
			t.Errorf("the question is not JSON: %v", err)
		}
		asked <- q
		if !deaf.TryLock() {
			return nil
		}
		deaf.Unlock()
		return []byte(`{"answer":"continue"}`)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	w.start(events.Planner, events.Executor, events.Toolrunner, events.Persister)
	dying := w.start(events.Gatekeeper)
	t.Run("GUARD-2 GUARD-14 a gatekeeper that ends before the answer leaves no verdict; the same question comes again, and one answer is in the log", func(t *testing.T) {
		w := w.on(t)
		w.with("twice", events.Hook{On: events.OnPreTool, Subject: "slow", TimeoutMS: 60_000})
		first := <-asked
		dying.stop()
		if n := w.count("twice"); n["call.allowed"]+n["call.refused"] != 0 {
			t.Fatalf("without an answer:\n%s", w.story("twice"))
		}
		deaf.Unlock()
		w.start(events.Gatekeeper)
		s := w.ended("twice")
		again := <-asked
		if again.Call.ID != first.Call.ID || again.Run != first.Run || again.Call.InputHash != first.Call.InputHash {
			t.Errorf("asked %+v, then %+v", first.Call, again.Call)
		}
		if told := w.answers("twice"); s.Status != events.Completed || len(told) != 1 || told[0].Answer != events.HookContinue {
			t.Errorf("%s %+v", s.Status, told)
		}
	})
	t.Run("GUARD-14 whoever reads the log again asks no one", func(t *testing.T) {
		w := w.on(t)
		before := w.state("twice")
		w.start(events.Gatekeeper, events.Planner, events.Executor)
		w.with("after", events.Hook{On: events.OnRunStart, Builtin: "audit"}) // it is heard behind whatever they would do
		w.ended("after")
		if len(asked) != 0 || w.state("twice").Hash != before.Hash {
			t.Errorf("%d questions were asked again", len(asked))
		}
	})
}

// TestHookOfAnotherEnd has a run come to its end by itself while a hook is asked about a stop.
func TestHookOfAnotherEnd(t *testing.T) {
	t.Parallel()
	w := hooked(t, "version: 1\n")
	var mu sync.Mutex
	var ends []hook.End
	var looking sync.WaitGroup // into the log, to answer
	release, released := make(chan struct{}), sync.Once{}
	for name, answer := range map[string]func(hook.Question) string{
		"hold": func(hook.Question) string {
			<-release
			return events.HookContinue
		},
		"ends": func(q hook.Question) string { // it may be stopped, and may not be completed
			mu.Lock()
			over := slices.ContainsFunc(ends, func(e hook.End) bool { return e.Status == "over" })
			if ends = append(ends, *q.End); !over {
				looking.Add(1)
				defer looking.Done()
			}
			mu.Unlock()
			if over {
				return events.HookContinue
			}
			released.Do(func() { close(release) })
			wait, until, answer := 30*time.Second, "step.finished", events.HookContinue
			if q.End.Status == string(events.Completed) {
				wait, until, answer = 2*time.Second, "run.completed", events.HookBlock // whoever does not wait for it shows now
			}
			tick, late := time.NewTicker(5*time.Millisecond), time.After(wait)
			defer tick.Stop()
			for w.count("over")[until] == 0 {
				select {
				case <-tick.C:
				case <-late:
					return answer
				}
			}
			return answer
		},
	} {
		stop, err := w.st.AnswerHook(name, func(b []byte) []byte {
			var q hook.Question
			if err := json.Unmarshal(b, &q); err != nil {
				t.Errorf("the question is not JSON: %v", err)
			}
			return []byte(`{"answer":"` + answer(q) + `"}`)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stop() })
	}
	w.start(events.Planner, events.Executor, events.Toolrunner, events.Persister, events.Gatekeeper)
	t.Run("GUARD-2 SAFE-7 a run that completes while hooks are asked about its stop ends with what they say about that end", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "over", Tools: []string{"write"}, Hooks: []events.Hook{
			{ID: "hold", On: events.OnPreTool, Subject: "hold", TimeoutMS: 60_000}, {ID: "ends", On: events.OnRunStop, Subject: "ends", TimeoutMS: 60_000}}}, writer)
		level := 5
		w.task(events.Task{ID: "over", Agent: "over", Task: "write", Autonomy: &level})
		w.await("over", "the call is asked for", func(s run.State) bool { return s.Turns().Len() == 1 })
		w.control("over", events.Control{Action: "stop"})
		s := w.ended("over")
		mu.Lock()
		ends = append(ends, hook.End{Status: "over"})
		mu.Unlock()
		looking.Wait()
		if s.Status == events.Failed && s.Result.FinishReason == events.FinishStopped {
			t.Skipf("NOT TESTED: the step did not end before the stop, which waits for hooks for some seconds: %+v", ends)
		}
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishHook || ends[0].Status != string(events.Failed) {
			t.Errorf("%s, and the hook was asked about %+v\n%s", s.Status, ends, w.story("over"))
		}
	})
}
