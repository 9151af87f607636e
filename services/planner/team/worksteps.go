package team

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// follower keeps a work item for each step of a formula and has it follow the step. All of it follows from the log of
// the run: whatever one planner leaves undone, whoever handles the next event of the run does. What it remembers only
// saves looks at items that are up to date.
type follower struct {
	*Assigner
	mu   sync.Mutex
	seen map[string]*followed
}

// followed is a run whose items are kept. Its fields are guarded by the mutex of the follower, but for known, which is
// of whoever is at it.
type followed struct {
	busy, again bool
	// known is what the items of its steps were brought to.
	known map[string]events.WorkStep
}

// maxFollowed bounds how many runs are remembered.
const maxFollowed = 256

// newFollower returns nil where the planner has no work items.
func newFollower(a *Assigner) *follower {
	if a == nil {
		return nil
	}
	return &follower{Assigner: a, seen: map[string]*followed{}}
}

// follow brings the items of a run up to its log. Where another message of the run is at that, it does this one's, too:
// if it does not come to its end it is delivered again.
func (f *follower) follow(ctx context.Context, id string) error {
	if f == nil {
		return nil
	}
	s, err := f.runs.State(ctx, id)
	if err != nil || !tracked(s) {
		return err
	}
	f.mu.Lock()
	of := f.seen[id]
	if of == nil {
		if len(f.seen) >= maxFollowed {
			clear(f.seen)
		}
		of = &followed{known: map[string]events.WorkStep{}}
		f.seen[id] = of
	}
	if of.again = of.busy; of.busy {
		f.mu.Unlock()
		return nil
	}
	of.busy = true
	f.mu.Unlock()
	for {
		err := f.bring(ctx, id, of)
		f.mu.Lock()
		if err != nil || !of.again {
			of.busy = false
			f.mu.Unlock()
			return err
		}
		of.again = false
		f.mu.Unlock()
	}
}

// bring makes one pass over the steps of a run.
func (f *follower) bring(ctx context.Context, id string, of *followed) error {
	s, err := f.runs.State(ctx, id)
	if err != nil {
		return err
	}
	for _, spec := range steps(s) {
		was, seen := of.known[spec.Step]
		now := spec.WorkStep
		now.Sequence = 0
		if seen && was == now {
			continue
		}
		name := f.names.StepItem(id, spec.Step)
		item, err := f.Change(ctx, name, func(item work.State) (work.State, error) {
			return work.Follow(item, name, spec, f.Now().UTC()), nil
		})
		if err == nil {
			err = (convoys{f.Assigner}).look(ctx, item)
		}
		if err != nil {
			return fmt.Errorf("work item of step %s of run %s: %w", spec.Step, id, err)
		}
		of.known[spec.Step] = now
	}
	return nil
}

// tracked reports whether each step of a run has a work item: those of the plan of a formula that is not inline.
func tracked(s run.State) bool {
	return s.Created != nil && s.Created.Formula != nil && s.Plan != nil && s.Plan.Origin != events.OriginSingle &&
		s.Plan.Origin != events.OriginModel
}

// steps are what the items of a run are to be brought to. Those of the harness, and the attempts and items that steps
// are carried out in, have none of their own.
func steps(s run.State) (all []work.StepSpec) {
	by := "formula " + s.Created.Formula.Name
	for _, st := range s.Plan.Steps {
		if st.Kind != "" || st.Part != nil {
			continue
		}
		of := work.StepSpec{Formula: s.Created.Formula.Name, Text: st.Description, By: by,
			WorkStep: events.WorkStep{Run: s.HarnessID,
				Step: st.ID, Sequence: s.Sequence, Status: st.Status, Agent: st.AssignedAgent}}
		switch {
		case st.Status == events.StepIsCompleted || st.Status == events.StepIsSkipped:
			of.Closed, of.Reason = true, string(st.Status)
		case st.Status == events.StepIsFailed:
			of.Closed, of.Reason = true, "failed: "+st.Error
		case s.Status.Ended():
			of.Closed, of.Reason = true, "the run ended: "+s.Result.FinishReason
		}
		all = append(all, of)
	}
	for _, id := range s.Plan.Removed {
		if !slices.ContainsFunc(all, func(of work.StepSpec) bool { return of.Step == id }) {
			all = append(all, work.StepSpec{Formula: s.Created.Formula.Name, By: by,
				WorkStep: events.WorkStep{Run: s.HarnessID, Step: id,
					Sequence: s.Sequence, Status: events.StepIsSkipped, Closed: true, Reason: "the plan was revised without it"},
				Gone: true})
		}
	}
	return all
}
