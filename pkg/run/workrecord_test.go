package run_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestWorkRecords(t *testing.T) {
	t.Parallel()
	created := events.RunCreatedData{Task: "Fix all.", WorkflowRun: "wf-1", Orchestrator: "orch-1", WorkID: "login",
		Git: &events.GitWork{NewBranch: "agent/coder/login", WorkingBranch: "main"}}
	steps := []*run.Step{{ID: "a", Description: "write it", AssignedAgent: "coder", Status: events.StepIsCompleted},
		{ID: "b", Description: "look at it", AssignedAgent: "reviewer", Status: events.StepIsRunning}}
	state := func(c events.RunCreatedData, some ...*run.Step) run.State {
		s := run.State{HarnessID: "r1", AgentName: "coder", Status: events.Running, Created: &c}
		if len(some) > 0 {
			s.Plan = &run.Plan{Steps: some}
		}
		return s
	}
	t.Run("WORK-12 the record of each step holds work, workflow run, step, agent, task and orchestrator run, with workflow run, step and branch in its context", func(t *testing.T) {
		t.Parallel()
		all := run.WorkRecords(state(created, steps...), map[string]string{"b": "step_x"})
		want := []run.WorkRecord{
			{WorkID: "login", WorkflowRunID: "wf-1", OrchestratorRunID: "orch-1", StepID: "a", AgentID: "coder", AgentName: "coder", Task: "write it", RunID: "r1", Status: "completed",
				Context: map[string]string{"workflow_run_id": "wf-1", "step_id": "a", "git_branch": "agent/coder/login"}},
			{WorkID: "step_x", WorkflowRunID: "wf-1", OrchestratorRunID: "orch-1", StepID: "b", AgentID: "reviewer", AgentName: "reviewer", Task: "look at it", RunID: "r1", Status: "running",
				Context: map[string]string{"workflow_run_id": "wf-1", "step_id": "b", "git_branch": "agent/coder/login"}}}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("got  %+v\nwant %+v", all, want)
		}
		b, err := json.Marshal(all[0])
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := json.Unmarshal(b, &keys); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"work_id", "workflow_run_id", "step_id", "agent_id", "agent_name", "task", "orchestrator_run_id", "context"} {
			if keys[key] == nil {
				t.Errorf("%s is missing in %s", key, b)
			}
		}
	})
	t.Run("WORK-12 a named agent is named by its address, a run without a plan has one record, and every key is there where nothing is known", func(t *testing.T) {
		t.Parallel()
		c := events.RunCreatedData{Task: "Look.", Address: &events.AddressRef{Address: "web/worker/nux", Epoch: 2},
			Work: &events.WorkRef{Work: "item", Epoch: 1}, ChildOf: &events.Lineage{Root: "root"}}
		all := run.WorkRecords(state(c), nil)
		if len(all) != 1 || all[0].AgentID != "web/worker/nux" || all[0].AgentName != "coder" || all[0].WorkID != "item" ||
			all[0].OrchestratorRunID != "root" || all[0].Task != "Look." || all[0].Status != string(events.Running) {
			t.Fatalf("%+v", all)
		}
		all = run.WorkRecords(state(events.RunCreatedData{Task: "Look."}, steps[0]), nil)
		if len(all) != 1 || all[0].WorkID != "r1" || all[0].Task != "Look." {
			t.Errorf("%+v", all)
		}
		for _, key := range run.WorkContextKeys() {
			if _, is := all[0].Context[key]; !is || len(all[0].Context) != len(run.WorkContextKeys()) {
				t.Errorf("%s: %v", key, all[0].Context)
			}
		}
		if all := run.WorkRecords(run.State{}, nil); slices.ContainsFunc(all, func(run.WorkRecord) bool { return true }) {
			t.Errorf("%+v", all)
		}
	})
}
