package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// TestFiles is what people try first.
func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "writer", Tools: []string{"write", "read"}}, `turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: letter.txt, content: "the alpha letter\n"}}
  - when: {turn: 2}
    calls:
      - {name: read, input: {path: letter.txt}}
  - when: {turn: 3}
    text: "It says: {{result.1}}"
`)
	w.agent(events.Agent{Name: "builder", Tools: []string{"bash", "write", "read"}}, `turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "mkdir -p app/conf app/src"}}
  - when: {turn: 2}
    calls:
      - {name: write, input: {path: app/conf/app.json, content: '{"name": "demo", "port": 8080}'}}
  - when: {turn: 3}
    calls:
      - {name: bash, input: {command: "cat app/conf/app.json && ls app"}}
  - when: {turn: 4}
    text: "{{result.1}}"
`)
	w.start()
	t.Run("TEST-9a TOOL-10a TOOL-10b an agent creates a file and reads it in the next turn", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "letter", Agent: "writer", Task: "write", Session: "letter"})
		s := w.ended("letter")
		if s.Status != events.Completed || !strings.HasPrefix(s.Result.Output, "It says: ") || !strings.Contains(s.Result.Output, "the alpha letter") {
			t.Errorf("%+v", s.Result)
		}
		if b, err := os.ReadFile(filepath.Join(w.dir, "work", "session", "letter", "letter.txt")); err != nil || string(b) != "the alpha letter\n" {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("TEST-9b TOOL-10d an agent makes directories and a configuration in JSON that a command reads", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "app", Agent: "builder", Task: "build", Session: "app"})
		s := w.ended("app")
		if s.Status != events.Completed || !strings.Contains(s.Result.Output, `"port": 8080`) || !strings.Contains(s.Result.Output, "src") {
			t.Errorf("%+v", s.Result)
		}
		b, err := os.ReadFile(filepath.Join(w.dir, "work", "session", "app", "app", "conf", "app.json"))
		var conf struct {
			Name string
			Port int
		}
		if err != nil || json.Unmarshal(b, &conf) != nil || conf.Name != "demo" || conf.Port != 8080 {
			t.Errorf("%q %+v, %v", b, conf, err)
		}
	})
}
