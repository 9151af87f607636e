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

// Kept are the funds of a run that waits for more: what it has spent and set aside for turns that do not wait.
func Kept(s run.State) *events.Funds {
	if s.Options.Funds == nil {
		return nil
	}
	f := *s.Options.Funds
	sum := Alone(s)
	if s.Plan != nil {
		sum = sum.plus(owed(s, func(st *run.Step) bool { return !run.ForBudget(st.Outage) }))
	}
	if f.Tokens != nil {
		n := min(*f.Tokens, sum.Tokens)
		f.Tokens = &n
	}
	if f.Cost != nil {
		n := min(*f.Cost, sum.Cost)
		f.Cost = &n
	}
	return &f
}

// Need is what the run goes on with, beyond what it has used: what is set aside for all turns that are owed, or for its
// plan.
func Need(s run.State) Amount {
	if s.Plan != nil {
		return owed(s, func(*run.Step) bool { return true })
	}
	if s.Planning == nil || s.Planning.Owed == 0 {
		return Amount{}
	}
	need, err := planReserve(s)
	if err != nil {
		return Amount{} // it is not going to ask
	}
	return need
}

// owed is what is set aside for the turns that some steps are owed.
func owed(s run.State, some func(*run.Step) bool) (sum Amount) {
	for _, st := range s.Plan.Steps {
		if st.Kind != "" || st.Child != "" || st.Status != events.StepIsRunning || st.Owed == 0 || !some(st) {
			continue
		}
		if need, err := Reserve(s, st); err == nil { // else it is not going to ask
			sum = sum.plus(need)
		}
	}
	return sum
}
