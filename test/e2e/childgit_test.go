package e2e

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestChildrenInGit has children work in the checkout of their parent, while all services are replaced by others.
func TestChildrenInGit(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	w.agent(events.Agent{Name: "left", Tools: []string{"write"}, MaxToolCalls: 3}, writes("left.txt", "left"))
	w.agent(events.Agent{Name: "right", Tools: []string{"bash"}, MaxToolCalls: 3}, claims("sleep 0.2; cat left.txt README.md > right.txt"))
	no := false
	w.agent(events.Agent{Name: "lead", Git: &events.GitSettings{RequireApproval: &no}}, "turns:\n  - text: done\n")
	first := w.start()
	t.Run("SUB-7 GIT-1 SAFE-7 what children do in the checkout of their parent is in its commit, with other services in the middle, and they commit nothing themselves", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "family", Agent: "lead", Task: "go", Repo: r.url(), Branch: "main", Git: commits(),
			Plan: childPlan(events.TaskStep{ID: "a", Description: "left", Agent: "left", Child: events.ChildShared}, events.TaskStep{ID: "b", Description: "right", Agent: "right", Child: events.ChildShared, Needs: []string{"a"}})})
		w.await("family", "with its second child", func(s run.State) bool { return len(s.Children) > 1 })
		first.stop()
		w.start()
		s := w.ended("family")
		if s.Status != events.Completed || s.Result.Delivery == nil || !s.Result.Delivery.Pushed || len(s.Children) != 2 {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("family"))
		}
		at := r.at(s.Result.Delivery.RemoteBranch)
		if at == "" || at != s.Result.Delivery.Commit || r.git("-C", r.dir, "rev-parse", at+"^") != r.at("main") {
			t.Fatalf("the remote has %q, the run says %+v", at, s.Result.Delivery)
		}
		if got := r.git("-C", r.dir, "show", at+":left.txt") + "," + r.git("-C", r.dir, "show", at+":right.txt"); got != "left,left# project" {
			t.Errorf("the commit has %q", got)
		}
		for _, id := range kids(s) {
			if k := w.state(id); k.Created.Git != nil || k.Created.Workspace != s.Created.Workspace || k.Result.Delivery != nil {
				t.Errorf("%s: %+v, delivered %+v", id, k.Created.Git, k.Result.Delivery)
			}
		}
	})
}
