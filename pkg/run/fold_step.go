package run

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// sayStep folds one fact about a step or its turns.
func (s *State) sayStep(p events.Payload, at time.Time, seq uint64) string {
	switch d := p.(type) {
	case *events.StepReadyData:
		if st := s.Step(d.Step); st != nil {
			for _, dep := range st.Dependencies {
				if on := s.Step(dep); on == nil || !st.Follows(on) {
					return fmt.Sprintf("step %s depends on %s, which is not complete", d.Step, dep)
				}
			}
		}
		return s.step(d.Step, events.StepIsPending, func(st *Step) { st.Status, st.ReadyAt = events.StepIsReady, seq })
	case *events.StepAllowedData:
		if g := s.GateFor(d.Step, ""); g != nil && g.Status == GatePending {
			return fmt.Sprintf("gate %s stands before step %s", g.ID, d.Step)
		}
		return s.step(d.Step, events.StepIsReady, func(st *Step) {
			st.Status, st.AllowedAt, st.Owed = events.StepIsRunning, seq, seq
		})
	case *events.StepFinishedData:
		s.stepCheckpoint(d.Step, d.Checkpoint, at, seq)
		return s.stepEnded(d.Step, func(st *Step) { st.Status, st.Output = events.StepIsCompleted, d.Output })
	case *events.StepFailedData:
		s.lose(d.Lost)
		s.stepCheckpoint(d.Step, d.Checkpoint, at, seq)
		return s.stepEnded(d.Step, func(st *Step) {
			st.Status, st.Error, st.RunReason = events.StepIsFailed, d.Error, d.RunReason
		})
	case *events.TurnDeferredData:
		return s.deferred(d)
	case *events.TurnFinishedData:
		return s.turn(d, at, seq)
	case *events.HistoryCompactedData:
		return s.compacted(d)
	}
	return ""
}
