// Package child decides about runs that steps of other runs are given to: when one is spawned and what it may spend, how
// it begins, what its end means for the step, and what it has to follow of its parent.
//
// Promises: nothing is spent below a run that was not held in it before, and what is held is never more than what is
// left. A child that failed is followed by exactly one more, which reads why. Deeper than the run permits none is made.
// A child never has more rights than its parent: its autonomy is at most the parent's. All that a child begins with
// follows from the log of its parent.
package child

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ID derives the id of the child of a step.
type ID func(run, step string, attempt int) string

// maxError bounds what a step and the next attempt read of an error, in bytes.
const maxError = 4 << 10

// Next says what a run owes the steps that wait for a child: that one is spawned, or why none can be. A run that is not
// running is owed nothing; it is looked at again when it resumes.
func Next(s run.State, now time.Time, id ID) []events.Payload {
	if s.Status != events.Running || s.Plan == nil {
		return nil
	}
	var say []events.Payload
	for _, st := range s.Plan.Steps {
		if st.Child == "" || st.Status != events.StepIsRunning || st.Owed != 0 {
			continue
		}
		before := s.ChildOf(st.ID)
		if before != nil && !before.Retry {
			continue // it lives, or its end is the executor's to follow
		}
		ref := events.ChildRef{Parent: s.HarnessID, Step: st.ID, Agent: st.AssignedAgent, Attempt: 1}
		why := ""
		if before != nil {
			ref.Attempt, why = before.Attempt+1, before.Error
		}
		return append(say, spawn(s, st, ref, why, now, id)) // the next one is weighed when this one is held
	}
	return say
}

func spawn(s run.State, st *run.Step, ref events.ChildRef, why string, now time.Time, id ID) events.Payload {
	depth, root := s.Depth()
	if most := s.Options.MaxSubAgentDepth; depth+1 > most {
		return refused(ref, events.FinishDepth, fmt.Sprintf(
			"step %s would begin run number %d in a chain of child runs, and at most %d may follow each other: let agent %s do the work itself, or raise max_sub_agent_depth of the task",
			st.ID, depth+1, most, s.AgentName))
	}
	reserve, reason, text := share(s, st)
	if reason != "" {
		return refused(ref, reason, text)
	}
	ref.Event, ref.Outcome, ref.Child = "sub_agent_spawned", events.ChildIsSpawned, id(s.HarnessID, st.ID, ref.Attempt)
	return &events.ChildSpawnedData{ChildRef: ref, Root: root, Depth: depth + 1, Workspace: st.Child, Reserve: reserve,
		TimeoutMS: timeout(s, st, now), Error: why}
}

func refused(ref events.ChildRef, reason, text string) events.Payload {
	ref.Event, ref.Outcome = "sub_agent_finished", events.ChildIsRefused
	return &events.ChildFinishedData{ChildRef: ref, FinishReason: reason, Error: text}
}

// share is what a child may spend: an equal part of what is left for the steps that have not ended and hold nothing, and
// no more than its agent's file says.
func share(s run.State, st *run.Step) (r events.Reserve, reason, text string) {
	a := s.Agents[st.AssignedAgent]
	o, err := (&events.Task{}).Resolve(a)
	if err != nil {
		return r, events.FinishError, fmt.Sprintf("agent %s: %v", a.Name, err)
	}
	n, left := int64(0), budget.Left(s)
	for _, other := range s.Plan.Steps {
		c := s.ChildOf(other.ID)
		open := other.Status == events.StepIsPending || other.Status == events.StepIsReady || other.Status == events.StepIsRunning
		if other.Kind == "" && open && (c == nil || !c.Lives()) && (other.Child == "" || other.Owed == 0) {
			n++
		}
	}
	calls := s.BudgetLeft()
	if calls == 0 && len(a.Tools) > 0 {
		return r, events.FinishToolCalls, fmt.Sprintf("the run has none of its %d tool calls left for step %s; raise max_tool_calls",
			s.Options.MaxToolCalls, st.ID)
	}
	if calls > 0 {
		r.ToolCalls = min(max(1, calls/int(n)), o.MaxToolCalls)
	}
	if s.Options.MaxTokens > 0 {
		if r.Tokens = atMost(left.Tokens/n, o.MaxTokens); r.Tokens <= 0 {
			return r, events.FinishTokens, fmt.Sprintf("the run has %d of its %d tokens left, too few for step %s; raise the budget of the run",
				max(0, left.Tokens), s.Options.MaxTokens, st.ID)
		}
	}
	if s.Options.MaxCost > 0 {
		if r.Cost = events.MicroUSD(atMost(int64(left.Cost)/n, int64(o.MaxCost))); r.Cost <= 0 {
			return r, events.FinishCost, fmt.Sprintf("the run has %s of its %s left, too little for step %s; raise the budget of the run",
				max(0, left.Cost), s.Options.MaxCost, st.ID)
		}
	}
	return r, "", ""
}

// atMost is a part, or a limit where that is less; 0 is no limit.
func atMost(part, limit int64) int64 {
	if limit > 0 && limit < part {
		return limit
	}
	return part
}

// timeout is how long a child may take, in milliseconds: what its agent's file says and what is left to the run.
func timeout(s run.State, st *run.Step, now time.Time) int64 {
	limit := events.DefaultOptions().TimeoutMS
	if a := s.Agents[st.AssignedAgent]; a.TimeoutMS != 0 {
		limit = a.TimeoutMS
	}
	if at, ok := s.Deadline(); ok {
		limit = atMost(max(1, at.Sub(now).Milliseconds()), limit)
	}
	return limit
}

// Born is the first event of a child. It follows from the state of its parent alone, so that whoever makes it makes the
// same.
func Born(s run.State, c *run.Child, digest string) (*events.RunCreatedData, error) {
	a := s.Agents[c.Agent]
	o, err := (&events.Task{}).Resolve(a)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", a.Name, err)
	}
	if a.Autonomy == 0 || o.Autonomy > s.Options.Autonomy {
		o.Autonomy = s.Options.Autonomy
	}
	o.MaxToolCalls, o.TimeoutMS, o.MaxSubAgentDepth = c.Reserve.ToolCalls, c.TimeoutMS, s.Options.MaxSubAgentDepth
	o.CheckpointIntervalMS, o.EternalEngine = s.Options.CheckpointIntervalMS, s.Options.EternalEngine
	if c.Reserve.Tokens > 0 {
		o.MaxTokens = c.Reserve.Tokens
	}
	if c.Reserve.Cost > 0 {
		o.MaxCost = c.Reserve.Cost
	}
	st, own := s.Step(c.Step), s.Created
	b := &events.RunCreatedData{Event: "run_created", TaskID: c.ID, TaskDigest: digest, Task: task(s, st, c),
		Agent: c.Agent, Agents: map[string]events.Agent{c.Agent: a}, Options: o, Prices: s.Prices, Variables: own.Variables,
		Workspace: "run/" + c.ID, WorkflowRun: own.WorkflowRun, Parent: s.HarnessID, WorkID: own.WorkID,
		SessionPrompt: own.SessionPrompt, By: own.By, Project: own.Project, Context: own.Context,
		Durability: own.Durability, TraceParent: own.TraceParent, PlanOrigin: events.OriginSingle, To: events.Created,
		ChildOf: &events.Lineage{Parent: s.HarnessID, Root: c.Root, Depth: c.Depth, Step: c.Step, Attempt: c.Attempt,
			Reserve: c.Reserve}}
	if c.Workspace == events.ChildShared {
		b.Workspace = own.Workspace
	}
	if b.Accept = st.Accept; s.Last(st) {
		b.Accept = st.Accept.Also(own.Accept)
	}
	if a.Plan == "model" {
		b.PlanOrigin = events.OriginModel
	}
	return b, nil
}

// task is what a child is asked to do: the step, with what it may need to know. What other agents wrote is marked as
// theirs.
func task(s run.State, st *run.Step, c *run.Child) string {
	var b strings.Builder
	b.WriteString(st.Description)
	if c.Before != "" {
		fmt.Fprintf(&b, "\n\nAn earlier attempt at this failed. Its error:\n%s", c.Before)
	}
	fmt.Fprintf(&b, "\n\nThis is step %s of a larger task of agent %s. The larger task, for information only:\n%s", st.ID,
		s.AgentName, clip(s.Created.Task, maxShown))
	for _, id := range st.Dependencies {
		if dep := s.Step(id); dep != nil && dep.Kind == "" && dep.Output != "" {
			fmt.Fprintf(&b, "\n\nOutput of step %s, which came before:\n%s", id, clip(dep.Output, maxShown))
		}
	}
	return clip(b.String(), events.MaxTask)
}

// maxShown bounds what a child is shown of the larger task and of each output, in bytes.
const maxShown = 16 << 10

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}

// Settle records the end of a child in its parent; nothing where that is recorded.
func Settle(s run.State, c *run.Child, end run.State) []events.Payload {
	if r := end.Result; r != nil {
		return finished(s, c, events.ChildFinishedData{FinishReason: r.FinishReason, Output: r.Output,
			Error: clip(r.Error, maxError), Use: end.Used(), Artifacts: end.Artifacts.Len(), DurationMS: r.DurationMS,
			Verified: r.Verified}, r.Success)
	}
	return nil
}

// Missing records that a child cannot be carried out, and why. Nothing is known of what was spent, so that all that was
// held for it counts as used.
func Missing(s run.State, c *run.Child, why string) []events.Payload {
	return finished(s, c, events.ChildFinishedData{FinishReason: events.FinishError, Error: clip(why, maxError),
		Use: events.Use{Runs: 1, ToolCalls: c.Reserve.ToolCalls, Lost: events.Lost{Requests: 1, Tokens: c.Reserve.Tokens,
			Cost: c.Reserve.Cost}}}, false)
}

func finished(s run.State, c *run.Child, d events.ChildFinishedData, success bool) []events.Payload {
	now := s.ChildOf(c.Step)
	if s.Status.Ended() || now == nil || now.ID != c.ID || !now.Lives() {
		return nil
	}
	d.ChildRef = events.ChildRef{Event: "sub_agent_finished", Parent: s.HarnessID, Child: c.ID, Step: c.Step,
		Agent: c.Agent, Attempt: c.Attempt, Outcome: events.ChildIsCompleted}
	if !success {
		d.Outcome = events.ChildIsFailed
		d.Retry = c.Attempt < events.MaxChildAttempts && s.Stopping == nil && d.FinishReason != events.FinishStopped
	}
	return []events.Payload{&d}
}

// Close is the end of a step whose last child has ended; nothing before that.
func Close(s run.State, st *run.Step) []events.Payload {
	c := s.ChildOf(st.ID)
	if c == nil || c.Lives() || c.Retry || st.Owed == 0 {
		return nil
	}
	if c.Outcome == events.ChildIsCompleted {
		return []events.Payload{&events.StepFinishedData{Event: "step_finished", Step: st.ID, Output: s.SubAgentResults[c.ID],
			FinishReason: c.FinishReason, Checkpoint: s.NextCheckpoint()}}
	}
	d := &events.StepFailedData{Event: "step_failed", Step: st.ID, Error: c.Error, FinishReason: c.FinishReason,
		RunReason: c.FinishReason, Checkpoint: s.NextCheckpoint()}
	if c.Outcome == events.ChildIsFailed {
		d.Error = fmt.Sprintf("child run %s (attempt %d of %d) failed with %s: %s", c.ID, c.Attempt, events.MaxChildAttempts,
			c.FinishReason, c.Error)
		d.FinishReason, d.RunReason = events.FinishChild, ""
	}
	return []events.Payload{d}
}

// Follow is what a child has to follow of its parent: it stops with it, is paused and resumed with it, and is as careful
// as it has become. A child that a person paused stays paused.
func Follow(parent, s run.State, now time.Time) ([]events.Payload, error) {
	by := lifecycle.Wish{By: "run " + parent.HarnessID, Reason: "its parent is paused: " + parent.PauseReason}
	switch {
	case s.Status.Ended() || s.Sequence == 0 || s.Stopping != nil:
		return nil, nil
	case parent.Status.Ended() || parent.Stopping != nil:
		by.Reason = "its parent is stopping"
		return lifecycle.Stop(s, now, by)
	case parent.Status == events.Paused && s.Status == events.Running:
		say, err := lifecycle.Pause(s, now, by)
		if len(say) == 1 {
			if p, ok := say[0].(*events.RunPausedData); ok {
				p.Parent = true
			}
		}
		return say, err
	case parent.Status == events.Running && s.PausedByParent:
		return lifecycle.Resume(s, by)
	case s.Options.Autonomy > parent.Options.Autonomy:
		return lifecycle.Adjust(s, parent.Options.Autonomy, by)
	}
	return nil, nil
}
