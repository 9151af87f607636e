package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
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

// TestDirectBirthOfSession has the first fact of a direct run that works in a session.
func TestDirectBirthOfSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "talker"}, "turns:\n  - when: {turn: 1}\n    text: hello\n")
	w.start()
	w.task(marked(events.Task{ID: "in", Agent: "talker", Task: "talk", Session: "s"}, false))
	s := w.ended("in")
	t.Run("LIFE-14 SESS-5 it says that the run has started, and who works", func(t *testing.T) {
		if c := s.Created; s.Status != events.Completed || !s.Direct() || c.Event != events.RunStart || c.AgentName != "talker" || c.To != events.Running || c.SessionFence != 1 {
			t.Errorf("%+v\n%s", c, w.story("in"))
		}
	})
}
