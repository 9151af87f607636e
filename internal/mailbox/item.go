package mailbox

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Busy is the code of a work item that an agent does not get because it has another one.
const Busy = "agent_busy"

// Assign has an agent woken for a work item that it holds, or returns a *Refused. holds reports whether the agent still
// holds the item of a binding, or is reserved for it: the log of that item decides.
func Assign(s State, ref events.WorkRef, holds func(events.WorkRef) bool, now time.Time) (State, error) {
	switch of := s.Life.Work; {
	case s.Form != events.AgentAddress:
		return s, &Refused{BadMove, s.Address + " is no agent", "only an agent holds a work item"}
	case of != nil && *of == ref:
		return s, nil
	case of != nil && holds(*of):
		return s, &Refused{Busy, fmt.Sprintf("%s has the work item %s", s.Address, of.Work),
			"wait until it is done, or give the item to another agent: inspan colony"}
	}
	return s.then(&events.AgentAssignedData{Event: "agent_assigned", Work: &ref}, now), nil
}

// Reserve has a free agent of a definition wait for the next binding of a work item. is is false where the agent is not
// free: the item goes to another one. An agent is reserved for a binding once.
func Reserve(s State, definition string, ref events.WorkRef, now time.Time) (next State, is bool) {
	switch of := s.Life.Work; {
	case of != nil && *of == ref:
		return s, true
	case !Free(s) || s.Form != events.AgentAddress || s.Spec.Agent != definition:
		return s, false
	}
	return s.then(&events.AgentAssignedData{Event: "agent_assigned", Work: &ref}, now), true
}

// Unassign records that an agent has no work item any more. It changes nothing where it has another one.
func Unassign(s State, ref events.WorkRef, now time.Time) State {
	if of := s.Life.Work; of == nil || *of != ref {
		return s
	}
	return s.then(&events.AgentAssignedData{Event: "agent_assigned"}, now)
}

func assigned(s State, d *events.AgentAssignedData, _ time.Time) (State, error) {
	if s.Form != events.AgentAddress || d.Work == nil && s.Life.Work == nil {
		return s, fmt.Errorf("it has no work item, or is no agent")
	}
	s.Life.Work = d.Work
	return s, nil
}
