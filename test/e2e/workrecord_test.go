package e2e

import (
	"reflect"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestWorkRecord(t *testing.T) {
	t.Parallel()
	t.Run("WORK-12 a run of a workflow in a repository has the record of its work, with its branch", func(t *testing.T) {
		t.Parallel()
		w, r := gitWorld(t), newRemote(t)
		no := false
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Git: &events.GitSettings{RequireApproval: &no}}, writes("hello.txt", "hello"))
		w.start()
		w.task(events.Task{ID: "recorded", Agent: "coder", Task: "Write hello.", Repo: r.url(), Git: commits(), WorkID: "login",
			WorkflowRun: "wf-1", Orchestrator: "orch-1", Plan: &events.TaskPlan{Steps: []events.TaskStep{{ID: "write", Description: "write it", Agent: "coder"}}}})
		s := w.ended("recorded")
		var got *run.WorkRecord
		for _, one := range run.WorkRecords(s, nil) { // the steps of the work in git are around it
			if one.StepID == "write" {
				got = &one
			}
		}
		want := run.WorkRecord{WorkID: "login", WorkflowRunID: "wf-1", OrchestratorRunID: "orch-1", StepID: "write", AgentID: "coder",
			AgentName: "coder", Task: "write it", RunID: "recorded", Status: string(events.StepIsCompleted),
			Context: map[string]string{"workflow_run_id": "wf-1", "step_id": "write", "git_branch": s.Created.Git.NewBranch}}
		if got == nil || !reflect.DeepEqual(*got, want) || s.Created.Git.NewBranch == "" {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}
