package sessions

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestAlone(t *testing.T) {
	t.Parallel()
	t.Run("GIT-7 C22 a task whose settings or whose agent ask for parallel work lets others into the session", func(t *testing.T) {
		t.Parallel()
		c := &events.RunCreatedData{Agent: "coder", Agents: map[string]events.Agent{"coder": {Name: "coder"}}}
		if modeOf(events.Task{Session: "s"}, c) != "" || modeOf(events.Task{Session: "s", Git: &events.TaskGit{GitSettings: events.GitSettings{Collaboration: events.Parallel}}}, c) != events.Parallel {
			t.Error("the session is not let be shared as it was asked for")
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
