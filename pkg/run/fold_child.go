package run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Child is a run that a step, a call or a review was given to. Shared between states: never written after it was made.
type Child struct {
	ID   string `json:"id"`
	Step string `json:"step"`
	OfCall
	Agent string `json:"agent"`
	// Attempt at what it is for, from 1; Depth below the root of the tree, which is Root.
	Attempt int    `json:"attempt"`
	Depth   int    `json:"depth"`
	Root    string `json:"root"`
	// Workspace is where it works: own, worktree or shared. Before is why the attempt before failed.
	Workspace string `json:"workspace"`
	Before    string `json:"before,omitempty"`
	TimeoutMS int64  `json:"timeoutMs,omitempty"`
	// Reserve is held of the run's budget while the child lives; Use is what it spent.
	Reserve events.Reserve `json:"reserve"`
	Use     events.Use     `json:"use,omitzero"`
	// Outcome is spawned while it lives.
	Outcome string `json:"outcome"`
	ChildEnd
	// Moved is true where it lived when its parent was moved here: it may have stayed where that came from.
	Moved     bool      `json:"moved,omitempty"`
	SpawnedAt time.Time `json:"spawnedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// ChildEnd is what a child came to, empty while it lives.
type ChildEnd struct {
	FinishReason string            `json:"finishReason,omitempty"`
	Error        string            `json:"error,omitempty"`
	Retry        bool              `json:"retry,omitempty"`
	Verified     []events.Verified `json:"verified,omitempty"`
	events.BranchAt
}

// OfCall is what a child is for that does not carry out a whole step.
type OfCall struct {
	// Call of the step that it carries out, or the place of the review that it makes; empty for a step.
	Call string `json:"call,omitempty"`
	// Task is what a call asked for, as long as the child may have to be made for it. Background is true where the call
	// did not wait.
	Task       string `json:"task,omitempty"`
	Background bool   `json:"background,omitempty"`
}

// Lives reports whether the child has not ended as far as its parent knows.
func (c *Child) Lives() bool { return c.Outcome == events.ChildIsSpawned }

// Is reports whether a run is this child of its parent, and not another one that has its id.
func (c *Child) Is(parent string, s State) bool {
	if s.Created == nil || s.Created.ChildOf == nil {
		return false
	}
	l := s.Created.ChildOf
	return l.Parent == parent && l.Step == c.Step && l.Call == c.Call && l.Attempt == c.Attempt && l.Reserve == c.Reserve
}

// Stopping is the end of a run that waits for its children.
type Stopping struct {
	FinishReason string `json:"finishReason"`
	Error        string `json:"error,omitempty"`
	By           string `json:"by,omitempty"`
}

// Halted reports whether the run is paused until somebody resumes it. One that is stopping is paused, too, and ends by
// itself.
func (s *State) Halted() bool { return s.Status == events.Paused && s.Stopping == nil }

// Living are the children that have not ended.
func (s *State) Living() []*Child {
	var living []*Child
	for _, c := range s.Children {
		if c.Lives() {
			living = append(living, c)
		}
	}
	return living
}

// Has reports whether a run is, or was, a child of this one as its log says.
func (s *State) Has(child string) bool {
	return slices.ContainsFunc(s.Children, func(c *Child) bool { return c.ID == child })
}

// ChildOf returns the last child that a step was given to, or nil.
func (s *State) ChildOf(step string) *Child { return s.ChildAt(step, "") }

// ChildAt returns the last child of a call or a review of a step, or nil.
func (s *State) ChildAt(step, call string) *Child {
	for _, c := range slices.Backward(s.Children) {
		if c.Step == step && c.Call == call {
			return c
		}
	}
	return nil
}

// Wanted reports whether what a child is for still waits for it. A child in the background is not waited for; it ends
// with its step, or when that is called done.
func (s *State) Wanted(c *Child) bool {
	st := s.Step(c.Step)
	switch {
	case c.Call == "":
		return true
	case st == nil || st.Status != events.StepIsRunning:
		return false
	case events.IsCheckPlace(c.Call):
		_, place, ok := st.Reviewed()
		return ok && place == c.Call
	case c.Background:
		return !st.Final
	}
	return s.Open[c.Call] != nil
}

// Beside are the children of a step that live in the background.
func (s *State) Beside(step string) (beside []*Child) {
	for _, c := range s.Children {
		if c.Step == step && c.Background && c.Lives() {
			beside = append(beside, c)
		}
	}
	return beside
}

// Depth of the run below the root of its tree, which is returned too: the run itself for one that has no parent.
func (s *State) Depth() (depth int, root string) {
	if s.Created == nil || s.Created.ChildOf == nil {
		return 0, s.HarnessID
	}
	return s.Created.ChildOf.Depth, s.Created.ChildOf.Root
}

// HeldForChildren is the budget that is held for the children that live.
func (s *State) HeldForChildren() events.Reserve {
	var all events.Reserve
	for _, c := range s.Children {
		if c.Lives() {
			all.ToolCalls += c.Reserve.ToolCalls
			all.Tokens += c.Reserve.Tokens
			all.Cost += c.Reserve.Cost
		}
	}
	return all
}

// Below is what the children that have ended spent.
func (s *State) Below() events.Use {
	var all events.Use
	for _, c := range s.Children {
		all = all.Plus(c.Use)
	}
	return all
}

// Own is what the run spent itself.
func (s *State) Own() events.Use {
	return events.Use{Runs: 1, Turns: s.ModelTurns(), ToolCalls: s.TotalToolCalls, InputTokens: s.Tokens.Input,
		OutputTokens: s.Tokens.Output, Cost: s.Cost, Lost: s.Lost}
}

// Used is what the run spent itself, and what was spent below it by children that have ended.
func (s *State) Used() events.Use { return s.Own().Plus(s.Below()) }

// childRules fold the events about children.
var childRules = []rule{
	on(func(s *State, f events.Event, d *events.ChildSpawnedData) string { return s.spawned(d, f.Time) }),
	on(func(s *State, f events.Event, d *events.ChildFinishedData) string {
		return s.childFinished(d, f.Time, f.Sequence)
	}),
	on((*State).stopping),
}

// Post is what may be given to a child: a step, a call of a step, or a review of it.
type Post struct {
	Step, Call string
	// Agent that carries it out, and Workspace where.
	Agent, Workspace string
	// Task of a call, and whether the call does not wait.
	Task       string
	Background bool
}

// Post returns what is to be given to a child; ok is false where nothing of a step waits for one at that place now.
func (s *State) Post(step, call string) (p Post, ok bool) {
	if st := s.Step(step); st != nil {
		return s.PostOf(st, call)
	}
	return Post{Step: step, Call: call}, false
}

// PostOf is Post for a step that was found.
func (s *State) PostOf(st *Step, call string) (p Post, ok bool) {
	step := st.ID
	p = Post{Step: step, Call: call}
	switch {
	case st.Status != events.StepIsRunning:
		return p, false
	case call == "":
		p.Agent, p.Workspace = st.AssignedAgent, st.Child
		return p, st.Child != "" && st.Owed == 0 && (st.Child != events.ChildWorktree || st.Branched != nil)
	case events.IsCheckPlace(call):
		check, place, ok := st.Reviewed()
		p.Agent, p.Workspace = check.Agent, events.ChildReview
		return p, ok && place == call && len(s.Beside(step)) == 0
	}
	if c := s.Open[call]; c != nil && c.Phase == CallDelegated && c.Step == step {
		p.Agent, p.Workspace = c.Delegation.Agent, c.Delegation.Workspace
		p.Task, p.Background = c.Delegation.Task, c.Delegation.Background
		return p, true
	}
	before := s.ChildAt(step, call)
	if before == nil || !before.Background || !before.Retry || !s.Wanted(before) {
		return p, false
	}
	p.Agent, p.Workspace, p.Task, p.Background = before.Agent, before.Workspace, before.Task, true
	return p, true
}

// attemptFault returns why nothing can be given to a child for the given time now, or "".
func (s *State) attemptFault(d events.ChildRef) (Post, string) {
	p, waits := s.Post(d.Step, d.Call)
	before, attempt := s.ChildAt(d.Step, d.Call), 1
	if before != nil {
		attempt = before.Attempt + 1
	}
	switch {
	case d.Parent != s.HarnessID:
		return p, fmt.Sprintf("it is about a child of run %s", d.Parent)
	case before != nil && before.Lives():
		return p, fmt.Sprintf("child %s of %s has not ended", before.ID, d.Place())
	case !waits:
		return p, fmt.Sprintf("%s is not one that waits for a child", d.Place())
	case d.Agent != p.Agent:
		return p, fmt.Sprintf("%s is not agent %s's", d.Place(), d.Agent)
	case d.Attempt != attempt || before != nil && !before.Retry:
		return p, fmt.Sprintf("attempt %d of %s is not due", d.Attempt, d.Place())
	}
	return p, ""
}

func (s *State) spawned(d *events.ChildSpawnedData, at time.Time) string {
	post, fault := s.attemptFault(d.ChildRef)
	if fault != "" {
		return fault
	}
	depth, root := s.Depth()
	switch {
	case s.Status != events.Running:
		return fmt.Sprintf("the run is %s and spawns no children", s.Status)
	case d.Outcome != events.ChildIsSpawned:
		return fmt.Sprintf("its outcome is %q", d.Outcome)
	case d.Child == "" || d.Child == s.HarnessID || slices.ContainsFunc(s.Children, func(c *Child) bool { return c.ID == d.Child }):
		return fmt.Sprintf("child %q is not a new run", d.Child)
	case d.Attempt > events.MaxChildAttempts:
		return fmt.Sprintf("attempt %d, at most %d are made", d.Attempt, events.MaxChildAttempts)
	case d.Depth != depth+1 || d.Root != root || d.Depth > s.Options.MaxSubAgentDepth:
		return fmt.Sprintf("depth %d below %s does not fit depth %d below %s, at most %d", d.Depth, d.Root, depth, root,
			s.Options.MaxSubAgentDepth)
	case d.Workspace != post.Workspace:
		return fmt.Sprintf("%s has workspace %s", d.Place(), post.Workspace)
	}
	if fault := s.reserveFault(d.Reserve); fault != "" {
		return fault
	}
	s.Children = append(slices.Clip(s.Children), &Child{ID: d.Child, Step: d.Step, Agent: d.Agent, Attempt: d.Attempt,
		OfCall: OfCall{Call: d.Call, Task: post.Task, Background: post.Background},
		Depth:  d.Depth, Root: d.Root, Workspace: d.Workspace, Before: d.Error, TimeoutMS: d.TimeoutMS, Reserve: d.Reserve,
		Outcome: events.ChildIsSpawned, SpawnedAt: at})
	s.SubAgentIDs = append(slices.Clip(s.SubAgentIDs), d.Child)
	return ""
}

// reserveFault returns why a reserve is more than what is left of the budget, or "".
func (s *State) reserveFault(r events.Reserve) string {
	used, held := s.Used(), s.HeldForChildren()
	o := s.Options
	switch {
	case r.ToolCalls < 0 || r.ToolCalls > s.BudgetLeft():
		return fmt.Sprintf("it holds %d tool calls and %d are left", r.ToolCalls, s.BudgetLeft())
	case (o.MaxTokens > 0) != (r.Tokens > 0) || o.MaxTokens > 0 && r.Tokens > o.MaxTokens-used.Tokens()-held.Tokens:
		return fmt.Sprintf("it holds %d tokens of a budget of %d, of which %d are used and %d held", r.Tokens, o.MaxTokens,
			used.Tokens(), held.Tokens)
	case (o.MaxCost > 0) != (r.Cost > 0) || o.MaxCost > 0 && r.Cost > o.MaxCost-used.Paid()-held.Cost:
		return fmt.Sprintf("it holds %s of a budget of %s, of which %s are used and %s held", r.Cost, o.MaxCost,
			used.Paid(), held.Cost)
	}
	return ""
}

func (s *State) childFinished(d *events.ChildFinishedData, at time.Time, seq uint64) string {
	var next Child
	switch c := s.ChildAt(d.Step, d.Call); {
	case d.Outcome == events.ChildIsRefused:
		post, fault := s.attemptFault(d.ChildRef)
		if fault != "" {
			return fault
		}
		if d.Child != "" || d.Retry || d.Use != (events.Use{}) {
			return "a child that was refused has no id, no use and no other attempt"
		}
		next = Child{Step: d.Step, Agent: d.Agent, Attempt: d.Attempt, SpawnedAt: at,
			OfCall: OfCall{Call: d.Call, Background: post.Background}}
		s.Children = append(slices.Clip(s.Children), &next)
	case c == nil || !c.Lives() || c.ID != d.Child || c.Attempt != d.Attempt || d.Parent != s.HarnessID:
		return fmt.Sprintf("%q is not the child that %s waits for", d.Child, d.Place())
	case d.Outcome != events.ChildIsCompleted && d.Outcome != events.ChildIsFailed:
		return fmt.Sprintf("its outcome is %q", d.Outcome)
	case d.Retry && (d.Outcome != events.ChildIsFailed || d.Attempt >= events.MaxChildAttempts):
		return fmt.Sprintf("attempt %d that is %s is the last", d.Attempt, d.Outcome)
	case d.Use.Runs < 1 || d.Use.ToolCalls < 0 || d.Use.Tokens() < 0 || d.Use.Paid() < 0 ||
		d.Use.ToolCalls > c.Reserve.ToolCalls:
		return fmt.Sprintf("%d runs and %d tool calls do not fit the %d calls that were held", d.Use.Runs, d.Use.ToolCalls,
			c.Reserve.ToolCalls)
	default:
		next = *c
		s.Children = slices.Clone(s.Children)
		s.Children[slices.Index(s.Children, c)] = &next
		s.SubAgentResults = maps.Clone(s.SubAgentResults)
		if s.SubAgentResults == nil {
			s.SubAgentResults = map[string]string{}
		}
		s.SubAgentResults[d.Child] = d.Output
	}
	next.Outcome, next.FinishReason, next.Error, next.Retry, next.Use = d.Outcome, d.FinishReason, d.Error, d.Retry, d.Use
	next.Verified, next.BranchAt, next.EndedAt = d.Verified, d.BranchAt, at
	if d.Retry {
		return ""
	}
	if next.Task = ""; d.Call != "" {
		return "" // the toolrunner answers the call, or records the review
	}
	return s.step(d.Step, events.StepIsRunning, func(st *Step) { st.Owed = seq })
}

// stopping folds the first half of the end of a run with children: it is paused for good.
func (s *State) stopping(_ events.Event, d *events.RunStoppingData) string {
	switch {
	case s.Stopping != nil:
		return "the run is stopping already"
	case s.Status != events.Running && s.Status != events.Paused || d.From != s.Status:
		return fmt.Sprintf("the run is %s and cannot stop", s.Status)
	case len(s.Living()) == 0:
		return "the run has no children to wait for"
	}
	s.Stopping = &Stopping{FinishReason: d.FinishReason, Error: d.Error, By: d.By}
	s.Status, s.PauseReason, s.Clock.Paused = events.Paused, "stopping: "+d.FinishReason, true
	s.took(d.Input)
	return ""
}

// endFault returns why a run cannot end yet as far as its children go, or "".
func (s *State) endFault(r events.Result) string {
	if living := s.Living(); len(living) > 0 {
		return fmt.Sprintf("its child %s has not ended", living[0].ID)
	}
	if s.Stopping != nil && (r.Success || r.FinishReason != s.Stopping.FinishReason) {
		return fmt.Sprintf("it is stopping (%s) and ends as %s", s.Stopping.FinishReason, r.FinishReason)
	}
	return ""
}

// childless returns why a step that was given to a child cannot end as it says, or "".
func (s *State) childless(step string, done bool) string {
	st := s.Step(step)
	if st == nil || st.Child == "" {
		return ""
	}
	c, tree := s.ChildOf(step), st.Child == events.ChildWorktree
	switch {
	case st.Owed == 0 || c != nil && (c.Lives() || c.Retry):
	case c == nil && tree && st.Branched == nil && !done:
		return "" // there was no commit to begin with
	case c != nil && (done == (c.Outcome == events.ChildIsCompleted) || tree && !done):
		return "" // it says what its child came to, or that the work of that is not merged
	}
	return fmt.Sprintf("step %s ends without its child", step)
}

// unanswered returns why a call cannot end, as one that waits for a child, or "".
func (s *State) unanswered(c Call, success bool) string {
	if c.Phase == CallMailed && (c.Answer == nil || success != c.Answer.Success) {
		return fmt.Sprintf("call %s ends without its answer", c.ID)
	}
	if c.Phase != CallDelegated {
		return ""
	}
	k := s.ChildAt(c.Step, c.ID)
	switch {
	case k == nil || k.Retry && !k.Background || k.Lives() && !k.Background:
		return fmt.Sprintf("call %s ends without its child", c.ID)
	case success && k.Outcome != events.ChildIsCompleted && !(k.Background && k.ID != ""):
		return fmt.Sprintf("call %s succeeds without its child, which is %s", c.ID, k.Outcome)
	}
	return ""
}

// callDelegated folds a call that is left to a child run.
func callDelegated(s *State, f events.Event, d *events.CallDelegatedData) string {
	c, fault := s.open(d.ToolRef, CallAllowed)
	if fault != "" {
		return fault
	}
	st := s.Step(c.Step)
	switch {
	case d.Tool != events.ToolDelegate || st == nil || st.Kind != "":
		return fmt.Sprintf("call %s of tool %s waits for no child", d.Call, d.Tool)
	case d.Attempt != 1:
		return fmt.Sprintf("call %s is delegated as attempt %d", d.Call, d.Attempt)
	}
	if fault := d.Delegation.Fault(s.Agents[st.AssignedAgent]); fault != "" {
		return fault
	}
	asks := d.Delegation
	c.Phase, c.Attempt, c.Fence, c.StartedAt, c.Delegation = CallDelegated, 1, f.Sequence, f.Time, &asks
	s.setOpen(d.Call, &c)
	return ""
}

// disown takes the children out of a state that another run begins with: those that live belong to the run that was
// forked. What was spent below counts as used, and a step that has not completed is given to a child of the fork.
func (s *State) disown() {
	var kept []*Child
	for _, c := range s.Children {
		next := *c
		if c.Lives() {
			continue
		}
		if st := s.Step(c.Step); st == nil || st.Status != events.StepIsCompleted {
			next.Step = "" // its step begins anew
		}
		kept = append(kept, &next)
	}
	s.Children = kept
}
