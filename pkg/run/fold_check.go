package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Claim is one time that the agent of a step called it done. Shared between states: never written after it was made.
type Claim struct {
	// Number of the claim within its step, from 1, of at most Most; Turns of the step when it was made.
	Number int `json:"number"`
	Most   int `json:"most"`
	Turns  int `json:"turns"`
	// Checks that decide, and how many of them have passed, in their order. Tree is what they have checked.
	Checks []events.Check `json:"checks"`
	Passed int            `json:"passed,omitempty"`
	Tree   string         `json:"tree,omitempty"`
	// GitTree is the tree that a commit of these files has, in a run that works in git.
	GitTree string `json:"git_tree,omitempty"`
	// Protect are the patterns of files that commands find as they were when the run began.
	Protect []string `json:"protect,omitempty"`
	// Failed is why one of them did not pass; empty where none failed.
	Failed string `json:"failed,omitempty"`
}

// Open reports whether checks of the claim are still to come.
func (c *Claim) Open() bool { return c != nil && c.Failed == "" && c.Passed < len(c.Checks) }

// Claimed is the claim of a step that its last turn made; nil where it has made none, or needs none.
func (st *Step) Claimed() *Claim {
	if st.Claim == nil || st.Claim.Turns != st.Turns {
		return nil
	}
	return st.Claim
}

// AcceptOf is what decides that a step is done: the checks of its agent, its own, and those of the run where no step of
// an agent depends on it. It is nil where the agent alone decides. Steps of the harness have none.
func (s *State) AcceptOf(st *Step) *events.Accept {
	if st == nil || !st.Works() || st.Child != "" { // a child has its checks itself
		return nil
	}
	own := s.Agents[st.AssignedAgent].Accept.Also(st.Accept)
	if st.Flow.Checks() {
		own = st.Accept // its agent does nothing
	}
	if s.Created == nil || s.Created.Accept == nil || !s.Last(st) {
		return own.Deciding(nil)
	}
	return own.Deciding(s.Created.Accept)
}

// Said is the text of the last turn of a step; empty where it is not in the log but in an object.
func (s *State) Said(step string) string {
	for _, t := range Backward(s.Turns()) {
		if t.Step == step {
			return t.Text
		}
	}
	return ""
}

// Last reports whether a step is one of an agent on which no other step of an agent depends.
func (s *State) Last(st *Step) bool {
	if !st.Works() {
		return false
	}
	id := st.ID
	for whole := st; whole != nil && whole.Part != nil; whole = s.Step(id) {
		id = whole.Part.Of // a part is last where all of it is
		if s.looks(id) {
			return false // an agent that looks does not do the work of the task
		}
	}
	return s.last(id)
}

// looks reports whether the parts of a step are looks of its agent at what it waits for.
func (s *State) looks(id string) bool {
	st := s.Step(id)
	return st != nil && st.Flow != nil && st.Flow.Wake != nil
}

// last is Last for the id of a step that is no part. Steps without an agent are looked through: what comes behind them
// counts.
func (s *State) last(id string) bool {
	seen := map[string]bool{id: true}
	for open := []string{id}; len(open) > 0; open = open[1:] {
		for _, other := range s.Plan.Steps {
			if other.Kind != "" || other.Part != nil || seen[other.ID] || !slices.Contains(other.Dependencies, open[0]) {
				continue
			}
			if other.Works() && (other.Flow == nil || !other.Flow.Always) {
				return false
			}
			seen[other.ID] = true
			open = append(open, other.ID)
		}
	}
	return true
}

// checkRules fold the events about claims and their checks.
var checkRules = []rule{
	on(func(s *State, _ events.Event, d *events.StepClaimedData) string { return s.claimed(d) }),
	on(func(s *State, _ events.Event, d *events.CheckPassedData) string {
		return s.checked(d.CheckResult, func(_ *Step, c *Claim) string {
			if d.Tree == "" || c.Tree != "" && d.Tree != c.Tree {
				return fmt.Sprintf("it checked tree %q, the claim is about %q", d.Tree, c.Tree)
			}
			if c.GitTree != "" && d.GitTree != c.GitTree {
				return fmt.Sprintf("a commit of what it checked has tree %q, the claim is about %q", d.GitTree, c.GitTree)
			}
			if g := s.GateFor(d.Step, events.CheckPlace(d.Claim, d.Check)); d.CheckKind == events.CheckPerson &&
				(g == nil || g.Status != GateApproved || g.ID != d.Gate) {
				return "no person has approved it"
			}
			if d.CheckKind == events.CheckReview && !s.reviewed(d.CheckResult) {
				return "no reviewer has passed it"
			}
			c.Passed, c.Tree, c.GitTree = c.Passed+1, d.Tree, d.GitTree
			return ""
		})
	}),
	on(func(s *State, f events.Event, d *events.CheckFailedData) string {
		fault := s.checked(d.CheckResult, func(st *Step, c *Claim) string {
			if d.Tree != "" && c.Tree != "" && d.Tree != c.Tree {
				return fmt.Sprintf("it checked tree %q, the claim is about %q", d.Tree, c.Tree)
			}
			if c.Failed = d.Reason; c.Failed == "" {
				return "it gives no reason"
			}
			if c.Number < c.Most {
				st.Final, st.Owed = false, f.Sequence
			}
			return ""
		})
		if st := s.Step(d.Step); fault == "" && st.Owed == f.Sequence {
			s.Messages = slices.Clip(s.Messages)
			s.addMessage(d.Step, checkMessage(d, st.Claim))
		}
		return fault
	}),
}

// reviewed reports whether the child that a check names was made for it, and gave the verdict pass.
func (s *State) reviewed(d events.CheckResult) bool {
	c := s.ChildAt(d.Step, events.CheckPlace(d.Claim, d.Check))
	if c == nil || c.ID != d.Child || c.Outcome != events.ChildIsCompleted {
		return false
	}
	v, err := events.ReadVerdict(s.SubAgentResults[c.ID])
	return err == nil && v.Verdict == events.VerdictPass
}

// checkMessage is what the agent reads of a check that failed.
func checkMessage(d *events.CheckFailedData, c *Claim) string {
	text := fmt.Sprintf("The step is not done: acceptance check %d of %d failed (claim %d of %d).\nCheck: %s\nReason: %s",
		d.Check, len(c.Checks), c.Number, c.Most, d.Name, d.Reason)
	if len(d.Restored) > 0 {
		text += "\nProtected files, which were as at the beginning of the run for this check: " + strings.Join(d.Restored,
			", ")
	}
	if d.Output != "" {
		text += "\nEnd of its output:\n" + d.Output
	}
	if d.Note != "" {
		text += "\nNote: " + d.Note
	}
	return text
}

func (s *State) claimed(d *events.StepClaimedData) string {
	st := s.Step(d.Step)
	want := s.AcceptOf(st)
	switch {
	case st == nil || st.Status != events.StepIsRunning || !st.Final:
		return fmt.Sprintf("step %s has no last turn that could claim it", d.Step)
	case want == nil:
		return fmt.Sprintf("step %s has no checks", d.Step)
	case st.Claimed() != nil:
		return fmt.Sprintf("step %s is claimed already", d.Step)
	case !slices.EqualFunc(d.Checks, want.Checks, events.Check.Equal) || !slices.Equal(d.Protect, want.Protect) ||
		d.Most != want.Attempts():
		return "its checks are not those that decide about the step"
	case d.Turns != st.Turns || d.Claim != st.claims()+1 || d.Claim > d.Most:
		return fmt.Sprintf("claim %d after %d turns does not follow claim %d", d.Claim, d.Turns, st.claims())
	}
	return s.step(d.Step, events.StepIsRunning, func(st *Step) {
		st.Claim = &Claim{Number: d.Claim, Most: d.Most, Turns: d.Turns, Checks: d.Checks,
			Protect: d.Protect}
	})
}

func (st *Step) claims() int {
	if st.Claim == nil {
		return 0
	}
	return st.Claim.Number
}

// Asks returns the check of a step that waits for a person, or for what follows from the answer.
func (st *Step) Asks() (check events.Check, place string, ok bool) {
	c := st.Claimed()
	if !c.Open() || st.Status != events.StepIsRunning || c.Checks[c.Passed].Kind != events.CheckPerson {
		return check, "", false
	}
	return c.Checks[c.Passed], events.CheckPlace(c.Number, c.Passed+1), true
}

// Reviewed returns the check of a step that waits for the verdict of another agent.
func (st *Step) Reviewed() (check events.Check, place string, ok bool) {
	c := st.Claimed()
	if !c.Open() || st.Status != events.StepIsRunning || c.Checks[c.Passed].Kind != events.CheckReview {
		return check, "", false
	}
	return c.Checks[c.Passed], events.CheckPlace(c.Number, c.Passed+1), true
}

// checked folds the result of the next check of an open claim into a copy of it.
func (s *State) checked(d events.CheckResult, change func(st *Step, c *Claim) string) string {
	fault := ""
	outer := s.step(d.Step, events.StepIsRunning, func(st *Step) {
		c := st.Claimed()
		switch {
		case c == nil || d.Claim != c.Number:
			fault = fmt.Sprintf("claim %d of step %s is not the current one", d.Claim, d.Step)
		case !c.Open() || d.Check != c.Passed+1:
			fault = fmt.Sprintf("check %d of claim %d is not open", d.Check, d.Claim)
		case c.Checks[c.Passed].Kind != d.CheckKind:
			fault = fmt.Sprintf("check %d is of kind %s", d.Check, c.Checks[c.Passed].Kind)
		default:
			next := *c
			fault = change(st, &next)
			st.Claim = &next
		}
	})
	if outer != "" {
		return outer
	}
	return fault
}

// unverified returns why a step cannot be finished as far as its checks go, or "".
func (s *State) unverified(id string) string {
	st := s.Step(id)
	if st == nil {
		return ""
	}
	c := st.Claimed()
	switch {
	case c == nil && s.AcceptOf(st) != nil:
		return fmt.Sprintf("step %s has checks and was not claimed", id)
	case c != nil && c.Failed != "":
		return fmt.Sprintf("a check of step %s failed", id)
	case c.Open():
		return fmt.Sprintf("a check of step %s is open", id)
	}
	return ""
}
