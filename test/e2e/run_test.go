package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// reader reads a file, then answers.
const reader = `
turns:
  - when: {turn: 1}
    text: I read it.
    calls:
      - {name: read, input: {path: note.txt}}
  - when: {turn: 2, results: {contains: "hello from the note"}}
    text: "The note says hello."
`

func (w *world) file(ws, name, content string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "work", filepath.FromSlash(ws))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "reader", Tools: []string{"read"}, Prompt: "You read."}, reader)
	w.file("session/s1", "note.txt", "hello from the note\n")
	w.start()

	body := `{"agent":"reader","task":"read the note","session_id":"s1"}`
	t.Run("WORK-1 DEPL-6 LIFE-1 LIFE-4 a bare JSON task runs to its end", func(t *testing.T) {
		w := w.on(t)
		w.publish("station.test.task", `{"id":"bare",`+body[1:])
		s := w.ended("bare")
		if s.Status != events.Completed || s.Result.Output != "The note says hello." {
			t.Fatalf("%s: %+v\n%s", s.Status, s.Result, w.story("bare"))
		}
		if r := s.Result; r.StepsCompleted != 1 || r.StepsTotal != 1 || r.TotalSteps != 2 || r.ToolCallCount != 1 || r.DurationMS < 0 || !r.Success {
			t.Errorf("LIFE-12 LOOP-13 result: %+v", r)
		}
		if rec := s.ToolCallHistory.At(0); rec.CallName != "read" || !strings.Contains(rec.Result, "hello from the note") || rec.DurationMS <= 0 {
			t.Errorf("TOOL-2 record: %+v", rec)
		}
	})
	t.Run("ECO-1 EVT-13 a CloudEvent in structured mode and one in binary mode start runs", func(t *testing.T) {
		w := w.on(t)
		w.publish("station.test.task", `{"specversion":"1.0","id":"structured-1","source":"/test","type":"dev.inspan.task.v1","datacontenttype":"application/json","data":`+body+`}`,
			"Content-Type", "application/cloudevents+json")
		w.file("session/s2", "note.txt", "hello from the note\n")
		w.publish("station.test.task.projectx", strings.Replace(body, "s1", "s2", 1), "ce-specversion", "1.0", "ce-id", "binary-1", "ce-source", "/test", "ce-type", "dev.inspan.task.v1", "Content-Type", "application/json")
		for _, id := range []string{"structured-1", "binary-1"} {
			if s := w.ended(id); s.Status != events.Completed {
				t.Errorf("%s: %+v", id, s.Result)
			}
		}
	})
	t.Run("EVT-1 EVT-2 LIFE-15 the log alone gives the state, with every field of the snapshot readable as JSON", func(t *testing.T) {
		w := w.on(t)
		b, err := run.Codec{}.Encode(w.state("bare"))
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields("schemaVersion harnessId agentName taskId status createdAt updatedAt plan currentStepIndex toolCallHistory totalToolCalls subAgentIds subAgentResults agentLoopSnapshot lastCheckpointAt checkpointCount") {
			if _, ok := doc[field]; !ok {
				t.Errorf("no %s", field)
			}
		}
	})
	t.Run("OBS-3 OBS-4 OBS-5 OBS-6 OBS-7 OBS-8 LOOP-18 TOOL-18 monitoring events carry their names and fields", func(t *testing.T) {
		w := w.on(t)
		seen := map[string]map[string]json.RawMessage{}
		for i, r := range w.events("bare") {
			f, err := events.Decode(r.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if f.Sequence != uint64(i+1) {
				t.Errorf("OBS-4: event %d has sequence %d", i+1, f.Sequence)
			}
			if f.Run != "bare" || f.Station != "test" || f.StationRun == "" || f.Session != "s1" || f.AgentName != "reader" || f.AgentID == "" {
				t.Errorf("correlation: %+v", f.Identity)
			}
			var d map[string]json.RawMessage
			if err := json.Unmarshal(f.Data, &d); err != nil {
				t.Fatal(err)
			}
			var name string
			_ = json.Unmarshal(d["event"], &name)
			seen[name] = d
		}
		for name, fields := range map[string]string{
			"run_start": "agent_id agent_name task max_steps", "tool_start": "tool_name tool_id input",
			"tool_result": "tool_name tool_id output duration_ms", "step_complete": "step_number total_tokens input_tokens output_tokens finish_reason",
			"run_complete": "success total_steps total_tokens duration_ms finish_reason", "plan_completed": "steps",
		} {
			for _, f := range strings.Fields(fields) {
				if _, ok := seen[name][f]; !ok {
					t.Errorf("event %q has no field %s", name, f)
				}
			}
		}
	})
	t.Run("a turn with one read tool costs three appends", func(t *testing.T) {
		w := w.on(t)
		n := w.count("bare")
		if n["turn.finished"] != 2 || n["call.allowed"] != 1 || n["call.started"] != 0 || n["call.finished"] != 1 {
			t.Errorf("%v", n)
		}
	})
	t.Run("PERS-18a LIFE-8 LIFE-9 EVT-10 OBS-24 the index shows the run, with an archive of its whole log", func(t *testing.T) {
		w := w.on(t)
		i := w.row("bare", func(i run.Info) bool { return i.Status == events.Completed && i.Archive != nil })
		if i.AgentName != "reader" || i.StepsCompleted != 1 || i.ToolCallCount != 1 || i.CompletedAt == nil {
			t.Errorf("%+v", i)
		}
		lines, err := w.ports.Blobs.Get(w.ctx(), *i.Archive)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(string(lines), "\n"), len(w.events("bare")); got != want {
			t.Errorf("OBS-24: %d lines for %d events", got, want)
		}
	})
	t.Run("a duplicate task id starts one run, for ever", func(t *testing.T) {
		w := w.on(t)
		before := len(w.events("bare"))
		w.publish("station.test.task", `{"id":"bare",`+body[1:])
		w.publish("station.test.task", `{"id":"after",`+body[1:])
		w.ended("after")
		if after := len(w.events("bare")); after != before {
			t.Errorf("%d events became %d", before, after)
		}
	})
	t.Run("LIFE-16 WS-3 many runs at once do not disturb each other", func(t *testing.T) {
		w := w.on(t)
		for i := range 20 {
			session := fmt.Sprintf("many%d", i)
			w.file("session/"+session, "note.txt", "hello from the note "+session+"\n")
			w.task(events.Task{ID: session, Agent: "reader", Task: "read", Session: session})
		}
		for i := range 20 {
			id := fmt.Sprintf("many%d", i)
			s := w.ended(id)
			if rec := s.ToolCallHistory.At(0); s.Status != events.Completed || !strings.Contains(rec.Result, "note "+id+"\n") && !strings.Contains(rec.Result, "note "+id) {
				t.Errorf("%s: %s %q", id, s.Status, rec.Result)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "reader", Tools: []string{"read"}}, reader)
	letters := w.letters()
	w.start()
	cases := []struct{ name, subject, body, code, text string }{
		{"malformed JSON", "station.test.task", `{"agent":`, "bad_input", "JSON"},
		{"unknown key", "station.test.task", `{"agent":"reader","task":"x","agnet":"y"}`, "bad_input", "agnet"},
		{"unknown agent", "station.test.task", `{"agent":"raeder","task":"x"}`, "unknown_agent", "raeder"},
		{"no task", "station.test.task", `{"agent":"reader"}`, "bad_input", "no task"},
		{"plan with a cycle", "station.test.task", `{"agent":"reader","task":"x","plan":{"steps":[{"id":"a","description":"a","needs":["b"]},{"id":"b","description":"b","needs":["a"]}]}}`, "bad_plan", "cycle"},
		{"plan with an unknown agent", "station.test.task", `{"agent":"reader","task":"x","plan":{"steps":[{"id":"a","description":"a","agent":"ghost"}]}}`, "bad_plan", "ghost"},
		{"session id with dots", "station.test.task", `{"agent":"reader","task":"x","session_id":"../../etc"}`, "bad_input", "session_id"},
		{"wildcard in an id", "station.test.task", `{"agent":"rea*er","task":"x"}`, "bad_input", "agent"},
		{"autonomy out of range", "station.test.task", `{"agent":"reader","task":"x","autonomy":9}`, "bad_input", "autonomy"},
		{"broken CloudEvent", "station.test.task", `{"specversion":"1.0","id":"","source":"","type":""}`, "bad_input", "CloudEvent"},
		{"deep JSON", "station.test.task", strings.Repeat("[", 5000), "bad_input", "nested"},
		{"control of an unknown run", "station.test.run.ghost.control", `{"action":"pause"}`, "unknown_run", "ghost"},
		{"unknown action", "station.test.run.ghost.control", `{"action":"puase"}`, "bad_input", "puase"},
		{"answer to an unknown run", "station.test.run.ghost.gate.g-1", `{"decision":"approve"}`, "unknown_run", "no such run"},
	}
	for _, c := range cases {
		t.Run("SAFE-12 "+c.name+" is refused clearly and starts nothing", func(t *testing.T) {
			w := w.on(t)
			w.publish(c.subject, c.body)
			d := w.letter(letters)
			if d.Code != c.code || !strings.Contains(d.Reason, c.text) || d.Hint == "" || d.Subject != c.subject {
				t.Errorf("got %+v, want code %s with %q", d, c.code, c.text)
			}
		})
	}
	t.Run("SAFE-12 no consumer is blocked by what was refused", func(t *testing.T) {
		w := w.on(t)
		w.file("session/ok", "note.txt", "hello from the note\n")
		w.task(events.Task{ID: "ok", Agent: "reader", Task: "read", Session: "ok"})
		if s := w.ended("ok"); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("SAFE-12 a task id that belongs to another task is refused", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "ok", Agent: "reader", Task: "something else", Session: "ok"})
		if d := w.letter(letters); d.Code != "duplicate_id" || d.Run != "ok" {
			t.Errorf("%+v", d)
		}
	})
}
