package delivery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// CheckSteps returns why the git settings of steps cannot hold, or nil. A step may ask for a commit of its own or
// decide about approval; all else belongs to the working tree, the branch or the end of a run, of which a run has one.
// Approval is switched off only where an operator did so for the run's agent, as in Resolve.
func CheckSteps(c *events.RunCreatedData, steps []events.PlanStep) error {
	committed := commits(steps)
	for _, st := range steps {
		if len(committed) > 0 && st.Kind == "" && strings.HasPrefix(st.ID, events.CommitStepPrefix) {
			return fmt.Errorf("step %q: its id cannot begin with %s in a plan with auto_commit for a step: rename the step",
				st.ID, events.CommitStepPrefix)
		}
		if st.Git == nil {
			continue
		}
		if why := unfit(c, *st.Git); why != "" {
			return fmt.Errorf("step %q: git: %s", st.ID, why)
		}
		if other := uniqueStep(steps, st.ID); committed[st.ID] != "" && other != "" {
			return fmt.Errorf("step %q: git: auto_commit commits the whole working tree, in which step %q may work at the same time: make one depend on the other, or set auto_commit for a step after both", st.ID, other)
		}
	}
	return nil
}

// unfit says which setting cannot be for one step, and why; "" where all can.
func unfit(c *events.RunCreatedData, g events.GitSettings) string {
	if c.Git == nil {
		return "the run does not work in git: give the task a repo or git"
	}
	for _, no := range []struct {
		key, why string
		set      bool
	}{
		{"auto_branch", "a run works on one branch", g.AutoBranch != nil},
		{"branch_prefix", "a run works on one branch", g.BranchPrefix != ""},
		{"working_branch", "a run works on one branch", g.WorkingBranch != ""},
		{"workflow_branch_strategy", "a run works on one branch", g.Strategy != ""},
		{"collaboration", "the steps of a run share one working tree", g.Collaboration != ""},
		{"workspace", "the steps of a run share one working tree", g.Workspace != ""},
		{"push", "the harness pushes once, when the run ends", g.Push != nil},
		{"auto_commit", "the only allowed value is true: uncommitted changes of a step are in the working tree of the next commit", !yes(g.AutoCommit, true)},
	} {
		if no.set {
			return no.key + " cannot be set for one step: " + no.why
		}
	}
	file := c.Agents[c.Agent].Git
	if !yes(g.RequireApproval, true) && (file == nil || yes(file.RequireApproval, true)) {
		return "require_approval: a task cannot switch it off; an operator can, in the agent's file or with harness.git"
	}
	return ""
}

// uniqueStep is a step that may run at the same time as another: neither waits for the other. It is "" where there is
// none.
func uniqueStep(steps []events.PlanStep, id string) string {
	before, behind := map[string]bool{id: true}, map[string]bool{id: true}
	for range steps { // each pass adds at least one step or is the last that matters
		for _, st := range steps {
			for _, d := range st.Dependencies {
				before[d] = before[d] || before[st.ID]
				behind[st.ID] = behind[st.ID] || behind[d]
			}
		}
	}
	for _, st := range steps {
		if !before[st.ID] && !behind[st.ID] {
			return st.ID
		}
	}
	return ""
}

// commits are the ids of the commit steps of a plan, by the steps that ask for them.
func commits(steps []events.PlanStep) map[string]string {
	ids := map[string]string{}
	for i, st := range steps {
		if st.Git != nil && yes(st.Git.AutoCommit, false) {
			ids[st.ID] = fmt.Sprintf("%s%d", events.CommitStepPrefix, i+1)
		}
	}
	return ids
}

// after are the dependencies of a step: it waits for the commit of a step that has one, and for the checkout where it
// waits for nothing else.
func after(dependencies []string, committed map[string]string) []string {
	if len(dependencies) == 0 {
		return []string{events.CheckoutStep}
	}
	all := slices.Clone(dependencies)
	for i, d := range all {
		if id := committed[d]; id != "" {
			all[i] = id
		}
	}
	return all
}

// commitOf is the step that commits the work of another. It waits for the checkout, too: in a fork both are carried out
// again.
func commitOf(st events.PlanStep, id string) events.PlanStep {
	return events.PlanStep{ID: id, Description: clip(strings.Join(strings.Fields(st.Description), " "), maxSubject),
		Agent:        st.Agent,
		Dependencies: []string{events.CheckoutStep, st.ID}, Kind: events.StepCommit}
}

// commit commits what is in the working tree, by one call, or by none where there is no repository.
func commit(s run.State, st *run.Step, done []run.CallRecord) []events.Payload {
	var p progress
	for _, r := range done {
		if why := p.add(r); why != "" {
			return failed(s, st, why)
		}
	}
	first := begun(s)
	switch {
	case p.looked && first.Branch != "" && p.Branch != first.Branch:
		return failed(s, st, fmt.Sprintf("the working tree is on the branch %q and the branch of the run is %q", p.Branch,
			first.Branch))
	case p.committed || p.looked && p.Branch+p.Commit == "":
		return finished(s, st, p.explain(""))
	case !p.looked:
		return call(s, st, events.GitPrepare, prepareArgs{})
	}
	step := st.Dependencies[len(st.Dependencies)-1]
	text := fmt.Sprintf("%s\n\nInspan-Agent: %s\nInspan-Run: %s\nInspan-Step: %s", st.Description, st.AssignedAgent,
		s.HarnessID, step)
	return call(s, st, events.GitCommit, commitArgs{Message: text})
}

// approval reports whether a call of a step needs a person's yes before work leaves the working tree.
func approval(s run.State, step string) bool {
	if st := s.Step(step); st != nil && st.Git != nil {
		return yes(st.Git.RequireApproval, s.Created.Git.RequireApproval)
	}
	return s.Created.Git.RequireApproval
}
