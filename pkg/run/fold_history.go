package run

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// compacted folds a summary of the older turns of a step. The turn that is owed stays owed to the same event, and the
// requests that failed before were for another prompt.
func (s *State) compacted(d *events.HistoryCompactedData) string {
	turns := s.Turns()
	if d.Through < 1 || d.Through > turns.Len() || turns.At(d.Through-1).Step != d.Step {
		return fmt.Sprintf("turn %d is none of step %s", d.Through, d.Step)
	}
	st := s.Step(d.Step)
	next := Compacted{Through: d.Through, After: turns.Len(), Count: 1, Summary: d.Summary}
	switch {
	case st == nil || st.Owed == 0:
		return fmt.Sprintf("step %s is owed no turn", d.Step)
	case st.Compacted != nil && d.Through <= st.Compacted.Through:
		return fmt.Sprintf("the turns up to %d are compacted already, up to %d", d.Through, st.Compacted.Through)
	case st.Compacted != nil:
		next.Count = st.Compacted.Count + 1
	}
	fault := s.step(d.Step, events.StepIsRunning, func(st *Step) {
		st.Compacted, st.Attempt, st.NotBefore, st.Outage = &next, 0, time.Time{}, nil
	})
	if fault != "" {
		return fault
	}
	s.spend(d.ModelRef, st.AssignedAgent, d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
	return ""
}
