package run

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// Broken returns what is wrong with a folded state although each of its events fitted, or "". The fold keeps these by
// construction, so that whatever it says is a fault of a program and not of a log alone.
func (s *State) Broken() string {
	if s.Sequence == 0 {
		return ""
	}
	held := 0
	for id, c := range s.Open {
		if c.Phase != CallRequested && !s.Harness(c.Step) {
			held++
		}
		if st := s.Step(c.Step); st == nil || st.Status != events.StepIsRunning {
			return fmt.Sprintf("call %s is open in step %s, which does not run", id, c.Step)
		}
	}
	done, total := s.StepsCompleted()
	calls := s.TotalToolCalls + s.CallsHeld + s.Below().ToolCalls + s.HeldForChildren().ToolCalls
	switch {
	case held != s.CallsHeld:
		return fmt.Sprintf("%d calls hold their place in the budget, %d are counted", held, s.CallsHeld)
	case calls > s.Options.MaxToolCalls:
		return fmt.Sprintf("%d tool calls were permitted, the budget is %d", calls, s.Options.MaxToolCalls)
	case s.Status.Ended() && len(s.Living()) > 0:
		return fmt.Sprintf("the run has ended and its child %s has not", s.Living()[0].ID)
	case s.Status == events.Completed && done != total:
		return fmt.Sprintf("the run is completed with %d of %d steps", done, total)
	case s.Status.Ended() != (s.Result != nil):
		return fmt.Sprintf("the run is %s, and has a result: %v", s.Status, s.Result != nil)
	}
	return ""
}
