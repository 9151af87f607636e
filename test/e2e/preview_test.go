package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const rewriter = `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: "notes.txt", content: "one\ntwo\n"}}
  - when: {turn: 2}
    calls:
      - {name: write, input: {path: "notes.txt", content: "one\nthree\n"}}
  - when: {turn: 3}
    calls:
      - {name: write, input: {path: ".env", content: "KEY=other\n"}}
  - when: {turn: 4}
    text: "done"
`

// previews returns the previews in the log of a run.
func (w *world) previews(runID string) []events.CallPreviewedData {
	w.t.Helper()
	var all []events.CallPreviewedData
	for _, r := range w.events(runID) {
		if r.Kind != events.CallPreviewed {
			continue
		}
		f, err := events.Decode(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		var d events.CallPreviewedData
		if err := json.Unmarshal(f.Data, &d); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func TestPreviews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "rewriter", Tools: []string{"write"},
		Guards: []events.Rule{{ID: "careful", Tool: "write", Action: "ask"}}}, rewriter)
	w.start()
	previewed := func(n int) func(run.State) bool {
		return func(s run.State) bool { return len(s.Gates) == n && s.Gates[n-1].Preview != nil }
	}
	t.Run("PLUS-14 a gate shows what the call would change in the workspace, which hides secret files and needs no answer to come first", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "rewrite", Agent: "rewriter", Task: "rewrite the notes"})
		w.await("rewrite", "a gate", waiting)
		workspace := filepath.Join(w.dir, "work", "run", "rewrite")
		if s := w.await("rewrite", "a preview", previewed(1)); s.Gates[0].Preview.Diff == nil {
			t.Fatalf("no preview of the first file: %+v", s.Gates[0].Preview)
		}
		if d := w.previews("rewrite")[0]; !strings.HasSuffix(d.Head, "\n+one\n+two\n") {
			t.Errorf("the first file: %q", d.Head)
		}
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		s := w.await("rewrite", "the second preview", previewed(2))
		p := s.Gates[1].Preview
		if p.Diff == nil || p.Truncated || len(p.Seen) != 64 || p.Reason != "" {
			t.Fatalf("%+v", p)
		}
		d := w.previews("rewrite")[1]
		if want := "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"; d.Head != want || p.Diff.Size != int64(len(want)) {
			t.Errorf("got %q, want %q", d.Head, want)
		}
		if b, err := os.ReadFile(filepath.Join(workspace, "notes.txt")); err != nil || string(b) != "one\ntwo\n" {
			t.Errorf("the preview wrote: %q, %v", b, err)
		}
		if err := os.WriteFile(filepath.Join(workspace, ".env"), []byte("KEY=hunter2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		s = w.await("rewrite", "the third preview", previewed(3))
		if p := s.Gates[2].Preview; p.Diff != nil || !strings.Contains(p.Reason, "secrets") || strings.Contains(p.Reason, "hunter2") {
			t.Errorf("%+v", p)
		}
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		if s := w.ended("rewrite"); s.Status != events.Completed {
			t.Fatalf("%+v", s.Result)
		}
	})
}
