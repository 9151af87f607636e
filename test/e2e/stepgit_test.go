package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// pushes is a model that pushes main to another name and says so.
func pushes(r remote, to string) string {
	return `
turns:
  - when: {turn: 1}
    calls:
      - {name: git_push, input: {branch: main, commit: "` + r.at("main") + `", to: ` + to + `}}
  - when: {turn: 2}
    text: "Pushed."
`
}

func TestGitOfSteps(t *testing.T) {
	t.Parallel()
	w, r, yes, no := gitWorld(t), newRemote(t), true, false
	operator := &events.GitSettings{RequireApproval: &no}
	for _, name := range []string{"one", "two", "three"} {
		w.agent(events.Agent{Name: name, Tools: []string{"write"}}, writes(name+".txt", name))
		w.agent(events.Agent{Name: "push-" + name, Tools: []string{"git_push"}, Git: operator}, pushes(r, name))
	}
	for _, name := range []string{"left", "right", "joined"} {
		w.agent(events.Agent{Name: "push-" + name, Tools: []string{"git_push"}, Git: operator}, pushes(r, name))
	}
	w.start()
	five := 5
	quiet := func() *events.TaskGit { return &events.TaskGit{GitSettings: events.GitSettings{Push: &no}} }

	t.Run("GIT-13 GIT-3 a step that overrides auto_commit has its work committed when it ends, and the steps after it have the run's setting again", func(t *testing.T) {
		w := w.on(t)
		plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "write one"},
			{ID: "b", Description: "write two", Agent: "two", Needs: []string{"a"}, Git: &events.GitSettings{AutoCommit: &yes}},
			{ID: "c", Description: "write three", Agent: "three", Needs: []string{"b"}}}}
		w.task(events.Task{ID: "commits", Agent: "one", Task: "count", Plan: plan, Repo: r.url(), Git: quiet(), MaxToolCalls: &five})
		s := w.ended("commits")
		d := s.Result.Delivery
		if s.Status != events.Completed || d == nil || d.Commit == d.Base || d.Bundle == "" {
			t.Fatalf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("commits"))
		}
		r := remote{t, filepath.Join(w.dir, "work", "run", "commits")}
		if got := r.git("-C", r.dir, "diff", "--name-only", d.Base, d.Commit); got != "one.txt\ntwo.txt" {
			t.Errorf("committed are %q", got)
		}
		if got := r.git("-C", r.dir, "log", "--format=%s", d.Base+".."+d.Commit); got != "write two" {
			t.Errorf("the commits are %q", got)
		}
		if got := r.git("-C", r.dir, "log", "-1", "--format=%B", d.Commit); !strings.Contains(got, "Inspan-Agent: two\nInspan-Run: commits\nInspan-Step: b") {
			t.Errorf("the message is %q", got)
		}
		if s.TotalToolCalls != 3 {
			t.Errorf("%d calls are counted: that of the commit is not an agent's", s.TotalToolCalls)
		}
	})
	t.Run("GIT-13 GATE-13 a step that overrides require_approval pushes without a gate, and the step after it waits at one as the step before it", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		g := quiet()
		g.RequireApproval = &yes
		plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "push one"},
			{ID: "b", Description: "push two", Agent: "push-two", Needs: []string{"a"}, Git: &events.GitSettings{RequireApproval: &no}},
			{ID: "c", Description: "push three", Agent: "push-three", Needs: []string{"b"}}}}
		w.task(events.Task{ID: "line", Agent: "push-one", Task: "push", Plan: plan, Repo: r.url(), Git: g, MaxToolCalls: &five, Autonomy: &five})
		for _, step := range []string{"a", "c"} {
			s := w.await("line", "waiting at "+step, func(s run.State) bool { return waiting(s) && w.opened("line").Step == step })
			if g := w.opened("line"); g.Rule != delivery.RuleApproval || len(s.Gates) == 0 {
				t.Fatalf("%+v", g)
			}
			w.approve("line", "approve")
		}
		s := w.ended("line")
		if s.Status != events.Completed || len(s.Gates) != 2 || r.at("one") == "" || r.at("two") == "" || r.at("three") == "" {
			t.Errorf("%+v, gates %+v\n%s", s.Result, s.Gates, w.story("line"))
		}
	})
	t.Run("GIT-13 two steps side by side have overrides of their own, and the step after them has the run's", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		plan := &events.TaskPlan{Steps: []events.TaskStep{
			{ID: "asks", Description: "push left", Git: &events.GitSettings{RequireApproval: &yes}},
			{ID: "free", Description: "push right", Agent: "push-right", Git: &events.GitSettings{RequireApproval: &no}},
			{ID: "last", Description: "push both", Agent: "push-joined", Needs: []string{"asks", "free"}}}}
		g := quiet()
		g.RequireApproval = &no
		w.task(events.Task{ID: "section", Agent: "push-left", Task: "push", Plan: plan, Repo: r.url(), Git: g, MaxToolCalls: &five, Autonomy: &five})
		w.await("section", "one waits and the other is done", func(s run.State) bool {
			st := s.Step("free")
			return waiting(s) && st != nil && st.Status == events.StepIsCompleted
		})
		if g := w.opened("section"); g.Step != "asks" || r.at("left") != "" || r.at("right") == "" {
			t.Fatalf("%+v\n%s", g, w.story("section"))
		}
		w.approve("section", "approve")
		if s := w.ended("section"); s.Status != events.Completed || len(s.Gates) != 1 || r.at("left") == "" || r.at("joined") == "" {
			t.Errorf("%+v, gates %+v\n%s", s.Result, s.Gates, w.story("section"))
		}
	})
	t.Run("GIT-13 GATE-13 what cannot be for one step is refused before the run begins", func(t *testing.T) {
		w := w.on(t)
		for id, c := range map[string]struct {
			want  string
			agent string
			git   *events.GitSettings
		}{
			"branch":   {"working_branch", "one", &events.GitSettings{WorkingBranch: "main"}},
			"uncommit": {"auto_commit", "one", &events.GitSettings{AutoCommit: &no}},
			"loosen":   {"require_approval", "one", &events.GitSettings{RequireApproval: &no}},
		} {
			letters := w.letters()
			plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "write", Git: c.git}}}
			w.task(events.Task{ID: "refused-" + id, Agent: c.agent, Task: "write", Plan: plan, Repo: r.url()})
			if d := w.letter(letters); d.Code != "bad_plan" || !strings.Contains(d.Reason, c.want) {
				t.Errorf("%s: %+v", id, d)
			}
		}
	})
}
