package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// builder makes a file, then adds to it, and only where it remembers what it did before.
const builder = `
turns:
  - when: {turn: 1, message: {contains: "create the file"}}
    text: I create it.
    calls:
      - {name: write, input: {path: calc.go, content: "package calc\n"}}
  - when: {turn: 2, message: {contains: "create the file"}, results: {tool: write}}
    text: I created calc.go.
  - when: {turn: 1, message: {contains: "add a function"}, history: {contains: "I created calc.go."}}
    text: I remember calc.go.
    calls:
      - {name: write, input: {path: calc.go, content: "package calc\n\nfunc Add(a, b int) int { return a + b }\n"}}
  - when: {turn: 2, message: {contains: "add a function"}}
    text: I added Add to calc.go.
  - when: {turn: 1, message: {contains: "add tests"}, history: {contains: "I added Add to calc.go."}, results: {tool: write}}
    text: I remember both.
    calls:
      - {name: read, input: {path: calc.go}}
  - when: {turn: 2, message: {contains: "add tests"}, results: {contains: "func Add"}}
    calls:
      - {name: write, input: {path: calc_test.go, content: "package calc\n"}}
  - when: {turn: 3, message: {contains: "add tests"}}
    text: I added tests.
  - when: {message: {contains: "wait"}, turn: 1}
    text: I ask.
    calls:
      - {name: write, input: {path: waited.txt, content: "x"}}
  - when: {message: {contains: "wait"}}
    text: I waited.
`

func (w *world) session(id string) events.Session {
	w.t.Helper()
	var e events.Session
	b, err := w.ports.Sessions.Get(w.ctx(), "session."+id)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		w.t.Fatalf("session %s: %v", id, err)
	}
	return e
}

// sessionOf waits until a session is as wanted.
func (w *world) sessionOf(id, what string, want func(events.Session) bool) events.Session {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := w.ctx()
	for {
		var e events.Session
		if b, err := w.ports.Sessions.Get(ctx, "session."+id); err == nil {
			if err := json.Unmarshal(b, &e); err != nil {
				w.t.Fatal(err)
			}
		}
		if want(e) {
			return e
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("waited for session %s to be %s; it is %+v", id, what, e)
		}
	}
}

func free(e events.Session) bool { return e.ID != "" && len(e.Holders) == 0 }

func (w *world) input(session, id, text string) run.State {
	w.t.Helper()
	w.task(events.Task{ID: id, Agent: "builder", Task: text, Session: session})
	s := w.ended(id)
	w.sessionOf(session, "free", func(e events.Session) bool { return free(e) && e.Parts > 0 })
	return s
}

func TestSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "builder", Tools: []string{"read", "write"}, Prompt: "You build."}, builder)
	services := w.start()

	t.Run("SESS-1 SESS-7 SESS-11 LOOP-11 inputs of a session build on those before them", func(t *testing.T) {
		w := w.on(t)
		if s := w.input("calc", "in-1", "create the file"); s.Status != events.Completed || s.Created.History != nil || s.Created.SessionFence != 1 {
			t.Fatalf("%+v %+v", s.Result, s.Created)
		}
		s := w.input("calc", "in-2", "add a function")
		if s.Status != events.Completed || s.Result.Output != "I added Add to calc.go." || s.Created.History == nil || s.Created.SessionFence != 2 {
			t.Fatalf("%+v %+v", s.Result, s.Created)
		}
	})
	t.Run("LOOP-11 a run without a session begins with the history that its task brings", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "given", Agent: "builder", Task: "add a function", History: []events.Message{
			{Role: events.RoleUser, Content: "create it"}, {Role: events.RoleAssistant, Content: "I created calc.go."}}})
		if s := w.ended("given"); s.Status != events.Completed || s.Result.Output != "I added Add to calc.go." {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("SESS-12 the services are gone in between", func(t *testing.T) {
		services.stop()
		w.on(t).start()
	})
	t.Run("SESS-2 SESS-12 another process goes on with the conversation and the files", func(t *testing.T) {
		w := w.on(t)
		w.start()
		if s := w.input("calc", "in-3", "add tests"); s.Status != events.Completed || s.Result.Output != "I added tests." {
			t.Fatalf("%+v\n%s", s.Result, w.story("in-3"))
		}
		dir := filepath.Join(w.dir, "work", "session", "calc")
		for name, want := range map[string]string{"calc.go": "func Add", "calc_test.go": "package calc"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !strings.Contains(string(b), want) {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		e := w.session("calc")
		if e.Runs != 3 || e.Parts != 3 || e.Fence != 3 || e.Mode != events.Sequential || e.CreatedAt.IsZero() || !e.UsedAt.After(e.CreatedAt) || e.Messages < 8 || e.InputTokens == 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestSessionLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := 1
	w.agent(events.Agent{Name: "builder", Tools: []string{"read", "write"}, Prompt: "You build.", Autonomy: one}, builder)
	w.start()
	letters := w.letters()
	w.task(events.Task{ID: "first", Agent: "builder", Task: "wait", Session: "busy"})
	waits := func(s run.State) bool { return len(s.Waiting()) > 0 }
	w.await("first", "waiting", waits)

	t.Run("SESS-3 a second run is refused with the name of the first", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "second", Agent: "builder", Task: "wait", Session: "busy"})
		d := w.letter(letters)
		if d.Code != "session_locked" || d.Run != "second" || !strings.Contains(d.Reason, `session "busy" is locked by run first`) || !strings.Contains(d.Hint, "unlock") {
			t.Errorf("%+v", d)
		}
		if n := len(w.events("second")); n != 0 {
			t.Errorf("it has %d events", n)
		}
	})
	t.Run("SESS-5 the lock names its holder and when it ends at the latest", func(t *testing.T) {
		w := w.on(t)
		h, ok := w.session("busy").Holder("first")
		if !ok || h.Agent != "builder" || h.Fence != 1 || h.Until.Sub(h.Since) != 30*time.Minute {
			t.Errorf("%+v", h)
		}
	})
	t.Run("SESS-4 a parallel session takes both", func(t *testing.T) {
		w := w.on(t)
		for _, id := range []string{"left", "right"} {
			w.task(events.Task{ID: id, Agent: "builder", Task: "wait", Session: "both", SessionMode: events.Parallel})
			w.await(id, "waiting", waits)
		}
		if e := w.session("both"); len(e.Holders) != 2 || e.Holders[0].Fence >= e.Holders[1].Fence {
			t.Errorf("%+v", e.Holders)
		}
		for _, id := range []string{"left", "right"} {
			w.publish(events.ControlSubject("test", id), `{"action":"stop"}`)
			w.ended(id)
		}
		if e := w.sessionOf("both", "free", free); e.Parts != 2 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("SESS-8 a run that is stopped gives its lock back, and what it said is kept", func(t *testing.T) {
		w := w.on(t)
		w.publish(events.ControlSubject("test", "first"), `{"action":"stop"}`)
		w.ended("first")
		if e := w.sessionOf("busy", "free", free); e.Parts != 1 || e.Runs != 1 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("LIFE-7c SESS-13d unlock with stop ends the run and frees the session; without it is refused", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "third", Agent: "builder", Task: "wait", Session: "busy"})
		w.await("third", "waiting", waits)
		w.publish(events.SessionSubject("test", "busy"), `{"action":"unlock"}`)
		if d := w.letter(letters); d.Code != "session_locked" || !strings.Contains(d.Hint, "--stop") {
			t.Errorf("%+v", d)
		}
		w.publish(events.SessionSubject("test", "busy"), `{"action":"unlock","stop":true,"by":"anna"}`)
		if s := w.ended("third"); s.Result.FinishReason != events.FinishStopped {
			t.Errorf("%+v", s.Result)
		}
		w.sessionOf("busy", "free", free)
	})
	t.Run("SESS-12 a paused session pauses its run, refuses inputs and goes on", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "fourth", Agent: "builder", Task: "wait", Session: "busy"})
		w.await("fourth", "waiting", waits)
		w.publish(events.SessionSubject("test", "busy"), `{"action":"pause"}`)
		w.await("fourth", "paused", func(s run.State) bool { return s.Status == events.Paused })
		w.sessionOf("busy", "paused", func(e events.Session) bool { return e.Status == events.SessionPaused })
		w.task(events.Task{ID: "fifth", Agent: "builder", Task: "wait", Session: "busy"})
		if d := w.letter(letters); d.Code != "session_paused" {
			t.Errorf("%+v", d)
		}
		w.publish(events.SessionSubject("test", "busy"), `{"action":"resume"}`)
		w.await("fourth", "running", func(s run.State) bool { return s.Status == events.Running })
		w.publish(events.ControlSubject("test", "fourth"), `{"action":"stop"}`)
		w.ended("fourth")
		w.sessionOf("busy", "free", free)
	})
	t.Run("SESS-1 SESS-13 a deleted session begins anew, with a higher fence", func(t *testing.T) {
		w := w.on(t)
		before := w.session("busy").Fence
		w.publish(events.SessionSubject("test", "busy"), `{"action":"delete"}`)
		w.sessionOf("busy", "deleted", func(e events.Session) bool { return e.Status == events.SessionDeleted })
		w.task(events.Task{ID: "sixth", Agent: "builder", Task: "wait", Session: "busy"})
		s := w.await("sixth", "waiting", waits)
		if s.Created.History != nil || s.Created.SessionFence != before+1 {
			t.Errorf("%+v, want fence %d", s.Created, before+1)
		}
	})
}
