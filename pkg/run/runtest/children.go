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

// TreeStep is a step that is given to a child in a worktree.
func TreeStep(id string, after ...string) events.PlanStep {
	st := Step(id, after...)
	st.Child = events.ChildWorktree
	return st
}

// GitCreated creates a run that works in git.
func GitCreated() *events.RunCreatedData {
	c := Created()
	c.Git = &events.GitWork{NewBranch: "agent/worker/r", Collaboration: events.Sequential, AutoCommit: true}
	return c
}

// Branched says what the child of a step in a worktree begins with.
func Branched(step string) *events.StepBranchedData {
	return &events.StepBranchedData{Event: eventOf(events.StepBranched), Step: step,
		BranchAt: events.BranchAt{Branch: "agent/worker/r", Commit: "1111111111111111111111111111111111111111"}}
}

// Spawned gives a step to a child that may spend so much.
func Spawned(s run.State, step string, r events.Reserve) *events.ChildSpawnedData {
	return SpawnedAt(s, step, "", r)
}

// SpawnedAt gives a step, or a call or a review of it, to a child that may spend so much.
func SpawnedAt(s run.State, step, call string, r events.Reserve) *events.ChildSpawnedData {
	p, _ := s.Post(step, call)
	d := &events.ChildSpawnedData{ChildRef: childRef(s, step, call, events.ChildSpawned), Reserve: r}
	depth, root := s.Depth()
	d.Child, d.Outcome, d.Root, d.Depth, d.Workspace = fmt.Sprintf("%s%s%s-%d", events.ChildPrefix, step, call, d.Attempt),
		events.ChildIsSpawned, root, depth+1, p.Workspace
	if d.Attempt > 1 {
		d.Error = s.ChildAt(step, call).Error
	}
	return d
}

func childRef(s run.State, step, call string, k events.Kind) events.ChildRef {
	p, _ := s.Post(step, call)
	ref := events.ChildRef{Event: eventOf(k), Parent: s.HarnessID, Step: step, Call: call, Agent: p.Agent, Attempt: 1}
	if c := s.ChildAt(step, call); c != nil && c.Lives() {
		ref.Child, ref.Attempt, ref.Agent = c.ID, c.Attempt, c.Agent
	} else if c != nil {
		ref.Attempt = c.Attempt + 1
	}
	return ref
}

// ChildEnd settles the child that a step waits for.
func ChildEnd(s run.State, step, outcome string, retry bool, use events.Use) *events.ChildFinishedData {
	return ChildEndAt(s, step, "", outcome, retry, use)
}

// ChildEndAt settles the child of a step, or of a call or a review of it. A reviewer passes what it reviews.
func ChildEndAt(s run.State, step, call, outcome string, retry bool, use events.Use) *events.ChildFinishedData {
	d := &events.ChildFinishedData{ChildRef: childRef(s, step, call, events.ChildFinished), Retry: retry, Use: use,
		FinishReason: events.FinishDone, Output: "output of " + step, DurationMS: 30}
	if events.IsCheckPlace(call) {
		d.Output = `{"verdict":"pass","reasons":["it is good"]}`
	}
	if d.Outcome = outcome; outcome != events.ChildIsCompleted {
		d.FinishReason, d.Output, d.Error = events.FinishError, "", "it broke"
	}
	return d
}

// GivingCreated creates a run whose agent can give work to another one.
func GivingCreated() *events.RunCreatedData {
	c := Created()
	a := Agent("worker", "read", "bash", events.ToolDelegate)
	a.Delegates = []string{"helper"}
	c.Agents = map[string]events.Agent{"worker": a, "helper": Agent("helper", "read")}
	return c
}

// ReviewedCreated creates a run whose work another agent reviews.
func ReviewedCreated() *events.RunCreatedData {
	c := GivingCreated()
	c.Accept = &events.Accept{MaxAttempts: 2,
		Checks: []events.Check{{Kind: events.CheckReview, Agent: "helper", Rubric: "be strict"}}}
	return c
}

// Given leaves a call to a child.
func Given(ref events.ToolRef, background bool) *events.CallDelegatedData {
	return &events.CallDelegatedData{Event: eventOf(events.CallDelegated), ToolRef: ref, Attempt: 1, Effect: "idempotent",
		Delegation: events.Delegation{Agent: "helper", Task: "help", Workspace: events.ChildOwn, Background: background}}
}

// StoppingFor is the first half of the end of a run with children.
func StoppingFor(s run.State, reason string) *events.RunStoppingData {
	d := &events.RunStoppingData{Event: eventOf(events.RunStopping), From: s.Status, To: events.Paused,
		FinishReason: reason}
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
	m := []events.Payload{ChildEndAt(s, c.Step, c.Call, events.ChildIsCompleted, false, use),
		ChildEndAt(s, c.Step, c.Call, events.ChildIsFailed, false, use)}
	if c.Attempt < events.MaxChildAttempts {
		m = append(m, ChildEndAt(s, c.Step, c.Call, events.ChildIsFailed, true, use))
	}
	return m
}

// besides are the ends of children that calls and reviews were given to.
func besides(s run.State) (m []events.Payload) {
	for _, c := range s.Living() {
		if c.Call != "" {
			m = append(m, childEnds(s, c)...)
		}
	}
	return m
}

// delegatedMoves are what may happen to a call that waits for a child.
func delegatedMoves(s run.State, c *run.Call) []events.Payload {
	ref := Ref(c.Step, c.ID, c.Tool)
	k := s.ChildAt(c.Step, c.ID)
	switch {
	case k == nil || k.Retry && !k.Background:
		return spawns(s, c.Step, c.ID)
	case k.Lives() && !k.Background:
		return nil
	case k.Outcome == events.ChildIsCompleted || k.Background && k.ID != "":
		return []events.Payload{CallDone(ref, c.Fence, "the helper did it")}
	}
	no := CallDone(ref, c.Fence, k.Error)
	no.Success = false
	return []events.Payload{no}
}

// childMoves are what may happen to a step that is given to a child.
func childMoves(s run.State, st *run.Step) []events.Payload {
	c, tree := s.ChildOf(st.ID), st.Child == events.ChildWorktree
	switch {
	case tree && st.Owed > 0 && st.Branched == nil:
		n, bad := s.Turns().Len()+1, StepBad(st.ID, "there is no commit")
		bad.Checkpoint = s.NextCheckpoint()
		return []events.Payload{Branched(st.ID), bad, Turn(n, st.ID, "", Asked(n, 1, events.GitCommit, `{"message":"before"}`))}
	case c != nil && c.Lives():
		return childEnds(s, c)
	case st.Owed > 0 && c.Outcome == events.ChildIsCompleted:
		done := StepDone(st.ID, s.SubAgentResults[c.ID])
		done.Checkpoint = s.NextCheckpoint()
		if !tree {
			return []events.Payload{done}
		}
		n, bad := s.Turns().Len()+1, StepBad(st.ID, "a conflict")
		bad.Checkpoint = s.NextCheckpoint()
		return []events.Payload{done, bad, Turn(n, st.ID, "", Asked(n, 1, events.GitMerge, `{"from":["agent/helper/x"]}`))}
	case st.Owed > 0:
		bad := StepBad(st.ID, c.Error)
		bad.Checkpoint = s.NextCheckpoint()
		return []events.Payload{bad}
	case c != nil && !c.Retry:
		return nil // what it did is being merged
	}
	return spawns(s, st.ID, "")
}

// spawns are what may be given to a child now.
func spawns(s run.State, step, call string) []events.Payload {
	if _, ok := s.Post(step, call); !ok || s.Status != events.Running {
		return nil
	}
	no := ChildEndAt(s, step, call, events.ChildIsRefused, false, events.Use{})
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
	return []events.Payload{no, SpawnedAt(s, step, call, r)}
}
