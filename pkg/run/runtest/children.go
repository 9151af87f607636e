package runtest

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ChildStep is a step that is given to a child with a directory of its own.
func ChildStep(id string, after ...string) events.PlanStep {
	st := Step(id, after...)
	st.Child = events.ChildOwn
	return st
}

// Spawned gives a step to a child that may spend so much.
func Spawned(s run.State, step string, r events.Reserve) *events.ChildSpawnedData {
	st, d := s.Step(step), &events.ChildSpawnedData{ChildRef: childRef(s, step, events.ChildSpawned), Reserve: r}
	depth, root := s.Depth()
	d.Child, d.Outcome, d.Root, d.Depth, d.Workspace = fmt.Sprintf("%s%s-%d", events.ChildPrefix, step, d.Attempt),
		events.ChildIsSpawned, root, depth+1, st.Child
	if d.Attempt > 1 {
		d.Error = s.ChildOf(step).Error
	}
	return d
}

func childRef(s run.State, step string, k events.Kind) events.ChildRef {
	ref := events.ChildRef{Event: eventOf(k), Parent: s.HarnessID, Step: step, Agent: s.Step(step).AssignedAgent, Attempt: 1}
	if c := s.ChildOf(step); c != nil && c.Lives() {
		ref.Child, ref.Attempt = c.ID, c.Attempt
	} else if c != nil {
		ref.Attempt = c.Attempt + 1
	}
	return ref
}

// ChildEnd settles the child that a step waits for.
func ChildEnd(s run.State, step, outcome string, retry bool, use events.Use) *events.ChildFinishedData {
	d := &events.ChildFinishedData{ChildRef: childRef(s, step, events.ChildFinished), Retry: retry, Use: use,
		FinishReason: events.FinishDone, Output: "output of " + step, DurationMS: 30}
	if d.Outcome = outcome; outcome != events.ChildIsCompleted {
		d.FinishReason, d.Output, d.Error = events.FinishError, "", "it broke"
	}
	return d
}

// StoppingFor is the first half of the end of a run with children.
func StoppingFor(s run.State, reason string) *events.RunStoppingData {
	d := &events.RunStoppingData{Event: eventOf(events.RunStopping), From: s.Status, To: events.Paused, FinishReason: reason}
	for _, c := range s.Living() {
		d.Children = append(d.Children, c.ID)
	}
	return d
}

// ends are what may end a run that does not complete, or lead to that.
func ends(s run.State) []events.Payload {
	switch {
	case len(s.Living()) > 0 && s.Stopping != nil:
		return nil
	case len(s.Living()) > 0:
		return []events.Payload{StoppingFor(s, events.FinishStopped)}
	case s.Stopping != nil:
		return []events.Payload{Failed(s, s.Stopping.FinishReason, "stopped")}
	}
	return []events.Payload{Failed(s, events.FinishStopped, "stopped")}
}

// childEnds are what may come of a child.
func childEnds(s run.State, c *run.Child) []events.Payload {
	use := events.Use{Runs: 1, Turns: 2, ToolCalls: c.Reserve.ToolCalls / 2, InputTokens: 20, OutputTokens: 10, Cost: 3}
	m := []events.Payload{ChildEnd(s, c.Step, events.ChildIsCompleted, false, use),
		ChildEnd(s, c.Step, events.ChildIsFailed, false, use)}
	if c.Attempt < events.MaxChildAttempts {
		m = append(m, ChildEnd(s, c.Step, events.ChildIsFailed, true, use))
	}
	return m
}

// childMoves are what may happen to a step that is given to a child.
func childMoves(s run.State, st *run.Step) []events.Payload {
	c := s.ChildOf(st.ID)
	switch {
	case c != nil && c.Lives():
		return childEnds(s, c)
	case st.Owed > 0 && c.Outcome == events.ChildIsCompleted:
		done := StepDone(st.ID, s.SubAgentResults[c.ID])
		done.Checkpoint = s.NextCheckpoint()
		return []events.Payload{done}
	case st.Owed > 0:
		bad := StepBad(st.ID, c.Error)
		bad.Checkpoint = s.NextCheckpoint()
		return []events.Payload{bad}
	}
	no := ChildEnd(s, st.ID, events.ChildIsRefused, false, events.Use{})
	r := events.Reserve{ToolCalls: s.BudgetLeft() / 2}
	o, used, held := s.Options, s.Used(), s.HeldForChildren()
	if o.MaxTokens > 0 {
		r.Tokens = (o.MaxTokens - used.Tokens() - held.Tokens) / 2
	}
	if o.MaxCost > 0 {
		r.Cost = (o.MaxCost - used.Paid() - held.Cost) / 2
	}
	if o.MaxTokens > 0 && r.Tokens <= 0 || o.MaxCost > 0 && r.Cost <= 0 {
		return []events.Payload{no}
	}
	return []events.Payload{no, Spawned(s, st.ID, r)}
}
