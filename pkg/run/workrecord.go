package run

import (
	"cmp"

	"github.com/inspan/inspan/pkg/events"
)

// WorkRecord is the record of harness work: one step of a run, whose work it is, and who does it (WORK-12). It is a
// view of the events of the run: the same events give the same record.
type WorkRecord struct {
	// WorkID is the work item of the step, else that of the run, else the run itself.
	WorkID string `json:"work_id"`
	// WorkflowRunID and OrchestratorRunID are those of the task, the second one of a child that of its whole tree.
	// They are empty where there are none.
	WorkflowRunID     string `json:"workflow_run_id"`
	OrchestratorRunID string `json:"orchestrator_run_id"`
	// StepID is the step of the plan, empty before there is a plan.
	StepID string `json:"step_id"`
	// AgentID is the address of a named agent, else the name of the definition, which AgentName always is.
	AgentID   string `json:"agent_id"`
	AgentName string `json:"agent_name"`
	// Task is the text of the step, that of the whole task where the plan has one step.
	Task string `json:"task"`
	// Context has WorkContextKeys, each with an empty value where there is none.
	Context map[string]string `json:"context"`
	// RunID is the run, Status that of the step, or of the run before there is a plan.
	RunID  string `json:"run_id"`
	Status string `json:"status"`
}

// Keys of the context of a WorkRecord.
const (
	WorkContextWorkflowRun = "workflow_run_id"
	WorkContextStep        = "step_id"
	WorkContextBranch      = "git_branch"
)

// WorkContextKeys lists the keys of the context of a WorkRecord.
func WorkContextKeys() []string {
	return []string{WorkContextWorkflowRun, WorkContextStep, WorkContextBranch}
}

// WorkRecords are the records of the steps of a run, in the order of its plan. items are the work items of steps, by
// step: those of a formula have some. A run that does not exist has none.
func WorkRecords(s State, items map[string]string) []WorkRecord {
	c := s.Created
	if c == nil {
		return nil
	}
	of := WorkRecord{WorkID: cmp.Or(c.WorkID, s.HarnessID), WorkflowRunID: c.WorkflowRun,
		OrchestratorRunID: c.Orchestrator, AgentName: s.AgentName, Task: c.Task, RunID: s.HarnessID, Status: string(s.Status)}
	if c.Work != nil {
		of.WorkID = c.Work.Work
	}
	if c.ChildOf != nil {
		of.OrchestratorRunID = cmp.Or(of.OrchestratorRunID, c.ChildOf.Root)
	}
	branch := branchOf(c.Git)
	if s.Plan == nil {
		return []WorkRecord{of.at("", branch, c.Address)}
	}
	all := make([]WorkRecord, 0, len(s.Plan.Steps))
	for _, st := range s.Plan.Steps {
		r := of
		r.WorkID, r.AgentName, r.Status = cmp.Or(items[st.ID], of.WorkID), cmp.Or(st.AssignedAgent, of.AgentName),
			string(st.Status)
		if len(s.Plan.Steps) > 1 {
			r.Task = st.Description
		}
		all = append(all, r.at(st.ID, branch, c.Address))
	}
	return all
}

// at is a record of a step on a branch. The address of a run is that of the agent that its own definition makes.
func (r WorkRecord) at(step, branch string, as *events.AddressRef) WorkRecord {
	r.StepID, r.AgentID = step, r.AgentName
	if as != nil {
		r.AgentID = as.Address
	}
	r.Context = map[string]string{WorkContextWorkflowRun: r.WorkflowRunID, WorkContextStep: step,
		WorkContextBranch: branch}
	return r
}

// branchOf is the branch that a run works on; empty where it works in no repository, or where the repository says it.
func branchOf(g *events.GitWork) string {
	if g == nil {
		return ""
	}
	return cmp.Or(g.NewBranch, g.WorkingBranch, g.Branch)
}
