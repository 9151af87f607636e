package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// marked is a task that says of itself whether it is long-running.
func marked(t events.Task, long bool) events.Task {
	t.LongRunning = &long
	return t
}

// directKinds are the events of a direct run that reads a file and answers.
const directKinds = "run.created turn.finished call.allowed call.finished turn.finished step.finished run.completed"

func TestDirect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "reader", Tools: []string{"read"}, Prompt: "You read."}, reader)
	w.start()
	w.start() // each role twice: a turn is taken once

	t.Run("LIFE-13 LIFE-14 PERF-3 C30 a direct run is the same run without what the harness adds around it", func(t *testing.T) {
		w := w.on(t)
		w.file("run/d1", "note.txt", "hello from the note\n")
		w.task(marked(events.Task{ID: "d1", Agent: "reader", Task: "read the note"}, false))
		s := w.ended("d1")
		if s.Status != events.Completed || s.Result.Output != "The note says hello." || !s.Direct() {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("d1"))
		}
		if got := w.kinds("d1"); !slices.Equal(got, strings.Fields(directKinds)) {
			t.Errorf("got %v\nwant %s", got, directKinds)
		}
		i := w.row("d1", func(i run.Info) bool { return i.Status == events.Completed && i.Archive != nil })
		if i.StepsCompleted != 1 || i.Turns != 2 || i.Checkpoints != 0 || !i.Direct {
			t.Errorf("%+v", i)
		}
		if _, err := w.ports.State.Get(w.ctx(), snapshot.Key("d1")); !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("a snapshot of a direct run: %v", err)
		}
		w.sound("d1")
	})
	t.Run("LIFE-13 C30 guards judge the calls of a direct run, and the monitoring event of its beginning is there", func(t *testing.T) {
		w := w.on(t)
		w.file("run/d2", "note.txt", "hello from the note\n")
		w.task(marked(events.Task{ID: "d2", Agent: "reader", Task: "read the note"}, false))
		w.ended("d2")
		_, p, err := events.Read(w.events("d2")[0].Bytes)
		if err != nil {
			t.Fatal(err)
		}
		c, ok := p.(*events.RunCreatedData)
		if !ok || c.Event != events.RunStart || c.AgentID != "reader" || c.AgentName != "reader" || c.MaxSteps != 50 || c.Task != "read the note" || c.To != events.Running {
			t.Errorf("%+v", p)
		}
	})
	t.Run("LIFE-13 PERF-3 a task that comes again starts nothing, also with another mark", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		before := w.events("d1")
		w.task(marked(events.Task{ID: "d1", Agent: "reader", Task: "read the note"}, false))
		w.task(marked(events.Task{ID: "d1", Agent: "reader", Task: "read the note"}, true))
		if d := w.letter(letters); d.Code != "duplicate_id" {
			t.Errorf("%+v", d)
		}
		if after := w.events("d1"); len(after) != len(before) {
			t.Errorf("%d events became %d", len(before), len(after))
		}
	})
	t.Run("LIFE-14 a direct run is decided again as it was, and forked from every event", func(t *testing.T) {
		w := w.on(t)
		r := replayed(t, lawOf(t, events.GateTerms{}), w.log("d1"))
		if !r.OK() || int(r.Events) != len(w.events("d1")) || r.Decided != int(r.Events)-1 {
			t.Errorf("%+v", r) // its birth was asked for from outside
		}
		last := w.state("d2")
		for seq := uint64(1); seq <= last.Sequence; seq++ {
			id := fmt.Sprintf("fork-%d", seq)
			w.task(events.Task{ID: id, ForkOf: &events.ForkPoint{Run: "d2", Sequence: seq, SameWorkspace: true}, Say: "And now?"})
			s := w.ended(id)
			if s.Direct() || !s.Forked {
				t.Errorf("at %d: %+v\n%s", seq, s.Result, w.story(id))
			}
			w.sound(id)
		}
	})
}

// sound audits a run.
func (w *world) sound(runID string) {
	w.t.Helper()
	a := audit.New(audit.Config{Run: runID})
	for _, r := range w.events(runID) {
		if !a.Event(w.ctx(), r) {
			break
		}
	}
	if r := a.End(); !r.Sound {
		w.t.Errorf("run %s: %v", runID, r.First)
	}
}

// TestPaths chooses the path as a station does.
func TestPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const say = "turns:\n  - when: {turn: 1}\n    text: done\n"
	for _, word := range []string{"", events.HarnessOn, events.HarnessOff} {
		w.agent(events.Agent{Name: "agent" + word, Harness: word}, say)
	}
	w.agent(events.Agent{Name: "planned", Harness: events.HarnessOff, Plan: "model"}, "turns:\n  - when: {purpose: plan}\n    text: '{\"steps\":[{\"id\":\"s\",\"description\":\"d\",\"dependencies\":[],\"critical\":false}]}'\n  - when: {turn: 1}\n    text: done\n")
	w.agent(events.Agent{Name: "careful", Harness: events.HarnessOff, Autonomy: 2}, say)
	w.start()
	yes, no, four, often := true, false, 4, int64(60_000)
	plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "only", Description: "do it"}}}
	for name, c := range map[string]struct {
		task   events.Task
		direct bool
	}{
		"no one says anything":                      {events.Task{Agent: "agent"}, false},
		"the harness is on":                         {events.Task{Agent: "agenton"}, false},
		"the harness is off":                        {events.Task{Agent: "agentoff"}, true},
		"marked, the harness is off":                {events.Task{Agent: "agentoff", LongRunning: &yes}, false},
		"marked as short, the harness is on":        {events.Task{Agent: "agenton", LongRunning: &no}, true},
		"long by its estimate, the harness is off":  {events.Task{Agent: "agentoff", Estimate: "5m"}, false},
		"short by its estimate, the harness is off": {events.Task{Agent: "agentoff", Estimate: "4m59s"}, true},
		"short by its estimate, no one says":        {events.Task{Agent: "agent", Estimate: "4m59s"}, true},
		"short by its estimate, the harness is on":  {events.Task{Agent: "agenton", Estimate: "4m59s"}, false},
		"long by its estimate, but marked as short": {events.Task{Agent: "agenton", Estimate: "3h", LongRunning: &no}, true},
		"a plan":                                 {events.Task{Agent: "agentoff", LongRunning: &no, Plan: plan}, false},
		"the model makes the plan":               {events.Task{Agent: "planned", LongRunning: &no}, false},
		"autonomy 2 of the agent":                {events.Task{Agent: "careful", LongRunning: &no}, false},
		"autonomy 2 of the agent, 4 of the task": {events.Task{Agent: "careful", LongRunning: &no, Autonomy: &four}, true},
		"checkpoints":                            {events.Task{Agent: "agentoff", LongRunning: &no, CheckpointIntervalMS: &often}, false},
		"no snapshots":                           {events.Task{Agent: "agentoff", EternalEngine: &no}, true},
		"snapshots":                              {events.Task{Agent: "agentoff", EternalEngine: &yes}, false},
	} {
		t.Run("LIFE-13 LOOP-1 PERF-3 "+name, func(t *testing.T) {
			w := w.on(t)
			c.task.ID, c.task.Task = "r-"+strings.NewReplacer(" ", "-", ",", "").Replace(name), "do it"
			w.task(c.task)
			s := w.await(c.task.ID, "ended or waiting", func(s run.State) bool { return s.Status.Ended() || waiting(s) })
			if s.Direct() != c.direct {
				t.Errorf("direct is %v\n%s", s.Direct(), w.story(c.task.ID))
			}
		})
	}
	t.Run("LIFE-13 an estimate that is none is refused", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		for _, bad := range []string{"soon", "-5m", "0s"} {
			w.task(events.Task{Agent: "agent", Task: "do it", Estimate: bad})
			if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "estimate") {
				t.Errorf("%q: %+v", bad, d)
			}
		}
	})
}

// TestBothPaths lets the same things happen to a wrapped run and to a direct one, and compares what came of it: it is
// one loop (LIFE-14).
func TestBothPaths(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 8)
	gate := make(chan struct{})
	held := &probe{name: "held", effect: tool.Once, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		began <- struct{}{}
		select {
		case <-gate:
			return tool.Result{Output: "let go"}, nil
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}}
	w := newWorld(t, held)
	ask := []events.Rule{{ID: "careful", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask"}}
	again := "turns:\n  - when: {turn: {from: 1, to: 30}}\n    calls:\n      - {name: read, input: {path: none.txt}}\n"
	w.agent(events.Agent{Name: "held", Tools: []string{"held"}}, calling("held", "{}"))
	w.agent(events.Agent{Name: "shouter", Tools: []string{"bash"}, Guards: ask}, shouter)
	w.agent(events.Agent{Name: "pusher", Tools: []string{"bash"}}, calling("bash", `{command: "git push --force"}`))
	w.agent(events.Agent{Name: "looper", Tools: []string{"read"}, DoomLoop: events.DoomLoop{Action: events.DoomFail}}, again)
	w.agent(events.Agent{Name: "stepper", Tools: []string{"read"}, MaxSteps: 3, DoomLoop: events.DoomLoop{Threshold: 20}}, again)
	w.agent(events.Agent{Name: "spender", Tools: []string{"read"}, MaxTokens: 40}, again)
	w.agent(events.Agent{Name: "busy"}, "turns:\n  - when: {turn: 1, attempt: 1}\n    error: {class: transient, status: 529, message: busy}\n  - when: {turn: 1, attempt: 2}\n    text: done\n")
	w.agent(events.Agent{Name: "broken"}, "turns:\n  - when: {turn: 1}\n    error: {class: invalid, message: no such model}\n")
	w.agent(events.Agent{Name: "talker"}, "turns:\n  - when: {turn: 1}\n    text: hello\n")
	w.start()
	control := func(w *world, id, action string) {
		w.publish(events.ControlSubject("test", id), `{"action":"`+action+`","by":"anna"}`)
	}
	answer := func(decision string) func(*world, string) {
		return func(w *world, id string) {
			w.await(id, "waiting", waiting)
			w.answerAs(w.opened(id), "anna", events.Answer{Decision: decision, Reason: "because"})
		}
	}
	for n, c := range []struct {
		what, agent string
		during      func(w *world, id string)
	}{
		{"an answer", "talker", nil},
		{"a refused call", "pusher", nil},
		{"a gate before a call, approved", "shouter", answer("approve")},
		{"a gate before a call, rejected", "shouter", func(w *world, id string) {
			answer("reject")(w, id)
			w.await(id, "paused", func(s run.State) bool { return s.Status == events.Paused })
			control(w, id, "resume")
		}},
		{"a doom loop", "looper", nil},
		{"all turns used", "stepper", nil},
		{"a budget of tokens", "spender", nil},
		{"a model that is busy", "busy", nil},
		{"a model that is not there", "broken", nil},
		{"pause and resume", "held", func(w *world, id string) {
			<-began
			control(w, id, "pause")
			w.await(id, "paused", func(s run.State) bool { return s.Status == events.Paused })
			gate <- struct{}{}
			w.await(id, "with its result", func(s run.State) bool { return s.ToolCallHistory.Len() == 1 })
			control(w, id, "resume")
		}},
		{"stop", "held", func(w *world, id string) {
			<-began
			control(w, id, "stop")
		}},
	} {
		t.Run("LIFE-14 "+c.what, func(t *testing.T) {
			w := w.on(t)
			var ends [2]run.State
			for i, path := range []string{"wrap", "bare"} { // as long as each other: prompts hold the id
				id := fmt.Sprintf("both-%d-%s", n, path)
				w.task(marked(events.Task{ID: id, Agent: c.agent, Task: "work"}, path == "wrap"))
				if c.during != nil {
					c.during(w, id)
				}
				ends[i] = w.ended(id)
				w.sound(id)
			}
			if ends[0].Direct() || !ends[1].Direct() {
				t.Fatal("they do not take different paths")
			}
			if a, b := told(t, ends[0]), told(t, ends[1]); a != b {
				t.Errorf("wrapped:\n%s\ndirect:\n%s", a, b)
			}
		})
	}
	t.Run("LIFE-13 LIFE-14 the runs of a session are wrapped, however they are marked, and go on from its conversation", func(t *testing.T) {
		w := w.on(t)
		for i, long := range []bool{false, true, false} {
			id := fmt.Sprintf("talk-%d", i)
			w.task(marked(events.Task{ID: id, Agent: "talker", Task: "talk", Session: "both"}, long))
			s := w.ended(id)
			if s.Direct() || s.Status != events.Completed || (s.Created.History != nil) != (i > 0) || s.Created.SessionFence != uint64(i+1) {
				t.Errorf("%+v %+v", s.Result, s.Created)
			}
		}
	})
}

// TestDirectHooks asks hooks at each point of runs that are marked as short.
func TestDirectHooks(t *testing.T) {
	t.Parallel()
	w := hooked(t, "version: 1\n")
	w.respond("yes", `{"answer":"continue","message":"fine"}`)
	w.respond("no", `{"answer":"block","message":"not today"}`)
	w.respond("wait", `{"answer":"interrupt","message":"let anna look"}`)
	w.start()
	begin := func(w *world, answer, point string) string {
		id := answer + "-" + point
		w.agent(events.Agent{Name: id, Model: "scripted/" + id, Tools: []string{"write"}, Hooks: []events.Hook{{ID: "h", On: point, Subject: answer}}}, writer)
		w.task(marked(events.Task{ID: id, Agent: id, Task: "write"}, false))
		return id
	}
	for _, point := range points {
		t.Run("LIFE-14 C30 who lets a run go on is recorded, and it is direct: "+point, func(t *testing.T) {
			w := w.on(t)
			id := begin(w, "yes", point)
			s := w.ended(id)
			if told := w.answers(id); s.Status != events.Completed || !s.Direct() || len(told) == 0 || told[0].Answer != events.HookContinue || told[0].On != point {
				t.Errorf("%+v %+v\n%s", s.Result, told, w.story(id))
			}
		})
		t.Run("LIFE-13 LIFE-14 C30 who blocks stops what was about to follow: "+point, func(t *testing.T) {
			w := w.on(t)
			s := w.ended(begin(w, "no", point))
			if fault := w.blocked(point, s); fault != "" || s.Direct() == (point == events.OnRunStart) {
				t.Errorf("direct %v: %s", s.Direct(), fault)
			}
		})
	}
	t.Run("LIFE-13 C30 who interrupts the start of a run wraps it, and it waits for a person", func(t *testing.T) {
		w := w.on(t)
		id := begin(w, "wait", events.OnRunStart)
		if s := w.await(id, "paused", func(s run.State) bool { return s.Status == events.Paused }); s.Direct() {
			t.Error("it is direct")
		}
		w.publish(events.ControlSubject("test", id), `{"action":"resume","by":"anna"}`)
		if s := w.ended(id); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
}

// told is what came of a run: its turns, calls and gates and how it ended, without times and ids.
func told(t *testing.T, s run.State) string {
	t.Helper()
	var b strings.Builder
	for _, turn := range run.All(s.Turns()) {
		fmt.Fprintf(&b, "turn %d of %s: %q %s, %d in, %d out\n", turn.Number, turn.Step, turn.Text, turn.FinishReason, turn.InputTokens, turn.OutputTokens)
	}
	for _, r := range run.All(s.ToolCallHistory) {
		fmt.Fprintf(&b, "call %s %s %s: %s %q %s %s\n", r.ID, r.CallName, r.Arguments, r.Outcome, r.Result, r.Code, r.Rule)
	}
	for _, g := range s.Gates {
		fmt.Fprintf(&b, "gate %s %s: %s by %s (%s)\n", g.Scope, g.CallID, g.Status, g.By, g.Reason)
	}
	end := *s.Result
	end.DurationMS, end.Input = 0, 0
	j, err := json.Marshal(end)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(j)
	return b.String()
}
