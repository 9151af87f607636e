package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// InGit pins how a run works in git, and where: a run whose agent has a branch of its own in a session has a working
// tree of its own, too (C22). e is the session as the run finds it, zero for none.
func InGit(t events.Task, c *events.RunCreatedData, runID string, e events.Session) error {
	agent := c.Agents[c.Agent]
	if t.Place != "" || t.Repo == "" && t.Git == nil && (agent.Git == nil || agent.GitDefaults) {
		return nil // the repository of a person is the person's: nothing is committed there
	}
	ask := delivery.Ask{Run: runID, Agent: c.Agent, Session: t.Session, Workflow: t.WorkflowRun, Repo: t.Repo != "",
		Branch: t.Branch, Depth: t.Depth,
		SessionBranch: e.Branch, Mode: e.Mode, Variables: t.Variables, Name: branchName}
	if ask.Mode == "" {
		ask.Mode = t.SessionMode
	}
	if agent.Git != nil {
		ask.File = *agent.Git
	}
	if t.Git != nil {
		ask.Task, ask.Merge = t.Git.GitSettings, t.Git.Merge
	}
	work, err := delivery.Resolve(ask)
	if err == nil {
		err = checkNames(work)
	}
	if err != nil {
		return kernel.Refuse("bad_input",
			"fix the value of git in the task or in the agent's file and send the task again; docs/git.md lists them", "git: %v",
			err)
	}
	if c.Git != nil { // of the work item, which a session does not change
		work.Subject, work.Review = c.Git.Subject, c.Git.Review
	}
	c.Git = work
	if work.Collaboration == events.Parallel {
		c.Workspace = "run/" + runID
	}
	return nil
}

// branchName is the name of a run's branch without the prefix, which may be another.
func branchName(agent, run string) string {
	return strings.TrimPrefix(git.BranchName(agent, run), git.Prefix)
}

func checkNames(w *events.GitWork) error {
	if len(w.Merge) > events.MaxMerge {
		return fmt.Errorf("merge has %d branches, the limit is %d", len(w.Merge), events.MaxMerge)
	}
	for _, name := range append([]string{w.Branch, w.WorkingBranch, w.NewBranch}, w.Merge...) {
		if name == "" {
			continue
		}
		if err := git.CheckName(name); err != nil {
			return err
		}
	}
	if slices.Contains(w.Merge, "") {
		return fmt.Errorf("merge has an empty name: name the branches")
	}
	return nil
}

// forkGit gives a fork a branch of its own where the run that it comes from had one, so that two never push the same,
// and lets it begin with the commit that the run had there.
func forkGit(c *events.RunCreatedData, runID string, old run.State) {
	if c.Git == nil || c.ForkOf.SameWorkspace {
		return
	}
	work := *c.Git
	if work.Begin = delivery.Begin(old); work.NewBranch == "" && work.Begin != nil {
		work.NewBranch = git.BranchName(c.Agent, "fork")
	}
	if work.NewBranch != "" {
		work.NewBranch += "." + runID // with a dot it stands below no other branch, and no other below it
	}
	c.Git = &work
}

// Passing reports whether the workspace of a run goes with it.
func Passing(old run.State) bool {
	c := old.Created
	return c != nil && c.Git != nil && c.Git.Workspace == events.WorkspaceEphemeral && !strings.HasPrefix(c.Workspace,
		"session/")
}
