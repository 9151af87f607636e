package turn

import (
	"github.com/inspan/inspan/pkg/run"
)

// Mending reports whether the turn that a step is owed is the one in which the model fixes its last answer, or goes on
// after a person interrupted it. No other service says anything before it, so the delivery that made the answer owed
// goes on with it.
func Mending(s run.State, step string) bool {
	st := s.Step(step)
	if st == nil || st.Owed == 0 || st.Owed == st.AllowedAt {
		return false // the first turn of a fork is owed since its step was allowed, and is that event's
	}
	for _, t := range run.Backward(s.Turns()) {
		if t.Step == step {
			return t.Interrupted || st.Mended && t.Fault != "" && len(t.Calls) == 0
		}
	}
	return false
}
