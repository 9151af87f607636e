package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

func TestUnusableWorkspace(t *testing.T) {
	t.Parallel()
	calls := map[string]string{
		"bash":  `{name: bash, input: {command: "ls"}}`,
		"write": `{name: write, input: {path: b.txt, content: b}}`,
		"read":  `{name: read, input: {path: a.txt}}`,
		"glob":  `{name: glob, input: {pattern: "*"}}`,
	}
	spoil := map[string]func(dir, away string) error{
		"a link":       func(dir, away string) error { return os.Symlink(away, dir) },
		"a plain file": func(dir, _ string) error { return os.WriteFile(dir, nil, 0o600) },
	}
	w := newWorld(t)
	for name, call := range calls {
		w.agent(events.Agent{Name: name, Tools: []string{name}}, "turns:\n  - when: {turn: 1}\n    calls:\n      - "+call+"\n  - text: \"{{result.1}}\"\n")
	}
	w.start()
	for name := range calls {
		for _, parent := range []string{"run", "session", "workflow"} {
			for kind, make := range spoil {
				t.Run("SAFE-12 WS-12 a call of "+name+" in a "+parent+" workspace that is "+kind+" fails with the reason, and the run ends", func(t *testing.T) {
					w := w.on(t)
					id := name + "-" + parent + "-" + strings.ReplaceAll(kind, " ", "")
					dir, away := filepath.Join(w.dir, "work", parent, id), t.TempDir()
					if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := make(dir, away); err != nil {
						t.Fatal(err)
					}
					task := events.Task{ID: id, Agent: name, Task: "go"}
					switch parent {
					case "session":
						task.Session = id
					case "workflow":
						task.WorkflowRun = id
					}
					w.task(task)
					w.ended(id)
					list := said[*events.CallFailedData](w, id)
					if len(list) == 0 || len(said[*events.CallFinishedData](w, id)) > 0 {
						t.Fatalf("want a call that failed:\n%s", w.story(id))
					}
					if !strings.Contains(list[0].Error, workdir.ErrLinked.Error()) {
						t.Errorf("want the reason %q, got %q", workdir.ErrLinked.Error(), list[0].Error)
					}
					if left, err := os.ReadDir(away); err != nil || len(left) > 0 {
						t.Errorf("files were made behind the link: %v %v", left, err)
					}
				})
			}
		}
	}
}
