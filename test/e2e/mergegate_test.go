package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestMergeGate(t *testing.T) {
	t.Parallel()
	t.Run("GATE-13 GIT-8 SAFE-9 a yes to a merge is for the commits of both sides: where one moves on before it is made, a person is asked anew", func(t *testing.T) {
		t.Parallel()
		w, r := gitWorld(t), newRemote(t)
		no := false
		w.agent(events.Agent{Name: "alice", Tools: []string{"write"}, Git: &events.GitSettings{RequireApproval: &no}}, writes("alice.txt", "from alice"))
		w.agent(events.Agent{Name: "lead"}, "turns:\n  - text: \"I merge.\"\n")
		w.start()
		side := &events.TaskGit{GitSettings: events.GitSettings{Push: &no, Collaboration: events.Parallel, WorkingBranch: "line", RequireApproval: &no}}
		w.task(events.Task{ID: "side", Agent: "alice", Task: "write", Session: "team", Repo: r.url(), Git: side})
		theirs := w.ended("side").Result.Delivery.Commit
		w.task(events.Task{ID: "merge", Agent: "lead", Task: "merge", Session: "team", Repo: r.url(),
			Git: &events.TaskGit{GitSettings: events.GitSettings{Push: &no, WorkingBranch: "line"}, Merge: []string{"agent/team/alice"}}})
		w.await("merge", "waiting", waiting)
		g := w.opened("merge")
		ours := r.at("main")
		if !strings.Contains(string(g.Proposal), theirs) || !strings.Contains(string(g.Proposal), ours) {
			t.Fatalf("the question is %s, want %s and %s", g.Proposal, ours, theirs)
		}
		tree := filepath.Join(w.dir, "work", "session", "team")
		r.git("-C", tree, "commit", "--quiet", "--allow-empty", "-m", "somebody goes on with the line")
		moved := r.git("-C", tree, "rev-parse", "HEAD")
		w.approve("merge", "approve")
		w.await("merge", "waiting again", func(s run.State) bool { return waiting(s) && len(s.Gates) == 2 })
		if got := r.git("-C", tree, "rev-parse", "HEAD"); got != moved {
			t.Fatalf("it was merged all the same: %s", got)
		}
		w.approve("merge", "approve")
		s := w.ended("merge")
		d := s.Result.Delivery
		if s.Status != events.Completed || len(d.Merged) != 1 || d.Merged[0].Commit != theirs {
			t.Fatalf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("merge"))
		}
		for _, side := range []string{moved, theirs} {
			r.git("-C", tree, "merge-base", "--is-ancestor", side, d.Commit)
		}
	})
}
