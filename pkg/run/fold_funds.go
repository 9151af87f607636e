package run

import (
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// funded folds what the run may spend from now on of the budgets of its project, its user and its station. A turn or a
// plan that waited for that is owed by this event.
func (s *State) funded(a *events.Funds, seq uint64) {
	if a == nil {
		return
	}
	s.Options.Funds = a
	if p := s.Planning; p != nil && p.Owed > 0 && ForBudget(p.Outage) && s.Suspended(p.Outage) {
		next := *p
		next.Owed, next.Outage, next.NotBefore = seq, nil, time.Time{}
		s.Planning = &next
	}
	if s.Plan == nil {
		return
	}
	plan := *s.Plan
	plan.Steps = slices.Clone(plan.Steps)
	for i, st := range plan.Steps {
		if st.Owed > 0 && ForBudget(st.Outage) && s.Suspended(st.Outage) {
			next := *st
			next.Owed, next.Outage, next.NotBefore = seq, nil, time.Time{}
			plan.Steps[i] = &next
		}
	}
	s.Plan = &plan
}

// ForBudget reports whether what a request waits for is not its provider but a budget of the project, the user or the
// station.
func ForBudget(o *Outage) bool { return o != nil && o.Class == events.ClassBudget }

// AwaitsBudget is the first request of the run that waits for a budget of the project, the user or the station; nil for
// none.
func (s *State) AwaitsBudget() *Outage {
	for _, o := range s.Outages() {
		if ForBudget(o) && s.Suspended(o) {
			return o
		}
	}
	return nil
}
