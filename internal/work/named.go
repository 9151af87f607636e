package work

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// AcceptBy gives an item that a named agent holds to a run of it. has is false where the binding has ended, or a later
// run of the agent has the item: then the run must not start. The epoch of the agent is the fence: an earlier run has
// ended before a later one is woken.
func AcceptBy(s State, epoch int, run string, as events.AddressRef, now time.Time) (next State, has bool) {
	b := s.Binding
	switch {
	case b == nil || b.Epoch != epoch || !b.Dispatched || b.Address != as.Address || s.Delivers():
		return s, false
	case b.Run == run:
		return s, true
	case as.Epoch <= b.AgentEpoch:
		return s, false
	}
	return s.then(&events.WorkStartedData{Event: "work_started", Epoch: epoch, Run: run, AgentEpoch: as.Epoch}, now), true
}

// HandOff records that the run of a named agent has ended and that the agent keeps the item. It changes nothing where
// the item is not that run's.
func HandOff(s State, epoch int, run, code string, now time.Time) State {
	if !s.Holds(epoch, run) || !s.Binding.Started || s.Binding.Address == "" || s.Delivers() {
		return s
	}
	return s.then(&events.WorkHandedOffData{Event: "work_handed_off", Epoch: epoch, Run: run, Code: code}, now)
}

// HeldBy reports whether a named agent holds the item in a binding.
func (s State) HeldBy(address string, epoch int) bool {
	return s.Binding != nil && s.Binding.Epoch == epoch && s.Binding.Address == address
}

// Awaits reports whether the item is free, and a binding is its next one: a named agent may be reserved for it.
func (s State) Awaits(epoch int) bool {
	return s.Exists() && s.Status == events.WorkIsOpen && s.Epoch+1 == epoch
}

// Startable reports whether a named agent that holds the item in a binding is to be woken for it.
func (s State) Startable(address string, epoch int) bool {
	return s.HeldBy(address, epoch) && s.Binding.Dispatched && !s.Delivers()
}

// Given is the task of the run of a named agent that has the item: who it is comes from the agent, what it does from
// the binding.
func Given(agent events.Task, s State, b events.WorkBinding) events.Task {
	t := TaskOf(s, b)
	t.ID, t.Agent, t.Session, t.By, t.Handoff = agent.ID, agent.Agent, agent.Session, agent.By, agent.Handoff
	t.Task = agent.Task + "\n\n" + t.Task
	if t.Model == "" {
		t.Model = agent.Model
	}
	return t
}

// checkHolder returns what is wrong with the name of a holder: a definition, or the address of an agent.
func checkHolder(name string) error {
	if !strings.Contains(name, "/") {
		return events.CheckID("agent", name)
	}
	form, _, err := events.ParseAddress(name)
	if err == nil && form != events.AgentAddress && form != events.RoleAddress {
		err = fmt.Errorf("%s is no agent: a list, a channel and a queue hold no work item", name)
	}
	return err
}

// checkNamed returns what is wrong with a dispatch to a named agent.
func checkNamed(d events.WorkDispatch) error {
	switch {
	case d.Address == "":
		return nil
	case !strings.Contains(d.Address, "/"):
		return fmt.Errorf("address %.80q is no address of an agent: want PROJECT/ROLE/NAME", d.Address)
	case d.Session != "":
		return errors.New("session_id does not go with an address: a named agent has a session of its own")
	}
	return checkHolder(d.Address)
}

// startedBy gives the item to a run of the named agent that holds it.
func (s State) startedBy(d *events.WorkStartedData) (State, error) {
	b := *s.Binding
	if b.Epoch != d.Epoch || !b.Dispatched || d.Run == "" || d.AgentEpoch <= b.AgentEpoch || s.Delivers() {
		return s, s.notHeld(d.Epoch)
	}
	b.Run, b.AgentEpoch, b.Started = d.Run, d.AgentEpoch, true
	s.Binding = &b
	return s, nil
}

func handedOff(s State, d *events.WorkHandedOffData, _ time.Time) (State, error) {
	if !s.Holds(d.Epoch, d.Run) || !s.Binding.Started || s.Binding.Address == "" || s.Delivers() {
		return s, s.notHeld(d.Epoch)
	}
	b := *s.Binding
	b.Run, b.Started, b.ExpiresAt = "", false, time.Time{}
	s.Binding = &b
	return s, nil
}
