package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// rewriting makes a file, and makes it anew each time that something is said.
const rewriting = `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: report.md, content: "first\n"}}
      - {name: write, input: {path: kept.md, content: "kept\n"}}
  - when: {turn: 2}
    text: "done"
  - when: {turn: 3}
    calls:
      - {name: bash, input: {command: "cat kept.md && echo second > report.md"}}
  - when: {turn: 4}
    text: "done again"
`

func TestArtifactsOfForks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash"}}, rewriting)
	w.start()
	for name, long := range map[string]bool{"wrapped": true, "direct": false} {
		w.task(marked(events.Task{ID: name, Agent: "maker", Task: "make"}, long))
		last := w.ended(name).Sequence
		for _, id := range []string{"a-" + name, "z-" + name} { // keys begin with the id: before and after that of the origin
			t.Run("ART-2 ART-9 PLUS-1 a fork finds what was kept, and what it makes itself comes first; "+id, func(t *testing.T) {
				w := w.on(t)
				w.task(events.Task{ID: id, ForkOf: &events.ForkPoint{Run: name, Sequence: last}, Say: "Again."})
				s := w.ended(id)
				if !s.Result.Success || !strings.HasPrefix(s.ToolCallHistory.At(2).Result, "kept") {
					t.Fatalf("%+v\n%s", s.Result, w.story(id))
				}
				a, ok := artifact.Find(s, "report.md")
				b, err := w.ports.Artifacts.Get(w.ctx(), a.Run, a.Ref())
				if !ok || err != nil || string(b) != "second\n" || len(artifact.Latest(s)) != 2 {
					t.Errorf("%+v: %q, %v", a, b, err)
				}
				w.sound(id)
				if r := replayed(t, lawOf(t, events.GateTerms{}), w.log(id)); !r.OK() {
					t.Errorf("PLUS-6: %+v", r)
				}
			})
		}
	}
}

func TestArtifactsDeleted(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nats", "off"} {
		t.Run("ART-10 ART-5 a file that was saved by name and deleted since does not come back; artifacts "+mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tune = func(c *service.Config) { c.Artifacts = mode }
			w.agent(events.Agent{Name: "maker", Tools: []string{"write", "bash", "artifact_save"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: draft.txt, content: "draft"}}
  - when: {turn: 2}
    calls:
      - {name: artifact_save, input: {path: draft.txt}}
  - when: {turn: 3}
    calls:
      - {name: bash, input: {command: "rm draft.txt"}}
  - when: {turn: 4}
    calls:
      - {name: bash, input: {command: "ls draft.txt"}}
  - when: {turn: 5}
    text: "done"
`)
			w.start()
			w.task(events.Task{ID: "gone", Agent: "maker", Task: "make"})
			s := w.ended("gone")
			if r := s.ToolCallHistory.At(3); r.Success || s.Artifacts.Len() != 1 {
				t.Errorf("%+v\n%s", r, w.story("gone"))
			}
			if _, err := os.Stat(filepath.Join(w.dir, "work", "run", "gone", "draft.txt")); !os.IsNotExist(err) {
				t.Error(err)
			}
		})
	}
}

// TestShortInSession has a run that is marked as short and works in a session: its lock comes first.
func TestShortInSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "talker"}, "turns:\n  - when: {turn: 1}\n    text: hello\n")
	w.start()
	w.task(marked(events.Task{ID: "in", Agent: "talker", Task: "talk", Session: "s"}, false))
	s := w.ended("in")
	t.Run("LIFE-13 SESS-3 it is wrapped, since its lock is confirmed before it begins", func(t *testing.T) {
		if s.Status != events.Completed || s.Direct() || s.Created.SessionFence != 1 {
			t.Errorf("%+v\n%s", s.Created, w.story("in"))
		}
	})
}

// TestDirectAtOnce steers direct runs before anybody has taken their first turn.
func TestDirectAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "talker"}, "turns:\n  - when: {turn: 1}\n    text: hello\n")
	w.start(events.Planner, events.Gatekeeper, events.Toolrunner, events.Persister)
	for _, id := range []string{"paused", "stopped", "twice"} {
		w.task(marked(events.Task{ID: id, Agent: "talker", Task: "talk"}, false))
		w.await(id, "running", func(s run.State) bool { return s.Status == events.Running })
	}
	w.publish(events.ControlSubject("test", "paused"), `{"action":"pause"}`)
	w.await("paused", "paused", func(s run.State) bool { return s.Status == events.Paused })
	w.publish(events.ControlSubject("test", "stopped"), `{"action":"stop"}`)
	w.ended("stopped")
	w.start(events.Executor)
	t.Run("LIFE-14 a direct run that is stopped before its first turn takes none", func(t *testing.T) {
		w := w.on(t)
		if s := w.state("stopped"); s.Result.FinishReason != events.FinishStopped || s.Turns().Len() != 0 {
			t.Errorf("%+v", s.Result)
		}
		w.sound("stopped")
	})
	t.Run("LIFE-14 a direct run that is paused before its first turn takes it when it goes on", func(t *testing.T) {
		w := w.on(t)
		w.ended("twice") // the executor has heard of all of them
		if s := w.state("paused"); s.Status != events.Paused || s.Turns().Len() != 0 {
			t.Fatalf("%s", w.story("paused"))
		}
		w.publish(events.ControlSubject("test", "paused"), `{"action":"resume"}`)
		if s := w.ended("paused"); s.Status != events.Completed || s.Result.Output != "hello" || !s.Direct() {
			t.Errorf("%+v", s.Result)
		}
		w.sound("paused")
	})
}

// TestDirectLearns has a direct run find that its model's window is half of what was said, and forks it.
func TestDirectLearns(t *testing.T) {
	t.Parallel()
	m := &narrow{window: 1000, pages: 20, words: 60}
	w := reads(t, m, func(a *events.Agent) { a.ContextWindow = 2000 })
	w.start()
	w.task(marked(events.Task{ID: "learns", Agent: "reader", Task: "read all pages"}, false))
	s := w.ended("learns")
	if s.Status != events.Completed || !s.Direct() || len(w.compactions("learns")) == 0 || s.Windows["narrow/test"] != 1000 {
		t.Fatalf("%+v %v\n%s", s.Result, s.Windows, w.story("learns"))
	}
	t.Run("LIFE-14 LOOP-7 PLUS-6 what a direct run learned is decided again as it was", func(t *testing.T) {
		if r := replayed(t, lawOf(t, events.GateTerms{}), w.log("learns")); r.Refused != nil || len(r.Changes) > 0 {
			t.Errorf("%v %v", r.Refused, r.Changes)
		}
		w.on(t).sound("learns")
	})
	t.Run("LOOP-7 LOOP-10 PLUS-1 a fork knows the window that was learned", func(t *testing.T) {
		w := w.on(t)
		refused := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.refused
		}
		before := refused()
		w.task(events.Task{ID: "fork", ForkOf: &events.ForkPoint{Run: "learns", Sequence: s.Sequence}, Say: "And now?"})
		if f := w.ended("fork"); f.Status != events.Completed || f.Windows["narrow/test"] != 1000 || refused() != before {
			t.Errorf("%+v %v, %d were refused", f.Result, f.Windows, refused()-before)
		}
		w.sound("fork")
	})
}

// TestDirectHooksAnswer has hooks answer before a direct run begins.
func TestDirectHooksAnswer(t *testing.T) {
	t.Parallel()
	w := hooked(t, "version: 1\n")
	w.respond("yes", `{"answer":"continue","message":"fine"}`)
	w.start()
	t.Run("LIFE-14 C30 what a hook answered before a direct run is in its log", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "asked", Tools: []string{"write"}, Hooks: []events.Hook{{ID: "h", On: events.OnRunStart, Subject: "yes"}}}, writer)
		w.task(marked(events.Task{ID: "asked", Agent: "asked", Task: "write"}, false))
		s := w.ended("asked")
		if told := w.answers("asked"); !s.Direct() || len(told) != 1 || told[0].On != events.OnRunStart {
			t.Errorf("%+v\n%s", told, w.story("asked"))
		}
	})
}
