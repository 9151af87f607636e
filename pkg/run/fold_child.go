package run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Child is a run that a step was given to. Shared between states: never written after it was made.
type Child struct {
	ID    string `json:"id"`
	Step  string `json:"step"`
	Agent string `json:"agent"`
	// Attempt of the step, from 1; Depth below the root of the tree, which is Root.
	Attempt int    `json:"attempt"`
	Depth   int    `json:"depth"`
	Root    string `json:"root"`
	// Workspace is where it works: own or shared. Before is why the attempt before failed.
	Workspace string `json:"workspace"`
	Before    string `json:"before,omitempty"`
	TimeoutMS int64  `json:"timeoutMs,omitempty"`
	// Reserve is held of the run's budget while the child lives; Use is what it spent.
	Reserve events.Reserve `json:"reserve"`
	Use     events.Use     `json:"use,omitzero"`
	// Outcome is spawned while it lives.
	Outcome      string            `json:"outcome"`
	FinishReason string            `json:"finishReason,omitempty"`
	Error        string            `json:"error,omitempty"`
	Retry        bool              `json:"retry,omitempty"`
	Verified     []events.Verified `json:"verified,omitempty"`
	// Moved is true where it lived when its parent was moved here: it may have stayed where that came from.
	Moved     bool      `json:"moved,omitempty"`
	SpawnedAt time.Time `json:"spawnedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// Lives reports whether the child has not ended as far as its parent knows.
func (c *Child) Lives() bool { return c.Outcome == events.ChildIsSpawned }

// Is reports whether a run is this child of its parent, and not another one that has its id.
func (c *Child) Is(parent string, s State) bool {
	if s.Created == nil || s.Created.ChildOf == nil {
		return false
	}
	l := s.Created.ChildOf
	return l.Parent == parent && l.Step == c.Step && l.Attempt == c.Attempt && l.Reserve == c.Reserve
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

// ChildOf returns the last child of a step, or nil.
func (s *State) ChildOf(step string) *Child {
	for _, c := range slices.Backward(s.Children) {
		if c.Step == step {
			return c
		}
	}
	return nil
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

// attemptFault returns why a step cannot be given to a child for the given time now, or "".
func (s *State) attemptFault(d events.ChildRef) string {
	st, before := s.Step(d.Step), s.ChildOf(d.Step)
	attempt := 1
	if before != nil {
		attempt = before.Attempt + 1
	}
	switch {
	case d.Parent != s.HarnessID:
		return fmt.Sprintf("it is about a child of run %s", d.Parent)
	case st == nil || st.Child == "" || st.Status != events.StepIsRunning || st.Owed != 0:
		return fmt.Sprintf("step %s is not one that waits for a child", d.Step)
	case d.Agent != st.AssignedAgent:
		return fmt.Sprintf("step %s is not agent %s's", d.Step, d.Agent)
	case before != nil && before.Lives():
		return fmt.Sprintf("child %s of step %s has not ended", before.ID, d.Step)
	case d.Attempt != attempt || before != nil && !before.Retry:
		return fmt.Sprintf("attempt %d of step %s is not due", d.Attempt, d.Step)
	}
	return ""
}

func (s *State) spawned(d *events.ChildSpawnedData, at time.Time) string {
	if fault := s.attemptFault(d.ChildRef); fault != "" {
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
	case d.Workspace != s.Step(d.Step).Child:
		return fmt.Sprintf("step %s has workspace %s", d.Step, s.Step(d.Step).Child)
	}
	if fault := s.reserveFault(d.Reserve); fault != "" {
		return fault
	}
	s.Children = append(slices.Clip(s.Children), &Child{ID: d.Child, Step: d.Step, Agent: d.Agent, Attempt: d.Attempt,
		Depth: d.Depth, Root: d.Root, Workspace: d.Workspace, Before: d.Error, TimeoutMS: d.TimeoutMS, Reserve: d.Reserve,
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
	switch c := s.ChildOf(d.Step); {
	case d.Outcome == events.ChildIsRefused:
		if fault := s.attemptFault(d.ChildRef); fault != "" {
			return fault
		}
		if d.Child != "" || d.Retry || d.Use != (events.Use{}) {
			return "a child that was refused has no id, no use and no other attempt"
		}
		next = Child{Step: d.Step, Agent: d.Agent, Attempt: d.Attempt, SpawnedAt: at}
		s.Children = append(slices.Clip(s.Children), &next)
	case c == nil || !c.Lives() || c.ID != d.Child || c.Attempt != d.Attempt || d.Parent != s.HarnessID:
		return fmt.Sprintf("%q is not the child that step %s waits for", d.Child, d.Step)
	case d.Outcome != events.ChildIsCompleted && d.Outcome != events.ChildIsFailed:
		return fmt.Sprintf("its outcome is %q", d.Outcome)
	case d.Retry && (d.Outcome != events.ChildIsFailed || d.Attempt >= events.MaxChildAttempts):
		return fmt.Sprintf("attempt %d that is %s is the last", d.Attempt, d.Outcome)
	case d.Use.Runs < 1 || d.Use.ToolCalls < 0 || d.Use.Tokens() < 0 || d.Use.Paid() < 0 || d.Use.ToolCalls > c.Reserve.ToolCalls:
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
	next.Verified, next.EndedAt = d.Verified, at
	if d.Retry {
		return ""
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
	c := s.ChildOf(step)
	if c == nil || c.Lives() || c.Retry || st.Owed == 0 || done != (c.Outcome == events.ChildIsCompleted) {
		return fmt.Sprintf("step %s ends without its child", step)
	}
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
