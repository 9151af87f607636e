package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestCheckedDelivery has runs whose files change after their checks, or not.
func TestCheckedDelivery(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	no, yes := false, true
	free := &events.GitSettings{RequireApproval: &no}
	w.agent(events.Agent{Name: "works", Tools: []string{"bash"}, Git: free}, claims("echo yes > done.txt; echo '*.log' > .gitignore; echo x > a.log"))
	w.agent(events.Agent{Name: "links", Tools: []string{"bash"}, Git: free}, claims("echo yes > done.txt; ln -s /etc/hosts away"))
	w.agent(events.Agent{Name: "hides", Tools: []string{"bash"}, Git: free},
		claims("git add -A; git -c user.name=a -c user.email=a@example.com commit -qm x; git update-index --assume-unchanged README.md; echo yes > README.md; echo yes > done.txt"))
	w.agent(events.Agent{Name: "pushes", Tools: []string{"git_push"}, Git: free}, `
turns:
  - when: {turn: 1}
    calls: [{name: git_push, input: {branch: main, commit: "`+r.at("main")+`", to: early}}]
  - text: "{{result.1}}"
`)
	w.start()
	// until runs a task up to the gate of its delivery: everything is checked then, and nothing delivered.
	until := func(w *world, id, agent string, git *events.TaskGit) run.State {
		w.t.Helper()
		ask := 1
		w.task(events.Task{ID: id, Agent: agent, Task: "go", Repo: r.url(), Branch: "main", Git: git, Autonomy: &ask, Accept: accept("grep -q yes done.txt")})
		for {
			s := w.await(id, "a gate, or the end", func(s run.State) bool { return s.Status.Ended() || waiting(s) })
			if s.Status.Ended() || s.Step(events.DeliverStep).Status == events.StepIsReady {
				return s
			}
			w.approve(id, "approve")
			w.await(id, "the answer", func(s run.State) bool { return !waiting(s) || w.opened(id).Step == events.DeliverStep })
		}
	}
	commit := func() *events.TaskGit { return &events.TaskGit{GitSettings: events.GitSettings{AutoCommit: &yes}} }

	t.Run("PLUS-10 what was checked is delivered: commit, push and result name the tree that the checks passed on", func(t *testing.T) {
		w := w.on(t)
		until(w, "same", "works", commit())
		w.approve("same", "approve")
		s := w.ended("same")
		d := s.Result.Delivery
		if s.Status != events.Completed || !d.Pushed || len(s.Result.Verified) != 1 || s.Result.Verified[0].GitTree != d.Tree || d.Tree == "" {
			t.Fatalf("%s %+v, delivered %+v\n%s", s.Status, s.Result, d, w.story("same"))
		}
		if got := r.git("-C", r.dir, "rev-parse", r.at("agent/works/same")+"^{tree}"); got != d.Tree {
			t.Errorf("the remote has the tree %s, the checks passed on %s", got, d.Tree)
		}
	})
	for name, c := range map[string]struct{ agent, change string }{
		"a file that changed":         {"works", "done.txt"},
		"a file that was added":       {"works", "sub/late.txt"},
		"a link that no check saw":    {"links", ""},
		"files hidden from the index": {"hides", ""},
	} {
		t.Run("PLUS-10 SEC "+name+" after the checks is not delivered, and the end names both trees", func(t *testing.T) {
			w, id := w.on(t), "other-"+c.agent+strings.TrimSuffix(filepath.Base("x"+c.change), ".txt")
			until(w, id, c.agent, commit())
			if at := filepath.Join(w.dir, "work", "run", id, c.change); c.change != "" { // as a command that went on
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte("bad\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			w.approve(id, "approve")
			s := w.ended(id)
			d := s.Result.Delivery
			checked := s.Step("step-1").Claimed().GitTree
			if s.Status != events.Failed || s.Result.FinishReason != events.FinishDelivery || d.Pushed || r.at("agent/"+c.agent+"/"+id) != "" || len(s.Result.Verified) > 0 {
				t.Fatalf("%s %+v, delivered %+v\n%s", s.Status, s.Result, d, w.story(id))
			}
			if checked == "" || d.Tree == "" || checked == d.Tree || !strings.Contains(s.Result.Error, checked) || !strings.Contains(s.Result.Error, d.Tree) || d.Bundle == "" {
				t.Errorf("checked %q, delivered %+v: %s", checked, d, s.Result.Error)
			}
		})
	}
	t.Run("PLUS-10 files that were checked and are in no commit are not delivered by a run that commits nothing", func(t *testing.T) {
		w := w.on(t)
		until(w, "nothing", "works", &events.TaskGit{GitSettings: events.GitSettings{AutoCommit: &no}})
		w.approve("nothing", "approve")
		if s := w.ended("nothing"); s.Status != events.Completed || s.Result.Delivery.Pushed || !strings.Contains(s.Result.Delivery.Note, "no new commits") {
			t.Errorf("%s %+v", s.Status, s.Result.Delivery)
		}
	})
	t.Run("PLUS-10 SEC an agent cannot push before its work was checked", func(t *testing.T) {
		w := w.on(t)
		s := until(w, "early", "pushes", commit())
		calls := run.Slice(s.ToolCallHistory)
		if last := calls[len(calls)-1]; last.Code != events.RefusedPermission || !strings.Contains(last.Result, "before they have passed") || r.at("early") != "" {
			t.Errorf("%+v", last)
		}
	})
	t.Run("PLUS-10 checks and a merge of other branches in one run are refused", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		w.publish("station.test.task", `{"id":"merges","agent":"works","task":"go","repo":"`+r.url()+`","git":{"merge":["x"]},"accept":"true"}`)
		if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "merged after the checks") {
			t.Errorf("%s %q", d.Code, d.Reason)
		}
	})
}
