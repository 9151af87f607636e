package run

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// kindFault returns what is wrong with the kind of a step, or "". A step of the harness stands in a run that works in
// git, and has the id that no other may have.
func (s *State) kindFault(st events.PlanStep) string {
	want := map[events.StepKind]string{events.StepCheckout: events.CheckoutStep, events.StepDeliver: events.DeliverStep,
		events.StepCommit: ""}
	id, known := want[st.Kind]
	switch {
	case st.Child == events.ChildWorktree && (s.Created == nil || s.Created.Git == nil):
		return fmt.Sprintf("step %s is given to a child in a worktree, and the run does not work in git", st.ID)
	case st.Child != "" && (st.Kind != "" || st.Child != events.ChildOwn && st.Child != events.ChildShared &&
		st.Child != events.ChildWorktree):
		return fmt.Sprintf("step %s is given to a child of the kind %q, which this program does not know: a newer service wrote it, upgrade this one", st.ID, st.Child)
	case st.Kind == "":
		return ""
	case !known:
		return fmt.Sprintf("step %s is of the kind %q, which this program does not know: a newer service wrote it, upgrade this one", st.ID, st.Kind)
	case st.ID != id && (st.Kind != events.StepCommit || !strings.HasPrefix(st.ID, events.CommitStepPrefix)) ||
		s.Created == nil || s.Created.Git == nil:
		return fmt.Sprintf("step %s cannot be of the kind %s in this run", st.ID, st.Kind)
	}
	return ""
}

// Follows reports whether a step may begin as far as one that it depends on goes: that is complete. What a run delivers
// it delivers once all is over, whatever came of it.
func (st *Step) Follows(on *Step) bool {
	over := on.Status == events.StepIsFailed || on.Status == events.StepIsBlocked
	always := st.Kind == events.StepDeliver && on.Kind != events.StepCheckout || st.Flow != nil && st.Flow.Always
	return on.Status == events.StepIsCompleted || on.Status == events.StepIsSkipped || over && (always || on.Spared() &&
		on.Status == events.StepIsFailed)
}

// Harness reports whether the calls of a step are those of the harness: it asks no model. So it is with the steps of
// the harness, and where a child in a worktree begins and its work is merged.
func (st *Step) Harness() bool { return st.Kind != "" || st.Child == events.ChildWorktree }

// branched folds what the child of a step begins with: from then on the child takes the turns.
func (s *State) branched(_ events.Event, d *events.StepBranchedData) string {
	switch st := s.Step(d.Step); {
	case st == nil || st.Child != events.ChildWorktree || st.Branched != nil || st.Owed == 0:
		return fmt.Sprintf("step %s is not one that is branched for a child now", d.Step)
	case d.Branch == "" || d.Commit == "":
		return fmt.Sprintf("step %s is branched without a branch or a commit", d.Step)
	}
	return s.step(d.Step, events.StepIsRunning, func(st *Step) {
		at := d.BranchAt
		st.Branched, st.Owed = &at, 0
	})
}

// again lets a step of the harness be carried out once more, in a run that was forked: its working tree is another one,
// or there will be more to deliver. What it did before stays in the history.
func (st *Step) again() {
	st.Status, st.Output, st.Error, st.RunReason, st.Turns, st.Final = events.StepIsPending, "", "", "", 0, false
}
