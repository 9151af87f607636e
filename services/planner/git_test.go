package planner

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestInGit(t *testing.T) {
	t.Parallel()
	created := func(file *events.GitSettings) *events.RunCreatedData {
		return &events.RunCreatedData{Agent: "coder", Agents: map[string]events.Agent{"coder": {Name: "coder", Git: file}}, Workspace: "session/s"}
	}
	t.Run("GIT-11 a run works in git where its task names a repository, its agent's file has the key, or the task has settings", func(t *testing.T) {
		t.Parallel()
		for name, tc := range map[string]struct {
			task events.Task
			file *events.GitSettings
			want bool
		}{
			"nothing":      {events.Task{}, nil, false},
			"a repository": {events.Task{Repo: "https://host/x"}, nil, true},
			"the file":     {events.Task{}, &events.GitSettings{}, true},
			"the task":     {events.Task{Git: &events.TaskGit{}}, nil, true},
		} {
			c := created(tc.file)
			if err := inGit(tc.task, c, "r1", events.Session{}); err != nil || (c.Git != nil) != tc.want {
				t.Errorf("%s: %+v, %v", name, c.Git, err)
			}
		}
		c := created(&events.GitSettings{})
		a := c.Agents["coder"]
		a.GitDefaults = true
		c.Agents["coder"] = a
		if err := inGit(events.Task{}, c, "r1", events.Session{}); err != nil || c.Git != nil {
			t.Errorf("defaults of the station alone: %+v, %v", c.Git, err)
		}
	})
	t.Run("GIT-7 C22 an agent with a branch of its own in a session has a working tree of its own", func(t *testing.T) {
		t.Parallel()
		c := created(nil)
		task := events.Task{Session: "s", Git: &events.TaskGit{}}
		if err := inGit(task, c, "r1", events.Session{ID: "s", Mode: events.Parallel}); err != nil || c.Workspace != "run/r1" || c.Git.NewBranch != "agent/s/coder" {
			t.Errorf("%+v in %s, %v", c.Git, c.Workspace, err)
		}
		if modeOf(events.Task{Session: "s"}, c) != "" || modeOf(events.Task{Session: "s", Git: &events.TaskGit{GitSettings: events.GitSettings{Collaboration: events.Parallel}}}, c) != events.Parallel {
			t.Error("the session is not let be shared as it was asked for")
		}
	})
	t.Run("DLV-1 WORK-4 the run of a work item keeps the subject of its commit and the review that was asked for when it joins a session", func(t *testing.T) {
		t.Parallel()
		c := created(nil)
		c.Git = &events.GitWork{Subject: "Fix the login", Review: &events.ReviewAsk{Title: "Fix the login"}}
		if err := inGit(events.Task{Repo: "https://host/x", Session: "s"}, c, "r1", events.Session{ID: "s"}); err != nil ||
			c.Git.Subject != "Fix the login" || c.Git.Review == nil || !c.Git.AutoCommit {
			t.Errorf("%+v, %v", c.Git, err)
		}
	})
	t.Run("GIT-9 SAFE-12 names that git could take for something else are refused", func(t *testing.T) {
		t.Parallel()
		for _, g := range []events.TaskGit{{GitSettings: events.GitSettings{WorkingBranch: "--force"}}, {GitSettings: events.GitSettings{BranchPrefix: "../"}},
			{GitSettings: events.GitSettings{WorkingBranch: "${input.evil}"}}, {Merge: []string{"a..b"}}, {Merge: []string{""}}, {Merge: make([]string, events.MaxMerge+1)}} {
			task := events.Task{Git: &g, Variables: map[string]string{"evil": "-x"}}
			if err := inGit(task, created(nil), "r1", events.Session{}); err == nil || !strings.Contains(err.Error(), "git:") {
				t.Errorf("%+v: %v", g, err)
			}
		}
	})
	t.Run("C22 GIT-14 two runs never share a branch or a tree while both live", func(t *testing.T) {
		t.Parallel()
		made := func(workspace, branch string) *events.RunCreatedData {
			return &events.RunCreatedData{Agent: "coder", Workspace: workspace, Git: &events.GitWork{NewBranch: branch}}
		}
		e := events.Session{ID: "s", Mode: events.Parallel, Holders: []events.Holder{{Run: "r1", Agent: "other"}, {Run: "r2", Agent: "coder"}}}
		for name, tc := range map[string]struct {
			other *events.RunCreatedData
			busy  bool
		}{
			"another branch":   {made("run/r1", "agent/s/other"), false},
			"the same branch":  {made("run/r1", "agent/s/coder"), true},
			"the same tree":    {made("run/r2", "x"), true},
			"not in git":       {&events.RunCreatedData{Workspace: "run/r2"}, false},
			"not born, others": {nil, false},
		} {
			err := alone(e, made("run/r2", "agent/s/coder"), "r2", map[string]*events.RunCreatedData{"r1": tc.other})
			if (err != nil) != tc.busy {
				t.Errorf("%s: %v", name, err)
			}
		}
		e.Holders[0].Agent = "coder"
		if err := alone(e, made("run/r2", "agent/s/coder"), "r2", nil); err == nil {
			t.Error("one of the same agent that is not born yet")
		}
		e.Mode = events.Sequential
		if err := alone(e, made("run/r2", "agent/s/coder"), "r2", nil); err != nil {
			t.Errorf("the lock is enough in a sequential session: %v", err)
		}
	})
}

func TestModelPlanHasNoGit(t *testing.T) {
	t.Parallel()
	t.Run("GIT-13 GATE-13 a plan of a model sets no git for a step", func(t *testing.T) {
		t.Parallel()
		if err := ofModel(events.TaskPlan{Steps: []events.TaskStep{{ID: "a"}}}); err != nil {
			t.Error(err)
		}
		if err := ofModel(events.TaskPlan{Steps: []events.TaskStep{{ID: "a"}, {ID: "b", Git: &events.GitSettings{}}}}); err == nil || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("%v, want a refusal that names the step", err)
		}
		if err := ofModel(events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Accept: &events.Accept{}}}}); err == nil || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%v, want a refusal of the checks of a step", err)
		}
	})
}
