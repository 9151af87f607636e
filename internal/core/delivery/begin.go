package delivery

import (
	"encoding/json"
	"slices"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Scope names those who share published branches: the runs of a session or a workflow, else a run and those it started,
// with all of their children.
func Scope(c *events.RunCreatedData, run string) string {
	switch {
	case c.Git != nil && c.Git.Scope != "":
		return c.Git.Scope
	case c.Session != "":
		return "session/" + c.Session
	case c.WorkflowRun != "":
		return "workflow/" + c.WorkflowRun
	case c.Orchestrator != "":
		return "run/" + c.Orchestrator
	}
	return "run/" + run
}

// telling are the tools whose results tell which commit the working tree is at.
func telling() []string {
	return []string{events.GitPrepare, events.GitCommit, events.GitMerge, "git_branch"}
}

// Begin is the commit that a run had in its working tree as far as its events tell, and where its branches are
// published; nil where no commit was told.
func Begin(old run.State) *events.GitBegin {
	for _, r := range run.Backward(old.ToolCallHistory) {
		var at struct {
			Branch string `json:"branch"`
			Commit string `json:"commit"`
		}
		if !slices.Contains(telling(), r.CallName) || wrong(r) != "" || json.Unmarshal([]byte(r.Result), &at) != nil ||
			at.Commit == "" {
			continue
		}
		b := &events.GitBegin{Commit: at.Commit, Branch: at.Branch, Scopes: []string{Scope(old.Created, old.HarnessID)}}
		more := []string{old.Created.Workspace} // where it was published when the workspace was removed
		if w := old.Created.Git; w != nil && w.Begin != nil {
			more = append(more, w.Begin.Scopes...)
		}
		addScopes(b, more)
		return b
	}
	return nil
}

func addScopes(b *events.GitBegin, more []string) {
	for _, scope := range more {
		if !slices.Contains(b.Scopes, scope) && len(b.Scopes) < maxScopes {
			b.Scopes = append(b.Scopes, scope)
		}
	}
}

// maxScopes is in how many scopes a commit is looked for.
const maxScopes = 8
