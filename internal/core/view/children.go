package view

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// childWait is what a step waits for that is given to a child.
func childWait(s run.State, st *run.Step) Wait {
	w := Wait{On: string(events.Planner), Step: st.ID, Since: s.UpdatedAt,
		Text: "step " + st.ID + " waits for the planner to begin its child run"}
	switch c := s.ChildOf(st.ID); {
	case st.Owed > 0:
		w.On, w.Text = string(events.Executor), "step "+st.ID+" waits for the executor to close it"
	case c != nil && c.Lives():
		w.On, w.Child, w.Since, w.Command = OnChild, c.ID, c.SpawnedAt, "inspan why "+c.ID
		w.Text = "step " + st.ID + " waits for child run " + c.ID + " of agent " + Clip(c.Agent, 60)
	}
	return w
}

// ChildNode is a run that a step was given to.
type ChildNode struct {
	ID, Agent, Workspace string
	Attempt              int
	// Outcome is spawned while it lives. Error is why it failed, or why none was made.
	Outcome, Error string
	Began, Ended   time.Time
	Use            events.Use
}

// childNodes are what the events about children do to the tree.
var childNodes = []nodeRow{
	node(func(t *Tree, f events.Event, d *events.CallDelegatedData) {
		if c := t.calls[d.Call]; c != nil {
			c.State, c.Began, c.Attempt, c.Runner = CallRuns, f.Time, d.Attempt, "agent "+d.Delegation.Agent
		}
	}),
	node(func(t *Tree, f events.Event, d *events.ChildSpawnedData) {
		if c := t.calls[d.Call]; c != nil {
			c.Runner, c.Attempt = d.Child, d.Attempt
		}
		if d.Call != "" {
			return
		}
		if st := t.steps[d.Step]; st != nil {
			st.Asked, st.Child = time.Time{}, ChildNode{ID: d.Child, Agent: d.Agent, Workspace: d.Workspace, Attempt: d.Attempt,
				Outcome: d.Outcome, Error: d.Error, Began: f.Time}
		}
	}),
	node(func(t *Tree, f events.Event, d *events.ChildFinishedData) {
		t.Below = t.Below.Plus(d.Use)
		if d.Call != "" {
			return
		}
		if st := t.steps[d.Step]; st != nil {
			c := &st.Child
			c.Outcome, c.Error, c.Ended, c.Use, c.Attempt, st.Asked = d.Outcome, d.Error, f.Time, d.Use, d.Attempt, time.Time{}
		}
	}),
	node(func(t *Tree, f events.Event, d *events.RunStoppingData) {
		t.Paused, t.Status = f.Time, events.Paused
		t.PauseReason = "stopping (" + d.FinishReason + "), waits for its children"
	}),
}
