package view

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// forked adds what a run took over from the one it was forked from, once that is whole.
func (t *Tree) forked(d *events.RunForkedData) {
	if t.start = append(t.start, d.Data...); t.origin == nil || len(t.start) < t.origin.StartBytes {
		return
	}
	s, err := run.Codec{}.Decode(t.start)
	t.start = nil
	if err != nil || s.Plan == nil {
		return // the fold has already refused it, or there was no plan
	}
	for _, st := range s.Plan.Steps {
		n := &StepNode{ID: st.ID, Description: st.Description, Agent: st.AssignedAgent, Critical: st.Critical, Kind: st.Kind,
			Needs:  st.Dependencies,
			Status: st.Status, Output: st.Output, Error: st.Error, FlowNode: FlowNode{st.Flow, st.Part, st.Parts},
			Child: ChildNode{Workspace: st.Child}}
		t.Steps, t.steps[st.ID] = append(t.Steps, n), n
	}
	for _, turn := range run.All(s.Turns()) {
		t.turn(turn.At, &events.TurnFinishedData{Step: turn.Step, Turn: turn.Number, Text: turn.Text, Calls: turn.Calls,
			FinishReason: turn.FinishReason,
			InputTokens:  turn.InputTokens, OutputTokens: turn.OutputTokens})
	}
	for _, r := range run.All(s.ToolCallHistory) {
		c := t.calls[r.ID]
		if c == nil {
			continue
		}
		c.State, c.Ended, c.Took = CallDone, r.Timestamp, time.Duration(r.DurationMS)*time.Millisecond
		switch {
		case r.Outcome == run.OutcomeRefused:
			c.State, c.Outcome = CallRefused, join("refused by "+or(r.Rule, r.Code), Clip(r.Result, 300))
		case r.Outcome == run.OutcomeFailed:
			c.State, c.Outcome = CallFailed, join(r.Code, Clip(r.Result, 300))
		case !r.Success:
			c.State, c.Outcome = CallNotOK, Gist(r.Result, false)
		default:
			c.Outcome = Gist(r.Result, false)
		}
	}
	t.Calls, t.Tokens = s.TotalToolCalls, s.Tokens
	for _, st := range t.Steps {
		st.Asked = time.Time{}
	}
}
