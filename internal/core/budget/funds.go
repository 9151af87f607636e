package budget

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Alone is what the run itself has used, with what is set aside for the requests of its programs; its children have
// funds of their own.
func Alone(s run.State) Amount {
	own, asked := s.Own(), s.HeldForPrograms()
	return Amount{Tokens: own.Tokens(), Cost: own.Paid()}.plus(Amount{Tokens: asked.Tokens, Cost: asked.Cost})
}

// short says whether a request that may take need, with more that is set aside before it, is beyond what was reserved
// for the run of the budgets of its project, its user and the station.
func short(s run.State, ahead, need Amount) Verdict {
	f := s.Options.Funds
	if f == nil {
		return Verdict{}
	}
	all := Alone(s).plus(ahead).plus(need)
	of := strings.Join(f.Budgets, ", ")
	switch {
	case f.Wait:
		return Verdict{Short: true, Text: "the run waits for its budgets (" + of + ")"}
	case f.Tokens != nil && all.Tokens > *f.Tokens:
		return Verdict{Short: true, Text: fmt.Sprintf(
			"the next turn may take %d tokens, more than is reserved for the run of its budgets (%s)", need.Tokens, of)}
	case f.Cost != nil && all.Cost > *f.Cost:
		return Verdict{Short: true, Text: fmt.Sprintf(
			"the next turn may cost %s, more than is reserved for the run of its budgets (%s)", need.Cost, of)}
	}
	return Verdict{}
}

// Need is what the run goes on with, beyond what it has used: what is set aside for all turns that are owed, or for its
// plan.
func Need(s run.State) (sum Amount) {
	if s.Plan == nil {
		if s.Planning == nil || s.Planning.Owed == 0 {
			return sum
		}
		sum, err := planReserve(s)
		if err != nil {
			return Amount{} // it is not going to ask
		}
		return sum
	}
	for _, st := range s.Plan.Steps {
		if st.Kind != "" || st.Child != "" || st.Status != events.StepIsRunning || st.Owed == 0 {
			continue
		}
		if need, err := Reserve(s, st); err == nil {
			sum = sum.plus(need)
		}
	}
	return sum
}
