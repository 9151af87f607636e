package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// nodeRow is what the events of one type do to the tree.
type nodeRow = row[func(t *Tree, f events.Event, p events.Payload)]

// node makes a row of a function; its payload type says of which event type.
func node[P events.Payload](apply func(t *Tree, f events.Event, d P)) nodeRow {
	var none P
	return nodeRow{none.Kind(), func(t *Tree, f events.Event, p events.Payload) {
		if d, ok := p.(P); ok {
			apply(t, f, d)
		}
	}}
}

// nodeRows have the event types that change the tree: those whose row in pkg/events has events.InTree.
var nodeRows = slices.Concat(checkNodes, childNodes, []nodeRow{
	node(func(t *Tree, f events.Event, d *events.RunCreatedData) {
		t.Run, t.Agent, t.Model, t.Task, t.Created, t.Status = f.Run, d.Agent, d.Agents[d.Agent].Model, d.Task, f.Time,
			events.Created
		t.Budget, t.origin = d.Options.MaxToolCalls, d.ForkOf
		t.steps, t.calls, t.gates = map[string]*StepNode{}, map[string]*CallNode{}, map[string]*GateNode{}
		t.direct(f.Time, d)
	}),
	node(func(t *Tree, f events.Event, d *events.RunPrunedData) {
		t.Run, t.Agent, t.Created, t.Budget = f.Run, d.Created.Agent, d.CreatedAt, d.Created.Options.MaxToolCalls
		t.steps, t.calls, t.gates = map[string]*StepNode{}, map[string]*CallNode{}, map[string]*GateNode{}
		if d.StartedAt != nil {
			t.Started = *d.StartedAt
		}
		t.spend(d.Result.InputTokens, d.Result.OutputTokens, 0, d.Result.Cost)
		t.Turns, t.Calls = d.Result.TotalSteps, d.Result.ToolCallCount
		t.end(d.EndedAt, d.Result)
	}),
	node(func(t *Tree, _ events.Event, d *events.RunForkedData) { t.forked(d) }),
	node(func(t *Tree, f events.Event, _ *events.RunStartedData) { t.Started, t.Status = f.Time, events.Running }),
	node(func(t *Tree, f events.Event, d *events.RunPausedData) {
		t.Paused, t.PauseReason, t.Status = f.Time, d.Reason, events.Paused
	}),
	node(func(t *Tree, _ events.Event, _ *events.RunResumedData) {
		t.Paused, t.PauseReason, t.Status = time.Time{}, "", events.Running
	}),
	node(func(t *Tree, f events.Event, d *events.RunCompletedData) { t.end(f.Time, d.Result) }),
	node(func(t *Tree, f events.Event, d *events.RunFailedData) { t.end(f.Time, d.Result) }),
	node(func(t *Tree, _ events.Event, d *events.PlanAnsweredData) {
		t.spend(d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
	}),
	node(func(t *Tree, _ events.Event, d *events.PlanMadeData) { t.plan(d) }),
	node(func(t *Tree, f events.Event, d *events.PlanRevisedData) { t.revise(f.Time, d) }),
	node(func(t *Tree, f events.Event, d *events.StepReadyData) { t.stepReady(f.Time, d) }),
	node(func(t *Tree, f events.Event, d *events.StepAllowedData) { t.stepAllowed(f.Time, d) }),
	node(func(t *Tree, f events.Event, d *events.StepFinishedData) {
		if st := t.steps[d.Step]; st != nil {
			st.Status, st.Ended, st.Output, st.Asked = events.StepIsCompleted, f.Time, d.Output, time.Time{}
		}
	}),
	node(func(t *Tree, f events.Event, d *events.StepFailedData) {
		if st := t.steps[d.Step]; st != nil {
			st.Status, st.Ended, st.Error, st.Asked = events.StepIsFailed, f.Time, d.Error, time.Time{}
			t.block()
		}
	}),
	node(func(t *Tree, f events.Event, d *events.StepExpandedData) { t.expanded(f.Time, d) }),
	node(func(t *Tree, f events.Event, d *events.StepSettledData) { t.settled(f.Time, d) }),
	node(func(t *Tree, _ events.Event, d *events.TurnDeferredData) {
		if st := t.steps[d.Step]; st != nil {
			st.NotBefore, st.Retry = d.NotBefore, fmt.Sprintf("attempt %d: %s", d.Attempt, Clip(d.Error, 200))
		}
	}),
	node(func(t *Tree, f events.Event, d *events.TurnFinishedData) { t.turn(f.Time, d) }),
	node(func(t *Tree, _ events.Event, d *events.HistoryCompactedData) {
		t.spend(d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
	}),
	node(func(t *Tree, _ events.Event, d *events.CallSettledData) {
		if !d.Unknown {
			t.spend(d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
		}
	}),
	node(func(t *Tree, f events.Event, d *events.GateOpenedData) { t.gate(f.Time, d) }),
	node(func(t *Tree, f events.Event, d *events.GateApprovedData) {
		t.answer(f.Time, d.GateAnswer, run.GateApproved)
	}),
	node(func(t *Tree, f events.Event, d *events.GateRejectedData) {
		t.answer(f.Time, d.GateAnswer, run.GateRejected)
	}),
	node(func(t *Tree, f events.Event, d *events.GateVotedData) {
		t.answer(f.Time, d.GateAnswer, run.GatePending)
	}),
	node(func(t *Tree, f events.Event, d *events.GateExpiredData) {
		t.answer(f.Time, events.GateAnswer{Gate: d.Gate, By: run.ExpiredBy, Reason: expiryText(d.Outcome)}, run.GateExpired)
	}),
	node(func(t *Tree, f events.Event, d *events.CallRequestedData) { t.requested(f.Time, d) }),
	node(func(t *Tree, f events.Event, d *events.CallAllowedData) {
		if c := t.calls[d.Call]; c != nil {
			c.State, c.Began = CallAllowed, f.Time
			if c.Input == "" && d.Input != "" {
				c.Input = Input(json.RawMessage(d.Input))
			}
		}
	}),
	node(func(t *Tree, f events.Event, d *events.CallStartedData) {
		if c := t.calls[d.Call]; c != nil {
			c.State, c.Began, c.Attempt, c.Runner, c.Sandbox = CallRuns, f.Time, d.Attempt, d.Runner, d.Sandbox
		}
	}),
	node(func(t *Tree, _ events.Event, d *events.CallDeferredData) {
		if c := t.calls[d.Call]; c != nil {
			c.State, c.Attempt, c.NotBefore, c.Outcome = CallRetries, d.Attempt, d.NotBefore, Clip(d.Error, 300)
		}
	}),
	node(func(t *Tree, f events.Event, d *events.CallFinishedData) {
		state := CallDone
		if !d.Success {
			state = CallNotOK
		}
		t.endCall(f.Time, d.ToolRef, state, d.DurationMS, outcome(d))
		if c := t.calls[d.Call]; c != nil {
			if c.Sandbox = d.Sandbox; d.Success {
				c.changed(Changed(c.Tool, c.input, d.Output))
			}
			c.input = nil
		}
	}),
	node(func(t *Tree, f events.Event, d *events.CallFailedData) {
		t.endCall(f.Time, d.ToolRef, CallFailed, d.DurationMS, join(d.Class, Clip(cause(d), 300)))
	}),
	node(func(t *Tree, f events.Event, d *events.CallRefusedData) {
		t.endCall(f.Time, d.ToolRef, CallRefused, 0, join("refused by "+or(d.Rule, d.Code), Clip(d.Reason, 300)))
	}),
})

var nodes = index(nodeRows)

func (t *Tree) stepReady(at time.Time, d *events.StepReadyData) {
	if st := t.steps[d.Step]; st != nil {
		st.Status, st.Ready = events.StepIsReady, at
	}
}

func (t *Tree) stepAllowed(at time.Time, d *events.StepAllowedData) {
	if st := t.steps[d.Step]; st != nil {
		if st.Status, st.Began = events.StepIsRunning, at; st.Child.Workspace == "" && !st.Flow.Controls() {
			st.Asked = at // others have no turns, or they are those of their child
		}
	}
}
