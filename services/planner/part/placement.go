package part

import (
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// CheckPlacement looks at what a task says of where its work happens.
func CheckPlacement(t events.Task) error {
	var err error
	switch {
	case t.Place != "" && !events.ValidPlace(t.Place):
		err = fmt.Errorf("place %.40q: want the id of a directory that inspan run --in-place registered", t.Place)
	case t.Place != "" && (t.Repo != "" || t.Git != nil || t.SessionMode == events.Parallel):
		err = errors.New("a run works in a directory of a person (place), or in a repository of its own (repo, git); and alone, not with session_mode parallel")
	case t.Repo == "" && (t.Ref != "" || t.Branch != "" || t.Depth != 0):
		err = errors.New("a ref, a branch or a depth without a repo")
	case len(t.Repo) > events.MaxAddress || len(t.Ref) > events.MaxAddress || len(t.Branch) > events.MaxAddress:
		err = fmt.Errorf("the repo, the ref or the branch has more than %d bytes", events.MaxAddress)
	case t.Depth < 0 || t.Depth > events.MaxDepth:
		err = fmt.Errorf("depth is %d, want 0 to %d", t.Depth, events.MaxDepth)
	case t.Git != nil && t.Git.Collaboration != "" && t.Git.Collaboration != events.Sequential &&
		t.Git.Collaboration != events.Parallel:
		err = fmt.Errorf("git.collaboration %.40q: want %s or %s", t.Git.Collaboration, events.Sequential, events.Parallel)
	case t.Git != nil && t.Git.Strategy != "" && t.Git.Strategy != events.BranchShared &&
		t.Git.Strategy != events.BranchPerRun:
		err = fmt.Errorf("git.workflow_branch_strategy %.40q: want %s or %s", t.Git.Strategy, events.BranchShared,
			events.BranchPerRun)
	case t.Git != nil && t.Git.Workspace != "" && t.Git.Workspace != events.WorkspacePersistent &&
		t.Git.Workspace != events.WorkspaceEphemeral:
		err = fmt.Errorf("git.workspace %.40q: want %s or %s", t.Git.Workspace, events.WorkspacePersistent,
			events.WorkspaceEphemeral)
	case t.Repo != "":
		err = git.CheckAddress(t.Repo)
	}
	for _, name := range []string{t.Ref, t.Branch} {
		if err == nil && name != "" {
			err = git.CheckName(name)
		}
	}
	if err != nil {
		return kernel.Refuse("bad_input", "fix the value and send the task again; docs/events.md lists the fields", "%v", err)
	}
	return nil
}
