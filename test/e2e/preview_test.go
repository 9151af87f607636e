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
    calls:
      - {name: apply_patch, input: {patch: "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n one\n-three\n+four\n"}}
  - when: {turn: 5}
    calls:
      - {name: apply_patch, input: {patch: "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n one\n-three\n+five\n"}}
  - when: {turn: 6}
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
	w.agent(events.Agent{Name: "rewriter", Tools: []string{"write", "apply_patch"},
		Guards: []events.Rule{{ID: "careful", Tool: "*", Action: "ask"}}}, rewriter)
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
		w.await("rewrite", "the preview of a patch", previewed(4))
		if d := w.previews("rewrite")[3]; !strings.HasSuffix(d.Head, "\n one\n-three\n+four\n") {
			t.Errorf("the patch: %+v", d)
		}
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		s = w.await("rewrite", "the preview of a patch that does not fit any more", previewed(5))
		if p := s.Gates[4].Preview; p.Diff != nil || !strings.Contains(p.Reason, "does not apply") {
			t.Errorf("%+v", p)
		}
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		if s := w.ended("rewrite"); s.Status != events.Completed {
			t.Fatalf("%+v", s.Result)
		}
	})
}

func TestPreviewsOfGit(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	w.agent(events.Agent{Name: "committer", Tools: []string{"write", "git_commit"},
		Guards: []events.Rule{{ID: "careful", Tool: "git_commit", Action: "ask"}}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: hello.txt, content: "hello\n"}}
      - {name: write, input: {path: .env, content: "KEY=hunter2\n"}}
  - when: {turn: 2}
    calls:
      - {name: git_commit, input: {message: "say hello"}}
  - when: {turn: 3}
    text: "Committed."
`)
	w.start()
	yes := true
	t.Run("PLUS-14 the gate of a commit and that of a push show the files, the commits and the diff", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "greets", Agent: "committer", Task: "greet", Repo: r.url(), Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &yes}}})
		next := func(s run.State) bool { return len(s.Waiting()) == 1 && s.Waiting()[0].Preview != nil }
		s := w.await("greets", "a preview of the commit", next)
		d := w.previews("greets")[0]
		for _, want := range []string{`".env" may hold secrets and is not shown (added)`, " hello.txt | 1 +\n 1 file changed, 1 insertion(+)\n", "\n+hello\n"} {
			if !strings.Contains(d.Head, want) || strings.Contains(d.Head, "hunter2") || len(d.Seen) != 64 {
				t.Errorf("%+v lacks %q", d, want)
			}
		}
		w.answerAs(w.opened("greets"), "anna", events.Answer{Decision: "approve"})
		first := s.Waiting()[0].ID
		s = w.await("greets", "a preview of the push", func(s run.State) bool { return next(s) && s.Waiting()[0].ID != first })
		d = w.previews("greets")[1]
		for _, want := range []string{"the remote has no branch ", "compared with " + r.at("main")[:12], " say hello\n", " 1 file changed, 1 insertion(+)\n", "\n+hello\n"} {
			if !strings.Contains(d.Head, want) {
				t.Errorf("%+v lacks %q", d, want)
			}
		}
		w.answerAs(w.opened("greets"), "anna", events.Answer{Decision: "approve"})
		if s := w.ended("greets"); s.Status != events.Completed || !s.Result.Delivery.Pushed {
			t.Fatalf("%+v", s.Result)
		}
	})
}

func TestPreviewsOnTwoMachines(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-14 WS-3 a preview is made on the machine that holds the workspace, also after it moved", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.agent(events.Agent{Name: "rewriter", Tools: []string{"write", "apply_patch"},
			Guards: []events.Rule{{ID: "careful", Tool: "*", Action: "ask"}}}, rewriter)
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		g := &graves{Leases: w.ports.Leases}
		machines := []*machine{g.on(w, "follow", "one"), g.on(w, "follow", "two")}
		w.task(events.Task{ID: "rewrite", Agent: "rewriter", Task: "rewrite the notes"})
		next := func(n int, previewed bool) {
			t.Helper()
			w.await("rewrite", "a gate", func(s run.State) bool {
				return len(s.Gates) == n && len(s.Waiting()) == 1 && (!previewed || s.Gates[n-1].Preview != nil)
			})
		}
		next(1, true)
		if p := w.state("rewrite").Gates[0].Preview; p.Diff != nil || !strings.Contains(p.Reason, "no toolrunner that received the gate holds the workspace") {
			t.Errorf("before the first call no machine holds it: %+v", p)
		}
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		next(2, true)
		all := w.previews("rewrite")
		if d := all[len(all)-1]; !strings.HasSuffix(d.Head, "\n one\n-two\n+three\n") {
			t.Fatalf("where the workspace is: %+v", d)
		}
		holder := w.tree("run/rewrite").Owner
		for _, m := range machines {
			if m.instance == holder {
				m.lose()
			}
		}
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		next(3, false)
		w.answerAs(w.opened("rewrite"), "anna", events.Answer{Decision: "approve"})
		next(4, true)
		all = w.previews("rewrite")
		if d := all[len(all)-1]; !strings.HasSuffix(d.Head, "\n one\n-three\n+four\n") {
			t.Errorf("where the workspace moved to: %+v", d)
		}
		if now := w.tree("run/rewrite").Owner; now == holder || now == "" {
			t.Errorf("the workspace did not move: %s", now)
		}
	})
}
