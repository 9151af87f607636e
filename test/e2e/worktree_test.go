package e2e

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// treeStep is a step that is given to a child in a worktree.
func treeStep(id, agent string, needs ...string) events.TaskStep {
	return events.TaskStep{ID: id, Description: "do " + id, Agent: agent, Needs: needs, Child: events.ChildWorktree}
}

// show is a file of a commit of the remote, with what git says where there is none.
func (r remote) show(commit, path string) string {
	out, _ := r.try("-C", r.dir, "show", commit+":"+path)
	return out
}

func TestChildrenInWorktrees(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	no := false
	w.agent(events.Agent{Name: "lead", Tools: []string{"bash"}, Git: &events.GitSettings{RequireApproval: &no}}, claims("echo draft > draft.txt"))
	w.agent(events.Agent{Name: "left", Tools: []string{"bash"}}, claims("cat draft.txt README.md > left.txt"))
	w.agent(events.Agent{Name: "right", Tools: []string{"write"}}, writes("right.txt", "right"))
	w.agent(events.Agent{Name: "one", Tools: []string{"write"}}, writes("README.md", "one"))
	w.agent(events.Agent{Name: "two", Tools: []string{"write"}}, writes("README.md", "two"))
	w.agent(events.Agent{Name: "looks"}, "turns:\n  - text: nothing to change\n")
	w.agent(events.Agent{Name: "sees", Tools: []string{"bash"}}, `
turns:
  - {when: {turn: 1}, calls: [{name: bash, input: {command: "ls"}}]}
  - text: "saw {{result.1}}"
`)
	w.start()
	t.Run("SUB-7 GIT-7 GIT-8 GIT-14 siblings begin with the tree of their parent, what was not committed too, and both are merged back", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "both", Agent: "lead", Task: "go", Repo: r.url(), Branch: "main", Git: commits(),
			Plan: childPlan(events.TaskStep{ID: "draft", Description: "draft"}, treeStep("a", "left", "draft"), treeStep("b", "right", "draft"),
				events.TaskStep{ID: "look", Description: "look", Agent: "sees", Needs: []string{"a", "b"}})})
		s := w.ended("both")
		if s.Status != events.Completed || len(s.Children) != 2 || s.Result.Delivery == nil || !s.Result.Delivery.Pushed {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("both"))
		}
		at := s.Result.Delivery.Commit
		if got := r.show(at, "left.txt") + "," + r.show(at, "right.txt") + "," + r.show(at, "draft.txt"); got != "draft\n# project,right,draft" {
			t.Errorf("the branch of the run has %q", got)
		}
		if out := s.Step("look").Output; !strings.Contains(out, "left.txt") || !strings.Contains(out, "right.txt") {
			t.Errorf("the step after both: %q", out)
		}
		for _, c := range s.Children {
			k := w.state(c.ID)
			if c.Branch != "agent/"+c.Agent+"/"+c.ID || c.Commit == "" || k.Created.Workspace != "run/"+c.ID || k.Created.Git.Push ||
				k.Result.Delivery.Pushed || k.Result.Delivery.Base != s.Step(c.Step).Branched.Commit {
				t.Errorf("child %+v in %+v delivered %+v", c, k.Created.Git, k.Result.Delivery)
			}
			if r.at(c.Branch) != "" {
				t.Errorf("branch %s was pushed", c.Branch)
			}
		}
		if n := w.count("both"); n["step.branched"] != 2 || n["child.spawned"] != 2 || n["child.finished"] != 2 || n["gate.opened"] != 0 {
			t.Errorf("%v", n)
		}
		if s.TotalToolCalls != 2 {
			t.Errorf("%d calls of agents: those of the harness count", s.TotalToolCalls)
		}
	})
	t.Run("GIT-8 of two children that change the same lines the second is a conflict: its files and its branch are named, and the tree is as the first left it", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "clash", Agent: "lead", Task: "go", Repo: r.url(), Branch: "main", Git: commits(),
			Plan: childPlan(treeStep("a", "one"), treeStep("b", "two"))})
		s := w.ended("clash")
		if s.Status != events.Failed || len(s.Children) != 2 {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("clash"))
		}
		good, bad := s.Step("a"), s.Step("b")
		if good.Status != events.StepIsCompleted {
			good, bad = bad, good
		}
		c := s.ChildOf(bad.ID)
		if good.Status != events.StepIsCompleted || bad.Status != events.StepIsFailed || bad.RunReason != events.FinishConflict ||
			c.Outcome != events.ChildIsCompleted {
			t.Fatalf("%+v\n%+v", good, bad)
		}
		for _, want := range []string{"README.md", c.Branch, c.Commit[:12], "inspan branches get"} {
			if !strings.Contains(bad.Error, want) {
				t.Errorf("%q does not name %s", bad.Error, want)
			}
		}
		d := s.Result.Delivery
		if d == nil || d.Pushed || d.Commit != s.ChildOf(good.ID).Commit || len(d.Conflicts) > 0 {
			t.Errorf("the branch of the run: %+v, the child that was merged %+v", d, s.ChildOf(good.ID))
		}
	})
	t.Run("SUB-7 a child in a worktree that commits nothing ends its step, and nothing is merged", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "idle", Agent: "lead", Task: "go", Repo: r.url(), Branch: "main", Plan: childPlan(treeStep("a", "looks"))})
		s := w.ended("idle")
		if s.Status != events.Completed || s.Step("a").Output != "nothing to change" || s.Children[0].Branch != "" {
			t.Fatalf("%s %+v %+v\n%s", s.Status, s.Result, s.Children[0], w.story("idle"))
		}
	})
	t.Run("SUB-7 a child with a directory of its own in a run in git works in a clone, and nothing of it is merged", func(t *testing.T) {
		w := w.on(t)
		own := treeStep("a", "one", "draft")
		own.Child = events.ChildOwn
		w.task(events.Task{ID: "apart", Agent: "lead", Task: "go", Repo: r.url(), Branch: "main", Git: commits(),
			Plan: childPlan(events.TaskStep{ID: "draft", Description: "draft"}, own)})
		s := w.ended("apart")
		if s.Status != events.Completed {
			t.Fatalf("%s %+v\n%s", s.Status, s.Result, w.story("apart"))
		}
		if c := s.Children[0]; c.Branch == "" || c.Commit == "" || w.state(c.ID).Result.Delivery.Base != r.at("main") {
			t.Errorf("%+v", c)
		}
		if at := s.Result.Delivery.Commit; r.show(at, "README.md") != "# project" || r.show(at, "draft.txt") != "draft" {
			t.Errorf("the branch of the run has %q", r.show(at, "README.md"))
		}
	})
	t.Run("SUB-7 a worktree is refused where the run does not work in git", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		w.publish("station.test.task", `{"id":"bare","agent":"looks","task":"go","plan":{"steps":[{"id":"a","description":"b","agent":"one","child":"worktree"}]}}`)
		if d := w.letter(letters); d.Code != "bad_plan" || !strings.Contains(d.Reason, "repo or git") || w.state("bare").Sequence > 0 {
			t.Errorf("%s %q", d.Code, d.Reason)
		}
	})
}
