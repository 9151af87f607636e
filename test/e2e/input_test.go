package e2e

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestInputIsRefused publishes what outsiders may get wrong. Each message is a dead letter with a reason, changes
// nothing, and the next good one is taken.
func TestInputIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "writer", Tools: []string{"bash"}}, `
turns:
  - when: {turn: 1}
    text: "done"
`)
	letters := w.letters()
	w.start()
	level := 1
	w.task(events.Task{ID: "waits", Agent: "writer", Task: "write", Autonomy: &level})
	w.await("waits", "waiting", waiting)
	g := w.opened("waits")
	const task, control = "station.test.task", "station.test.run.waits.control"
	answer := g.AnswerSubject
	wrapped := func(kind, version, data string) string {
		return `{"specversion":"` + version + `","id":"x1","source":"/test","type":"` + kind + `","data":` + data + `}`
	}
	const good, pause, yes = `{"agent":"writer","task":"x"}`, `{"action":"pause"}`, `{"decision":"approve"}`
	ce := []string{"Content-Type", "application/cloudevents+json"}
	binary := func(kind, version string) []string {
		return []string{"ce-specversion", version, "ce-id", "x2", "ce-source", "/test", "ce-type", kind, "Content-Type", "application/json"}
	}
	long := strings.Repeat("x", 10<<10)
	cases := []struct {
		name, subject, body string
		header              []string
		text                string
	}{
		{"a task of another type", task, wrapped("dev.inspan.call.allowed.v1", "1.0", good), ce, "dev.inspan.call.allowed.v1"},
		{"a task of another type in headers", task, good, binary("dev.inspan.control.v1", "1.0"), "dev.inspan.control.v1"},
		{"a task of a later version of its type", task, wrapped("dev.inspan.task.v2", "1.0", good), ce, "dev.inspan.task.v2"},
		{"a task of another version of CloudEvents", task, wrapped(events.TaskType, "0.3", good), ce, "specversion"},
		{"a task of another version of CloudEvents in headers", task, good, binary(events.TaskType, "0.3"), "specversion"},
		{"a control of another type", control, wrapped(events.TaskType, "1.0", pause), ce, events.TaskType},
		{"a control of another version of CloudEvents", control, wrapped(events.ControlType, "2.0", pause), ce, "specversion"},
		{"an answer of another type", answer, wrapped(events.ControlType, "1.0", yes), ce, events.ControlType},
		{"an answer of another version of CloudEvents", answer, wrapped(events.AnswerType, "0.3", yes), ce, "specversion"},
		{"a source that is too long", task, strings.Replace(wrapped(events.TaskType, "1.0", good), "/test", "/"+long, 1), ce, "source"},

		{"a key twice in a task", task, `{"agent":"writer","task":"x","task":"y"}`, nil, `"task"`},
		{"a key twice in another case", task, `{"agent":"writer","task":"x","Task":"y"}`, nil, `"Task"`},
		{"a key twice in a plan", task, `{"agent":"writer","task":"x","plan":{"steps":[{"id":"a","description":"d"},{"id":"b","description":"d","id":"c"}]}}`, nil, `"plan.steps[1].id"`},
		{"a key twice in variables", task, `{"agent":"writer","task":"x","variables":{"a":"1","b":"2","a":"3"}}`, nil, `"variables.a"`},
		{"a key twice in a control", control, `{"action":"pause","action":"stop"}`, nil, `"action"`},
		{"a key twice in an answer", answer, `{"decision":"reject","decision":"approve"}`, nil, `"decision"`},
		{"a key twice in edited arguments", answer, `{"decision":"approve","edited_input":{"a":{"b":1,"b":2}}}`, nil, `"edited_input.a.b"`},
		{"a key twice in a CloudEvent", task, strings.Replace(wrapped(events.TaskType, "1.0", good), `"data"`, `"data":{"agent":"other","task":"y"},"data"`, 1), ce, `"data"`},

		{"a task id that is a path", task, `{"id":"../../etc","agent":"writer","task":"x"}`, nil, "task id"},
		{"a task id that is too long", task, `{"id":"` + strings.Repeat("x", 65) + `","agent":"writer","task":"x"}`, nil, "task id"},
		{"a task id with a dot", task, `{"id":"a.b","agent":"writer","task":"x"}`, nil, "task id"},
		{"a project that is no token", task + ".a@b", good, nil, "project"},
		{"a step id that is a path", task, `{"agent":"writer","task":"x","plan":{"steps":[{"id":"../a","description":"d"}]}}`, nil, "../a"},
		{"an agent of a step that is a path", task, `{"agent":"writer","task":"x","plan":{"steps":[{"id":"a","description":"d","agent":"../a"}]}}`, nil, "../a"},
		{"an approver that is no token", answer + ".a@b", yes, nil, "approver"},
		{"an approver that is too long", answer + "." + strings.Repeat("x", 65), yes, nil, "approver"},

		{"a long by in a task", task, `{"agent":"writer","task":"x","by":"` + long + `"}`, nil, "by has 10240 bytes"},
		{"a long by in a control", control, `{"action":"pause","by":"` + long + `"}`, nil, "by has 10240 bytes"},
		{"a long by in an answer", answer, `{"decision":"approve","by":"` + long + `"}`, nil, "by has 10240 bytes"},
		{"a long reason in a control", control, `{"action":"pause","reason":"` + long + `"}`, nil, "reason has 10240 bytes"},
		{"a long reason in an answer", answer, `{"decision":"reject","reason":"` + long + `"}`, nil, "reason has 10240 bytes"},
		{"an escape in the by of a task", task, `{"agent":"writer","task":"x","by":"a\u001b[2J"}`, nil, "by has the character U+001B"},
		{"an escape in the by of a control", control, `{"action":"pause","by":"a\u001b[2J"}`, nil, "by has the character U+001B"},
		{"two lines in the by of an answer", answer, `{"decision":"approve","by":"anna\nbert"}`, nil, "by has the character U+000A"},
		{"a reversed text in the reason of an answer", answer, `{"decision":"reject","reason":"a\u202eb"}`, nil, "reason has the character U+202E"},
		{"an escape in the reason of a control", control, `{"action":"pause","reason":"a\u009bb"}`, nil, "reason has the character U+009B"},
		{"a long by for a session", events.SessionSubject("test", "s"), `{"action":"start","by":"` + long + `"}`, nil, "by has 10240 bytes"},
		{"a session's control of another type", events.SessionSubject("test", "s"), wrapped(events.ControlType, "1.0", `{"action":"start"}`), ce, events.ControlType},
	}
	for _, c := range cases {
		t.Run("SAFE-12 "+c.name+" is refused with the reason", func(t *testing.T) {
			w := w.on(t)
			w.publish(c.subject, c.body, c.header...)
			d := w.letter(letters)
			if d.Code != "bad_input" && d.Code != "bad_subject" && d.Code != "bad_plan" || !strings.Contains(d.Reason, c.text) || d.Hint == "" || d.Subject != c.subject {
				t.Errorf("got %s %.300q, hint %q, subject %s; want %q", d.Code, d.Reason, d.Hint, d.Subject, c.text)
			}
			if len(d.Reason) > 1<<10 {
				t.Errorf("a reason of %d bytes", len(d.Reason))
			}
		})
	}
	t.Run("SAFE-12 what was refused changed nothing, and the queues go on", func(t *testing.T) {
		w := w.on(t)
		if s := w.state("waits"); s.Status != events.Running || s.Gates[0].Status != run.GatePending {
			t.Fatalf("%s %+v", s.Status, s.Gates[0])
		}
		w.publish(task, wrapped(events.TaskType, "1.0", `{"agent":"writer","task":"x","variables":{"a":"1","A":"2"},"by":"Anna Ä"}`), ce...)
		if s := w.ended("x1"); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
		w.publish(control, wrapped(events.ControlType, "1.0", `{"action":"pause","reason":"lunch\nat noon"}`), ce...)
		w.await("waits", "paused", func(s run.State) bool { return s.Status == events.Paused })
		w.publish(control, `{"action":"resume","by":"`+strings.Repeat("x", events.MaxBy)+`"}`)
		w.await("waits", "running", func(s run.State) bool { return s.Status == events.Running })
		w.publish(answer, wrapped(events.AnswerType, "1.0", `{"decision":"approve","reason":"`+strings.Repeat("x", events.MaxReason)+`"}`), ce...)
		if s := w.ended("waits"); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("EVT-13 SAFE-12 a CloudEvent of a foreign id starts one run, whose id is a token", func(t *testing.T) {
		w := w.on(t)
		foreign := strings.Replace(wrapped(events.TaskType, "1.0", good), `"x1"`, `"../../order/17"`, 1)
		w.publish(task, foreign, ce...)
		w.publish(task, foreign, ce...)
		sum := sha256.Sum256([]byte("task|../../order/17"))
		id := "run-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
		if s := w.ended(id); s.Status != events.Completed || s.TaskID != id {
			t.Errorf("task %q, %+v", s.TaskID, s.Result)
		}
	})
}
