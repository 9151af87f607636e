package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Prefix begins the names of branches that are made for runs, unless somebody says another.
const Prefix = "agent/"

// Ask is all that the way in which a run works in git rests on.
type Ask struct {
	Run, Agent, Session, Workflow string
	// Repo is true where the task names a repository; Branch and Depth are of it.
	Repo   bool
	Branch string
	Depth  int
	// File are the settings of the agent's file, Task those of the task, which win.
	File, Task events.GitSettings
	Merge      []string
	// SessionBranch is the working branch of the session, Mode how many runs may work in it at a time.
	SessionBranch string
	Mode          events.SessionMode
	// Variables of the task, for ${input.NAME} in names of branches.
	Variables map[string]string
	// Name makes the name of a branch, without its prefix, from an agent and a run.
	Name func(agent, run string) string
}

// Resolve says how a run works in git. Its error is for the person who sent the task. Who sends tasks may not be who
// approves: approval is switched off by an operator only, in the agent's file or for the station.
func Resolve(a Ask) (*events.GitWork, error) {
	if !yes(a.Task.RequireApproval, true) && yes(a.File.RequireApproval, true) {
		return nil, errors.New("require_approval: a task cannot switch it off; an operator can, in the agent's file or with harness.git")
	}
	set := layered(a.File, a.Task)
	work := &events.GitWork{Branch: a.Branch, Depth: a.Depth, Merge: slices.Clone(a.Merge), Collaboration: collaboration(a,
		set),
		AutoCommit: yes(set.AutoCommit, a.Session != "" || set.Collaboration != "" || len(a.Merge) > 0),
		Push:       yes(set.Push, a.Repo), RequireApproval: yes(set.RequireApproval, true)}
	if set.Workspace == events.WorkspaceEphemeral {
		if work.Workspace = set.Workspace; a.Depth > 0 {
			return nil, errors.New("workspace: an ephemeral workspace shares the whole history, and the task has a depth: remove depth, or set workspace: persistent in the task")
		}
	}
	line, err := filled(cmp.Or(set.WorkingBranch, a.SessionBranch), a)
	if err != nil {
		return nil, fmt.Errorf("working_branch: %w", err)
	}
	work.WorkingBranch = line
	prefix, err := filled(cmp.Or(set.BranchPrefix, Prefix), a)
	if err != nil {
		return nil, fmt.Errorf("branch_prefix: %w", err)
	}
	work.NewBranch = prefix + own(a, set, work.Collaboration)
	if work.Collaboration == events.Parallel && a.Session != "" && line == "" && yes(set.AutoBranch, true) {
		work.WorkingBranch = prefix + lineOf(a.Session) // that of the runs that worked one after the other
	}
	shared := work.Collaboration == events.Sequential && a.Session != "" || set.Strategy != events.BranchPerRun &&
		a.Session == "" && a.Workflow != ""
	// Who names the line that runs share wants them on it.
	if !yes(set.AutoBranch, !shared || line == "") && work.Collaboration != events.Parallel {
		work.NewBranch = ""
	}
	return work, nil
}

// collaboration is what was asked for, else as the session has it: in a parallel one each agent has a tree of its own,
// but for a run that merges, which works on the line that the others are merged into.
func collaboration(a Ask, set events.GitSettings) events.SessionMode {
	switch {
	case set.Collaboration != "":
		return set.Collaboration
	case len(a.Merge) == 0 && a.Mode == events.Parallel:
		return events.Parallel
	}
	return events.Sequential
}

// own is the name of the branch that is made for a run, without its prefix. The dots keep names of lines apart from
// those of agents, which have none: git cannot have a branch below another.
func own(a Ask, set events.GitSettings, how events.SessionMode) string {
	switch {
	case how == events.Parallel && a.Session != "":
		return a.Session + "/" + a.Agent
	case how == events.Parallel:
		return a.Name(a.Agent, a.Run)
	case a.Session != "":
		return lineOf(a.Session)
	case a.Workflow != "" && set.Strategy != events.BranchPerRun:
		return a.Workflow + ".workflow"
	}
	return a.Name(a.Agent, a.Run)
}

// lineOf is the branch that the runs of a session share where no one names one.
func lineOf(session string) string { return session + ".session" }

// layered is what the task says, and where it says nothing what the agent's file does.
func layered(file, task events.GitSettings) events.GitSettings {
	return events.GitSettings{AutoBranch: cmp.Or(task.AutoBranch, file.AutoBranch), BranchPrefix: cmp.Or(task.BranchPrefix,
		file.BranchPrefix),
		AutoCommit: cmp.Or(task.AutoCommit, file.AutoCommit), WorkingBranch: cmp.Or(task.WorkingBranch, file.WorkingBranch),
		Strategy: cmp.Or(task.Strategy, file.Strategy), Collaboration: cmp.Or(task.Collaboration, file.Collaboration),
		RequireApproval: cmp.Or(task.RequireApproval, file.RequireApproval), Push: cmp.Or(task.Push, file.Push),
		Workspace: cmp.Or(task.Workspace, file.Workspace)}
}

func yes(said *bool, otherwise bool) bool {
	if said != nil {
		return *said
	}
	return otherwise
}

// filled puts values into the template of a name. Values are put in as they are and not looked at again.
func filled(template string, a Ask) (string, error) {
	var out strings.Builder
	for rest := template; ; {
		before, more, found := strings.Cut(rest, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(more, "}")
		if !closed {
			return "", fmt.Errorf("%q has a ${ without its }", template)
		}
		value, err := a.value(name)
		if err != nil {
			return "", fmt.Errorf("%q: %w", template, err)
		}
		out.WriteString(value)
		rest = after
	}
}

func (a Ask) value(name string) (string, error) {
	known := map[string]string{"session_id": a.Session, "workflow_run_id": a.Workflow, "run_id": a.Run, "agent": a.Agent}
	value, ok := known[name]
	if in, input := strings.CutPrefix(name, "input."); input {
		value, ok = a.Variables[in]
		if !ok {
			return "", fmt.Errorf("the task has no variable %q", in)
		}
	}
	switch {
	case !ok:
		return "", fmt.Errorf("unknown variable ${%s}: want input.NAME, session_id, workflow_run_id, run_id or agent", name)
	case value == "":
		return "", fmt.Errorf("${%s} is empty for this task", name)
	}
	return value, nil
}
