package resolve

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
			if err := InGit(tc.task, c, "r1", events.Session{}); err != nil || (c.Git != nil) != tc.want {
				t.Errorf("%s: %+v, %v", name, c.Git, err)
			}
		}
		c := created(&events.GitSettings{})
		a := c.Agents["coder"]
		a.GitDefaults = true
		c.Agents["coder"] = a
		if err := InGit(events.Task{}, c, "r1", events.Session{}); err != nil || c.Git != nil {
			t.Errorf("defaults of the station alone: %+v, %v", c.Git, err)
		}
	})
	t.Run("GIT-7 C22 an agent with a branch of its own in a session has a working tree of its own", func(t *testing.T) {
		t.Parallel()
		c := created(nil)
		task := events.Task{Session: "s", Git: &events.TaskGit{}}
		if err := InGit(task, c, "r1", events.Session{ID: "s", Mode: events.Parallel}); err != nil || c.Workspace != "run/r1" || c.Git.NewBranch != "agent/s/coder" {
			t.Errorf("%+v in %s, %v", c.Git, c.Workspace, err)
		}
	})
	t.Run("DLV-1 WORK-4 the run of a work item keeps the subject of its commit and the review that was asked for when it joins a session", func(t *testing.T) {
		t.Parallel()
		c := created(nil)
		c.Git = &events.GitWork{Subject: "Fix the login", Review: &events.ReviewAsk{Title: "Fix the login"}}
		if err := InGit(events.Task{Repo: "https://host/x", Session: "s"}, c, "r1", events.Session{ID: "s"}); err != nil ||
			c.Git.Subject != "Fix the login" || c.Git.Review == nil || !c.Git.AutoCommit {
			t.Errorf("%+v, %v", c.Git, err)
		}
	})
	t.Run("GIT-9 SAFE-12 names that git could take for something else are refused", func(t *testing.T) {
		t.Parallel()
		for _, g := range []events.TaskGit{{GitSettings: events.GitSettings{WorkingBranch: "--force"}}, {GitSettings: events.GitSettings{BranchPrefix: "../"}},
			{GitSettings: events.GitSettings{WorkingBranch: "${input.evil}"}}, {Merge: []string{"a..b"}}, {Merge: []string{""}}, {Merge: make([]string, events.MaxMerge+1)}} {
			task := events.Task{Git: &g, Variables: map[string]string{"evil": "-x"}}
			if err := InGit(task, created(nil), "r1", events.Session{}); err == nil || !strings.Contains(err.Error(), "git:") {
				t.Errorf("%+v: %v", g, err)
			}
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
