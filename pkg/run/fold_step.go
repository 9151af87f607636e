package run

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// stepRules fold the events about a step and its turns.
var stepRules = []rule{
	on(stepReady),
	on(func(s *State, f events.Event, d *events.StepAllowedData) string {
		if g := s.GateFor(d.Step, ""); g != nil && g.Status == GatePending {
			return fmt.Sprintf("gate %s stands before step %s", g.ID, d.Step)
		}
		return s.step(d.Step, events.StepIsReady, func(st *Step) {
			st.Status, st.AllowedAt, st.Owed = events.StepIsRunning, f.Sequence, f.Sequence
			if st.Flow != nil {
				st.BeganAt, st.ClockMS = f.Time, s.Clock.StoppedMS
			}
			if st.Child != "" && !st.Harness() || st.Flow.Controls() || st.Flow.Checks() {
				st.Owed = 0 // its child takes the turns, or no one does
			}
			st.Final = st.Flow.Checks()
		})
	}),
	on((*State).branched),
	on(func(s *State, f events.Event, d *events.StepFinishedData) string {
		if fault := s.unverified(d.Step); fault != "" {
			return fault
		}
		if fault := s.childless(d.Step, true); fault != "" {
			return fault
		}
		s.stepCheckpoint(d.Step, d.Checkpoint, f.Time, f.Sequence)
		return s.stepEnded(d.Step, func(st *Step) { st.Status, st.Output = events.StepIsCompleted, d.Output })
	}),
	on(func(s *State, f events.Event, d *events.StepFailedData) string {
		if fault := s.childless(d.Step, false); fault != "" {
			return fault
		}
		s.lose(d.Lost)
		s.stepCheckpoint(d.Step, d.Checkpoint, f.Time, f.Sequence)
		return s.stepEnded(d.Step, func(st *Step) {
			st.Status, st.Error, st.RunReason = events.StepIsFailed, d.Error, d.RunReason
			if st.Flow != nil || st.Part != nil {
				st.Reason = d.FinishReason
			}
		})
	}),
	on(func(s *State, f events.Event, d *events.TurnDeferredData) string { return s.deferred(d, f) }),
	on(func(s *State, f events.Event, d *events.TurnFinishedData) string {
		return s.turn(d, f.Time, f.Sequence)
	}),
	on(func(s *State, _ events.Event, d *events.HistoryCompactedData) string { return s.compacted(d) }),
}

func stepReady(s *State, f events.Event, d *events.StepReadyData) string {
	if st := s.Step(d.Step); st != nil {
		if fault := s.waits(st); fault != "" {
			return fault
		}
		if st.Flow.Group() || st.Flow != nil && (st.Flow.Kind == events.ControlSet || st.Flow.When != d.When) {
			return fmt.Sprintf("step %s is not one to be permitted, or not with the condition %q", d.Step, d.When)
		}
	}
	return s.step(d.Step, events.StepIsPending, func(st *Step) { st.Status, st.ReadyAt = events.StepIsReady, f.Sequence })
}
