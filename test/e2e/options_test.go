package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// shelfWithoutSnapshots refuses to store snapshots.
type kvWithoutSnapshots struct{ kernel.KV }

func (s kvWithoutSnapshots) Put(ctx context.Context, key string, value []byte) error {
	if strings.HasPrefix(key, "snap.") {
		return errors.New("no room for snapshots")
	}
	return s.KV.Put(ctx, key, value)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "reader", Tools: []string{"read"}, MaxSteps: 7}, reader)
	w.agent(events.Agent{Name: "talker"}, "turns:\n  - text: done\n")
	w.ports.State = kvWithoutSnapshots{w.ports.State}
	roles := w.start()
	five, two := 5, 2
	off := false

	t.Run("LIFE-11 each option of a task is taken, the agent's comes next, then the documented default", func(t *testing.T) {
		w := w.on(t)
		interval := int64(60000)
		w.task(events.Task{ID: "given", Agent: "reader", Task: "x", Autonomy: &five, MaxToolCalls: &two, CheckpointIntervalMS: &interval, MaxSubAgentDepth: &two, EternalEngine: &off, Timeout: "90s"})
		w.task(events.Task{ID: "plain", Agent: "reader", Task: "x"})
		got, want := w.ended("given").Options, events.Options{Autonomy: 5, MaxToolCalls: 2, MaxSteps: 7, TimeoutMS: 90000, CheckpointIntervalMS: 60000, MaxSubAgentDepth: 2}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		want = events.DefaultOptions()
		want.MaxSteps = 7
		if got := w.ended("plain").Options; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("WS-1 WS-4 the workspace is the session's, else the workflow's, else the run's own", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "ws1", Agent: "talker", Task: "x", Session: "ses", WorkflowRun: "wf"})
		w.task(events.Task{ID: "ws2", Agent: "talker", Task: "x", WorkflowRun: "wf"})
		w.task(events.Task{ID: "ws3", Agent: "talker", Task: "x"})
		for id, want := range map[string]string{"ws1": "session/ses", "ws2": "workflow/wf", "ws3": "run/ws3"} {
			s := w.ended(id)
			if s.Created.Workspace != want {
				t.Errorf("%s works in %q, want %q", id, s.Created.Workspace, want)
			}
		}
		if s := w.state("ws1"); s.Identity.Session != "ses" || s.Identity.WorkflowRun != "wf" {
			t.Errorf("%+v", s.Identity)
		}
	})
	t.Run("WS-6 the workspace root is configurable, ./workspace by default", func(t *testing.T) {
		for _, row := range service.Reference() {
			if row.Name == "INSPAN_WORKSPACE" && row.Default != "./workspace" {
				t.Errorf("default %q", row.Default)
			}
		}
		cfg := service.Config{Base: service.Base{Station: "x", Store: service.Store{Replicas: 1}}, Workspaces: service.Workspaces{Workspace: "./elsewhere"}}
		if err := cfg.Validate(); err != nil || !filepath.IsAbs(cfg.Workspace) || filepath.Base(cfg.Workspace) != "elsewhere" {
			t.Errorf("%q, %v", cfg.Workspace, err)
		}
	})
	t.Run("PERS-6 a snapshot that cannot be written is no reason to stop", func(t *testing.T) {
		w := w.on(t)
		plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "a"}, {ID: "b", Description: "b", Needs: []string{"a"}}}}
		w.task(events.Task{ID: "nosnap", Agent: "talker", Task: "x", Plan: plan})
		s := w.ended("nosnap")
		if n := w.count("nosnap")["checkpoint.saved"]; s.Status != events.Completed || n != 0 || s.CheckpointCount != 2 {
			t.Errorf("%s, %d snapshots, %d checkpoints in the log", s.Status, n, s.CheckpointCount)
		}
		w.row("nosnap", func(i run.Info) bool { return i.Status == events.Completed })
	})
	t.Run("PLAN-14 PERS-15 plan and current step survive a restart in the middle", func(t *testing.T) {
		w := w.on(t)
		one := 1
		plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "a"}, {ID: "b", Description: "b", Needs: []string{"a"}}}}
		w.task(events.Task{ID: "middle", Agent: "talker", Task: "x", Plan: plan, Autonomy: &one})
		w.await("middle", "waiting", waiting)
		w.publish(w.opened("middle").AnswerSubject, `{"decision":"approve"}`)
		before := w.await("middle", "waiting for b", func(s run.State) bool { return len(s.Gates) == 2 && waiting(s) })
		roles.stop()
		w.start()
		w.publish(w.opened("middle").AnswerSubject, `{"decision":"approve"}`)
		after := w.ended("middle")
		if before.CurrentStepIndex != 1 || after.CurrentStepIndex != 2 || len(after.Plan.Steps) != 2 || after.Status != events.Completed {
			t.Errorf("before %d, after %d: %+v", before.CurrentStepIndex, after.CurrentStepIndex, after.Result)
		}
	})
}
