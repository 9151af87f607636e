package plan

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// looksAgain says when the agent of a step that waits looks next: first once the step waits, then each time that it
// looked and the wait goes on. A look that failed for a while found nothing out; one that failed for good ends the
// wait.
func looksAgain(s run.State, st *run.Step, now time.Time) []events.Payload {
	if st.Flow.Wake == nil {
		return nil
	}
	if st.Parts == 0 {
		return []events.Payload{wakes(s.Plan, st, now)}
	}
	last := s.Step(events.PartID(st.ID, st.Parts))
	switch {
	case last == nil || !last.Ended() || last.Status == events.StepIsCompleted:
		return nil // its condition is to be evaluated
	case last.Status == events.StepIsFailed && events.FailureClass(last.Reason) == events.FailureHard:
		d := failed(st, last.Reason, fmt.Sprintf("look %d: %s", st.Parts, last.Error))
		d.Parts = st.Parts
		return []events.Payload{d}
	}
	return []events.Payload{wakes(s.Plan, st, now)}
}

// wakes makes the next look of a step, for its time.
func wakes(p *run.Plan, st *run.Step, now time.Time) events.Payload {
	if st.Parts >= events.MaxParts {
		d := failed(st, events.FinishParts, fmt.Sprintf("its agent looked %d times, and the signal %s did not come", st.Parts,
			st.Flow.Signal))
		d.Parts = st.Parts
		return d
	}
	d := expanded(st, st.Parts+1)
	delay := st.Flow.Wake.Delay(d.From)
	d.When, d.DelayMS, d.NotBefore = "", delay.Milliseconds(), now.Add(delay).UTC()
	return room(p, d, st)
}

// looked follows the condition that ends a wait after a look.
func looked(s run.State, st *run.Step, a Answer, now time.Time) events.Payload {
	ends, is := a.Value.(bool)
	switch {
	case !is:
		d := failed(st, events.FinishCondition, "the condition that ends the wait is neither true nor false")
		d.Parts = st.Parts
		return d
	case !ends:
		return wakes(s.Plan, st, now)
	}
	d := completed(st, s.Step(events.PartID(st.ID, st.Parts)).Output)
	d.Parts = st.Parts
	return d
}

// unlooked ends the look that a step which waits has not had, or that is under way.
func unlooked(s run.State, st *run.Step, why string) []events.Payload {
	if st.Flow.Wake == nil || st.Parts == 0 {
		return nil
	}
	last := s.Step(events.PartID(st.ID, st.Parts))
	if last == nil || last.Ended() {
		return nil
	}
	return []events.Payload{skippedFor(last, why)}
}

func skippedFor(st *run.Step, why string) *events.StepSettledData {
	return &events.StepSettledData{Event: "step_settled", Step: st.ID, Status: events.StepIsSkipped, Reason: why}
}
