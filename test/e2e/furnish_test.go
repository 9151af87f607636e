package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const newcomer = `
turns:
  - when: {turn: 1}
    calls:
      - {name: read, input: {path: .harness/context.md}}
      - {name: bash, input: {command: "cat .harness/tasks.json .harness/history.json .harness/artifacts.json .harness/settings.json > seen.json; ls -d .harness/runs/run_001/logs .harness/runs/run_001/output; echo '# made' > report.md"}}
  - when: {turn: 2}
    text: "found my way"
`

// TestFurnished looks at a workspace as the first call of a run finds it, and at what is left of the run in it.
func TestFurnished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(w.dir, "town")
	for name, text := range map[string]string{
		"web/polecats/role.yaml":  "version: 1\nrules: [{id: no-make, tool: bash, match: {argv: [make, \"**\"]}, action: deny, reason: the refinery builds, locked: true}]\n",
		"web/polecats/nux.prompt": "---\nmodel: scripted/nux\ntools: [read, bash]\nharness: {enabled: true}\n---\nWork.\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "scripts", "nux.yaml"), []byte(newcomer), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&service.Agents{KV: w.ports.Config}).Register(w.ctx(), dir); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.task(events.Task{ID: "new", Agent: "nux", Task: "fix the door", Session: "s", Orchestrator: "orch-7", WorkID: "gt-1"})
	s := w.ended("new")
	if !s.Result.Success {
		t.Fatalf("%+v\n%s", s.Result, w.story("new"))
	}
	calls := map[string]run.CallRecord{} // by tool: those of one turn end in any order
	for _, c := range run.Backward(s.ToolCallHistory) {
		calls[c.CallName] = c
	}
	work := filepath.Join(w.dir, "work", "session", "s")
	t.Run("WS-11 WS-16 the first call of a run finds what to do in a file, without any prompt", func(t *testing.T) {
		found := calls["read"].Result
		for _, want := range []string{"nux, role polecats of project web", "fix the door", "Work item gt-1"} {
			if !strings.Contains(found, want) {
				t.Errorf("%q is missing in %q", want, found)
			}
		}
	})
	t.Run("WS-9 WS-15 WS-16 steps, conversation, artifacts and what its agents are held to are there before it, too", func(t *testing.T) {
		f, err := os.Open(filepath.Join(work, "seen.json"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var seen []map[string]any
		for d := json.NewDecoder(f); d.More(); {
			var v map[string]any
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, v)
		}
		if len(seen) != 4 || len(seen[0]["tasks"].([]any)) != 1 || seen[1]["messages"] == nil && seen[1]["session_id"] != "s" || seen[2]["artifacts"] == nil && seen[2]["run_id"] != "new" {
			t.Fatalf("%v", seen)
		}
		if b, err := json.Marshal(seen[3]); err != nil || !strings.Contains(string(b), `"no-make"`) || !strings.Contains(string(b), `"polecats"`) {
			t.Errorf("%s", b)
		}
		if shown := calls["bash"].Result; strings.Count(shown, "run_001/") != 2 {
			t.Errorf("%q", shown)
		}
	})
	t.Run("WS-15 the output of a call and what the run came to are in the run's folder", func(t *testing.T) {
		folder := filepath.Join(work, ".harness", "runs", "run_001")
		call := calls["bash"].ID
		var end struct {
			Status string `json:"status"`
		}
		ctx := w.ctx()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end.Status == "" {
			b, err := os.ReadFile(filepath.Join(folder, "output", "result.json"))
			if err == nil {
				if err := json.Unmarshal(b, &end); err != nil {
					t.Fatal(err) // it is there whole or not at all
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal("the run's result is not there")
			}
		}
		if end.Status != "completed" {
			t.Errorf("%+v", end)
		}
		// Both are written after the end of the call is stored; where the result is, the logs are.
		if b, err := os.ReadFile(filepath.Join(folder, "logs", call+".log")); err != nil || !strings.Contains(string(b), "run_001/logs") {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("WS-10 the redirect leads to the very row of the run", func(t *testing.T) {
		var to struct {
			Run struct{ Bucket, Key string } `json:"run"`
		}
		b, err := os.ReadFile(filepath.Join(work, ".harness", "redirect.json"))
		if err == nil {
			err = json.Unmarshal(b, &to)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.row("new", func(i run.Info) bool { return i.Status.Ended() })
		key, ok := strings.CutPrefix(to.Run.Key, "test.")
		row, err := w.st.KV(to.Run.Bucket).Get(w.ctx(), key)
		var i run.Info
		if err == nil {
			err = json.Unmarshal(row, &i)
		}
		if err != nil || !ok || i.HarnessID != "new" || i.SessionID != "s" {
			t.Errorf("%s: %s, %v", b, row, err)
		}
	})
	t.Run("WS-7 WS-8 the agent's home is where its project, role and name say, and leads to the workspace", func(t *testing.T) {
		at := filepath.Join(w.dir, "work", "web", "polecats", "nux")
		var to struct{ Workspace string }
		b, err := os.ReadFile(filepath.Join(at, "redirect.json"))
		if err == nil {
			err = json.Unmarshal(b, &to)
		}
		if err != nil || filepath.Join(at, to.Workspace) != work {
			t.Errorf("%s, %v", b, err)
		}
	})
	t.Run("ART-11 a file is stored under the run of the orchestrator that the task named, and found by that key", func(t *testing.T) {
		a, ok := artifact.Find(s, "runs/orch-7/output/report.md")
		if !ok || a.Path != "report.md" {
			t.Fatalf("%s", made(s))
		}
		if b, err := w.ports.Artifacts.Get(w.ctx(), a.Run, a.Ref()); err != nil || string(b) != "# made\n" {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("ART-10 ART-13 in host mode it stays in the directory of the session, where the next run reads it", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "looker", Tools: []string{"read"}}, calling("read", `{path: report.md}`))
		w.task(events.Task{ID: "next", Agent: "looker", Task: "look", Session: "s"})
		next := w.ended("next")
		if found := next.ToolCallHistory.At(0).Result; !next.Result.Success || !strings.Contains(found, "# made") {
			t.Errorf("%+v %q", next.Result, found)
		}
		if _, err := os.Stat(filepath.Join(work, ".harness", "runs", "run_002", "logs")); err != nil {
			t.Errorf("the second run of the session has no folder: %v", err)
		}
	})
	t.Run("PERS-14 files of a workspace that are deleted, or lie, change nothing: the next run is given what the log says", func(t *testing.T) {
		home := filepath.Join(w.dir, "work", "web", "polecats", "nux")
		for _, at := range []string{filepath.Join(work, ".harness", "runs"), filepath.Join(work, ".harness", "context.md"), filepath.Join(home, "redirect.json")} {
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
		}
		lie := []byte(`{"status":"completed","agent":"another","work_id":"gt-9"}`)
		for _, at := range []string{filepath.Join(work, ".harness", "tasks.json"), filepath.Join(work, ".harness", "history.json"), filepath.Join(home, "agent.json")} {
			if err := os.WriteFile(at, lie, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w := w.on(t)
		w.task(events.Task{ID: "after", Agent: "nux", Task: "paint the door", Session: "s", WorkID: "gt-2"})
		next := w.ended("after")
		if next.Status != events.Completed || next.Created.History == nil || next.Created.WorkID != "gt-2" {
			t.Fatalf("%+v, %+v\n%s", next.Result, next.Created, w.story("after"))
		}
		found := ""
		for _, c := range run.Backward(next.ToolCallHistory) {
			if c.CallName == "read" {
				found = c.Result
			}
		}
		if !strings.Contains(found, "paint the door") || !strings.Contains(found, "Work item gt-2") || strings.Contains(found, "gt-9") {
			t.Errorf("%s", found)
		}
		for _, at := range []string{filepath.Join(work, "seen.json"), filepath.Join(home, "agent.json"), filepath.Join(work, ".harness", "tasks.json")} {
			if b, err := os.ReadFile(at); err != nil || strings.Contains(string(b), "gt-9") {
				t.Errorf("%s: %s, %v", at, b, err)
			}
		}
		if again := w.state("new"); again.Status != s.Status || again.Sequence != s.Sequence {
			t.Errorf("the run before is %s at %d", again.Status, again.Sequence)
		}
	})
}
