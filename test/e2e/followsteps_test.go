package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

const stepper = `
turns:
  - when: {step: a, turn: 1}
    calls: [{name: bash, input: {command: "printf one > a.txt"}}]
  - when: {step: a, turn: 2}
    calls: [{name: bash, input: {command: "printf two >> a.txt"}}]
  - when: {step: a}
    text: "made"
  - when: {step: b, turn: 1}
    calls: [{name: bash, input: {command: "printf three > b.txt"}}]
  - when: {step: b, turn: 2}
    calls: [{name: stall, input: {}}]
  - when: {step: b, turn: 3}
    calls: [{name: bash, input: {command: "cat a.txt; ls"}}]
  - when: {step: b}
    text: "done"
`

// TestSnapshotAtSteps loses a machine in the middle of a step where workspaces are kept at the ends of steps only.
func TestSnapshotAtSteps(t *testing.T) {
	t.Parallel()
	t.Run("WS-3 SAFE-8 where workspaces are kept at the ends of steps, what a lost machine had of a step is told to the agent", func(t *testing.T) {
		t.Parallel()
		stall := newStall(tool.Once)
		w := newWorld(t, stall)
		w.tune = func(c *service.Config) { c.WorkspaceSnapshot = "step" }
		wake := sync.OnceFunc(func() { close(stall.wakes) })
		w.agent(events.Agent{Name: "stepper", Tools: []string{"bash", "stall"}}, stepper)
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		g := &graves{Leases: w.ports.Leases}
		first := g.on(w, "follow", "one")
		t.Cleanup(wake) // before the machines are stopped
		w.task(events.Task{ID: "steps", Agent: "stepper", Task: "go", Plan: &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "a"}, {ID: "b", Description: "b", Needs: []string{"a"}, Critical: true}}}})
		waiting := w.await("steps", "at a gate", func(s run.State) bool { return len(s.Waiting()) > 0 })
		// Nothing happens any more that the end of the step could be seen by: it was overheard.
		kept := w.treeUntil("run/steps", "kept at the end of the step", func(r workspace.Record) bool { return r.Snapshot != "" && len(r.Unkept) == 0 })
		if !strings.HasSuffix(kept.Covers, waiting.ToolCallHistory.At(1).ID) || len(kept.Packs) != 1 {
			t.Errorf("%+v", kept)
		}
		w.publish(events.GateSubject("test", "steps", waiting.Waiting()[0].ID), `{"decision":"approve","by":"ann"}`)
		select {
		case <-stall.begun:
		case <-w.ctx().Done():
			t.Fatal("the call never began\n" + w.story("steps"))
		}
		third := w.state("steps").ToolCallHistory.At(2).ID
		if rec := w.tree("run/steps"); rec.Snapshot != kept.Snapshot || !slices.Equal(rec.Unkept, []string{"steps/" + third}) {
			t.Errorf("in the middle of a step: %+v", rec)
		}
		second := g.on(w, "follow", "two")
		t.Cleanup(wake)
		first.lose()
		s := w.ended("steps")
		if s.Status != events.Completed {
			t.Fatalf("%+v\n%s", s.Result, w.story("steps"))
		}
		looked := s.ToolCallHistory.At(4).Result
		if !strings.Contains(looked, "onetwo") || strings.Contains(looked, "b.txt\n") || !strings.Contains(looked, "lost all the same: steps/"+third) || !strings.Contains(looked, third+": bash of step b") {
			t.Errorf("the agent is told %q", looked)
		}
		end := w.treeUntil("run/steps", "given back", func(r workspace.Record) bool { return r.Owner == "" })
		if end.Lost || end.Missing != nil || end.Unkept != nil {
			t.Errorf("%+v", end)
		}
		wake()
		if err := <-stall.woken; err != nil {
			t.Errorf("it could not even write into its own directory: %v", err)
		}
		first.stop()
		second.stop()
		if now := w.tree("run/steps"); now.Snapshot != end.Snapshot || now.Fence != end.Fence {
			t.Errorf("the one that woke up changed %+v to %+v", end, now)
		}
	})
}
