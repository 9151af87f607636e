package agentfile

import (
	"strings"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/pkg/events"
)

// gitShape says how runs work in git.
func gitShape() shape {
	return mapping(map[string]field{
		"auto_branch":              acts(boolean()),
		"branch_prefix":            acts(branchShape("x")),
		"auto_commit":              acts(boolean()),
		"collaboration":            acts(oneOf(string(events.Sequential), string(events.Parallel))),
		"push":                     acts(boolean()),
		"require_approval":         acts(boolean()),
		"working_branch":           acts(branchShape("")),
		"workspace":                acts(oneOf(events.WorkspacePersistent, events.WorkspaceEphemeral)),
		"workflow_branch_strategy": acts(oneOf(events.BranchShared, events.BranchPerRun)),
	})
}

// branchShape is the name of a branch, or with more behind it the beginning of one. What a template becomes is checked
// when a task fills it.
func branchShape(more string) shape {
	return shape{kinds: []kind{isText}, check: func(n *node) string {
		if n.text == "" || !strings.Contains(n.text, "${") && git.CheckName(n.text+more) != nil {
			return "a name that git takes for a branch, such as feature/x"
		}
		return ""
	}}
}

// gitOf reads the settings; nil where the file says nothing of git. An empty mapping says that its runs work in git.
func gitOf(n *node) *events.GitSettings {
	if n == nil || n.kind != isMap {
		return nil
	}
	said := func(key string) *bool {
		if v := n.child(key); v != nil && v.kind == isBool {
			yes := v.yes()
			return &yes
		}
		return nil
	}
	return &events.GitSettings{AutoBranch: said("auto_branch"), BranchPrefix: n.get("branch_prefix").str(),
		AutoCommit:    said("auto_commit"),
		WorkingBranch: n.get("working_branch").str(), Strategy: n.get("workflow_branch_strategy").str(),
		Collaboration:   events.SessionMode(n.get("collaboration").str()),
		RequireApproval: said("require_approval"), Push: said("push"), Workspace: n.get("workspace").str()}
}
