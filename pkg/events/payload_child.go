package events

import "fmt"

// ChildPrefix is what the ids of child runs begin with. No task of an outsider may have such an id.
const ChildPrefix = "child_"

// Where the run of a plan step that has Child works.
const (
	// ChildOwn is a directory of its own: empty at first, or a clone of the repository that the parent works in, on a
	// branch of its own that no one merges.
	ChildOwn = "own"
	// ChildWorktree is a clone on a branch of its own that begins with what the parent's working tree has when the child
	// is spawned. What the child commits is merged back when it has ended.
	ChildWorktree = "worktree"
	// ChildShared is that of the parent.
	ChildShared = "shared"
)

// MaxChildAttempts is how often a step is given to a child: a failed one is followed by one more.
const MaxChildAttempts = 2

// Outcomes of a child.
const (
	ChildIsSpawned   = "spawned"
	ChildIsCompleted = "completed"
	ChildIsFailed    = "failed"
	// ChildIsRefused says that no run was made: it would be nested too deep, or there is nothing to spend.
	ChildIsRefused = "refused"
)

// Finish reasons of a step that was given to a child.
const (
	// FinishChild: the child failed, as often as it was tried.
	FinishChild = "child_failed"
	// FinishDepth: the child would be nested deeper than the run permits.
	FinishDepth = "sub_agent_depth"
	// FinishConflict: the branch of the child was not merged, because both sides changed the same places.
	FinishConflict = "merge_conflict"
	// FinishToolCalls: no tool call of the budget is left for a child.
	FinishToolCalls = "budget_tool_calls"
)

// Reserve is what a run holds of its budget for a child from child.spawned to child.finished: all that the child may
// spend. Tokens and Cost are 0 where the parent has no budget of them.
type Reserve struct {
	ToolCalls int      `json:"tool_calls"`
	Tokens    int64    `json:"tokens,omitempty"`
	Cost      MicroUSD `json:"cost_micro_usd,omitempty"`
}

// Use is what runs that have ended spent, with all that was spent below them.
type Use struct {
	// Runs is how many there were.
	Runs         int      `json:"runs"`
	Turns        int      `json:"turns"`
	ToolCalls    int      `json:"tool_calls"`
	InputTokens  int      `json:"input_tokens"`
	OutputTokens int      `json:"output_tokens"`
	Cost         MicroUSD `json:"cost_micro_usd,omitempty"`
	Lost         Lost     `json:"lost,omitzero"`
}

// Plus is two uses together.
func (u Use) Plus(v Use) Use {
	u.Runs += v.Runs
	u.Turns += v.Turns
	u.ToolCalls += v.ToolCalls
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.Cost += v.Cost
	u.Lost.Requests += v.Lost.Requests
	u.Lost.Tokens += v.Lost.Tokens
	u.Lost.Cost += v.Lost.Cost
	return u
}

// Tokens are all tokens of a use, with those of requests that were lost.
func (u Use) Tokens() int64 { return int64(u.InputTokens) + int64(u.OutputTokens) + u.Lost.Tokens }

// Paid is all money of a use, with that of requests that were lost.
func (u Use) Paid() MicroUSD { return u.Cost + u.Lost.Cost }

// ChildRef names a child and what it is for.
type ChildRef struct {
	Event string `json:"event"`
	// Parent is the run that the event is of, Child the id of the other one; it is empty where none was made.
	Parent string `json:"parent_run_id"`
	Child  string `json:"sub_agent_id"`
	// Outcome is spawned, completed, failed or refused.
	Outcome string `json:"outcome"`
	Step    string `json:"step_id"`
	// Call is the call of the step that the child carries out, or the place of the review that it makes; empty where it
	// carries out the whole step.
	Call  string `json:"tool_id,omitempty"`
	Agent string `json:"agent"`
	// Attempt at the step, call or review, from 1 to MaxChildAttempts.
	Attempt int `json:"attempt"`
}

// Place says in words what the child is for.
func (r ChildRef) Place() string {
	switch {
	case r.Call == "":
		return "step " + r.Step
	case IsCheckPlace(r.Call):
		return "review " + r.Call + " of step " + r.Step
	}
	return "call " + r.Call + " of step " + r.Step
}

// ChildSpawnedData says that a step is carried out by a run of its own, and holds what that may spend.
type ChildSpawnedData struct {
	ChildRef
	// Root is the run at the top of the tree; Depth of the child below it, from 1.
	Root  string `json:"root_run_id"`
	Depth int    `json:"depth"`
	// Workspace is where it works: own, worktree or shared.
	Workspace string  `json:"workspace"`
	Reserve   Reserve `json:"reserve"`
	// TimeoutMS bounds the life of the child, in milliseconds; 0 means no limit.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Error is why the attempt before failed; the child reads it.
	Error string `json:"error,omitempty"`
}

// ChildFinishedData says how a child ended and what it spent. What was held for it is free from then on.
type ChildFinishedData struct {
	ChildRef
	FinishReason string `json:"finish_reason"`
	Output       string `json:"output,omitempty"`
	Error        string `json:"error,omitempty"`
	// Retry says that the step is tried once more.
	Retry bool `json:"retry,omitempty"`
	Use   Use  `json:"use"`
	// Artifacts that the child stored; they are found under its id.
	Artifacts  int   `json:"artifacts,omitempty"`
	DurationMS int64 `json:"duration_ms"`
	// Verified are the checks that vouch for the child.
	Verified []Verified `json:"verified,omitempty"`
	BranchAt
}

// BranchAt is the branch that a child in git left its work on, and the commit that it is at. It is published where
// branches of its parent are; both are empty where the child has no commits of its own.
type BranchAt struct {
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// StepBranchedData says with which commit the child of a step begins that is given to one in a worktree: what was in
// the working tree of the run is committed and published.
type StepBranchedData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	// Branch of the run, and its commit.
	BranchAt
}

// Lineage is where a child comes from. Only services set it: it decides whose budget is spent.
type Lineage struct {
	Parent  string  `json:"run_id"`
	Root    string  `json:"root_run_id"`
	Depth   int     `json:"depth"`
	Step    string  `json:"step_id"`
	Call    string  `json:"tool_id,omitempty"`
	Attempt int     `json:"attempt"`
	Reserve Reserve `json:"reserve"`
	// Session whose grants hold for the whole tree, and the fence of the lock that the run has on it whose children they
	// are. The child has no lock of its own and adds nothing to the session; empty for a tree that works in none.
	Session      string `json:"session_id,omitempty"`
	SessionFence uint64 `json:"session_fence,omitempty"`
	// Trace is the trace of the tree and the span of what the run carries out, in the form of traceparent.
	Trace string `json:"trace,omitempty"`
	// Base is the commit that the run began with whose working tree the child shares: files that decide about checks are
	// as they were there. Empty for a child with files of its own, and where there is no commit.
	Base string `json:"base,omitempty"`
}

// GrantSession returns the session whose grants hold for a run, and the fence of the lock under which it works in it:
// its own, or that of the tree that it is a child in.
func (d *RunCreatedData) GrantSession() (session string, fence uint64) {
	switch {
	case d == nil:
		return "", 0
	case d.Session == "" && d.ChildOf != nil:
		return d.ChildOf.Session, d.ChildOf.SessionFence
	}
	return d.Session, d.SessionFence
}

// RunStoppingData says that a run is to end once its children have: nothing new is permitted in it from now on.
type RunStoppingData struct {
	Event string `json:"event"`
	From  Status `json:"from"`
	To    Status `json:"to"`
	// FinishReason and Error are those that the run will end with.
	FinishReason string `json:"finish_reason"`
	Error        string `json:"error,omitempty"`
	By           string `json:"by,omitempty"`
	// Input is the position of the message that stopped it, 0 where none did.
	Input uint64 `json:"input_seq,omitempty"`
	// Children that are asked to stop.
	Children []string `json:"sub_agent_ids"`
}

// Kind implements Payload.
func (*ChildSpawnedData) Kind() Kind { return ChildSpawned }

// Kind implements Payload.
func (*ChildFinishedData) Kind() Kind { return ChildFinished }

// Kind implements Payload.
func (*StepBranchedData) Kind() Kind { return StepBranched }

func (d *StepBranchedData) line() string {
	return fmt.Sprintf("step %s is branched off %s at %.12s", d.Step, d.Branch, d.Commit)
}

// Kind implements Payload.
func (*RunStoppingData) Kind() Kind { return RunStopping }

func (d *ChildSpawnedData) line() string {
	text := fmt.Sprintf("%s is given to agent %s as child run %s, depth %d", d.Place(), d.Agent, d.Child, d.Depth)
	if d.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d after: %s", d.Attempt, shorten(d.Error))
	}
	return text
}

func (d *RunStoppingData) line() string {
	return fmt.Sprintf("run is stopping (%s) and waits for %d of its children to end", d.FinishReason, len(d.Children))
}
