package mailbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Waking is what the station has for an agent that is woken: the models of roles, and the role of the agent. Both are
// recorded, so that the run is the same whoever begins it.
type Waking struct {
	Tier *events.AgentTier
	Role *events.AgentRole
	// Work is the binding of the item that the agent holds and that its run is to have; nil for none.
	Work *events.WorkRef
}

// Health are the thresholds of the agent's role.
func (s State) Health() events.RoleHealth {
	if s.Life.Role == nil {
		return events.RoleHealth{}
	}
	return s.Life.Role.Health
}

// PlaceOf are the variables and the folder that the role of an agent gives the commands of its run.
func PlaceOf(s State) (env map[string]string, dir string) {
	r := s.Life.Role
	if r == nil {
		return nil, ""
	}
	for name, value := range r.Env {
		if env == nil {
			env = map[string]string{}
		}
		env[name] = r.Fill(value, s.Address)
	}
	return env, r.Fill(r.WorkDir, s.Address)
}

// told is what a run is told of the role of its agent, before anything else.
func (s State) told(text string) string {
	if r := s.Life.Role; r != nil && r.Prompt != "" {
		return r.Fill(r.Prompt, s.Address) + "\n\n" + text
	}
	return text
}

// Opening is the state of the address of a role that has no log yet.
func Opening(s State, role string, now time.Time) State {
	if s.Exists() {
		return s
	}
	return s.then(&events.AgentRegisteredData{Event: "agent_registered", Address: events.RoleAddressOf(role)}, now)
}

// Admit lets an agent of a role be at work in an epoch, where fewer than most others are; else it waits. s is the
// address of the role, and over reports whether the epoch of an agent that was at work has ended. The same agent is
// admitted to one epoch once.
func Admit(s State, agent string, epoch, most int, over func(events.RoleSlot) bool,
	now time.Time) (next State, may bool) {
	var q events.RoleQuota
	if s.Life.Quota != nil {
		q = *s.Life.Quota
	}
	if slices.ContainsFunc(q.Working, func(w events.RoleSlot) bool { return w.Agent == agent && w.Epoch == epoch }) {
		return s, true
	}
	before, waits := len(q.Working), slices.Contains(q.Waiting, agent)
	q.Working = slices.DeleteFunc(slices.Clone(q.Working), func(w events.RoleSlot) bool {
		return w.Agent == agent || over(w)
	})
	may = len(q.Working) < most
	switch {
	case may:
		q.Working = append(q.Working, events.RoleSlot{Agent: agent, Epoch: epoch, At: now})
		q.Waiting = slices.DeleteFunc(slices.Clone(q.Waiting), func(w string) bool { return w == agent })
	case waits && q.Max == most && len(q.Working) == before:
		return s, false // it stands there
	case !waits:
		q.Waiting = append(slices.Clone(q.Waiting), agent)
	}
	q.Waiting = q.Waiting[max(0, len(q.Waiting)-events.MaxMembers):]
	q.Max = most
	return s.then(&events.AgentAdmittedData{Event: "agent_admitted", RoleQuota: q}, now), may
}

// Free reports whether an agent could be given work by itself: it is not at work, nothing waits for it, and no one
// stopped it. An address that is not registered is free.
func Free(s State) bool {
	return s.Holder == nil && len(s.Pending) == 0 && !s.Life.Stopped && s.Life.Account == nil && s.Life.Work == nil &&
		s.Fails == 0
}

// maxCrew is how many names are made up for the agents of a role.
const maxCrew = 256

// Candidates are the agents of a role, project/role, that its next message or work item may go to, in the order that
// they are asked in: those that are registered, the names of the pool, and new names. s is the address of the role:
// what waits there has its agent.
func Candidates(s State, role string, pool, registered []string) (all []string) {
	add := func(agent string) {
		has := func(p events.PendingMail) bool { return slices.Contains(p.Members, agent) }
		if !slices.ContainsFunc(s.Pending, has) {
			all = append(all, agent)
		}
	}
	for _, a := range registered {
		if strings.HasPrefix(a, role+"/") {
			add(a)
		}
	}
	for _, name := range pool {
		add(role + "/" + name)
	}
	for i := range maxCrew {
		add(fmt.Sprintf("%s/agent-%d", role, i+1))
	}
	return all
}

// Choose returns the first candidate of a role that is registered and free, else the first name of the pool that is not
// taken, else a new name. free reports whether an agent, or a name, is.
func Choose(s State, role string, pool, registered []string, free func(agent string) (bool, error)) (string, error) {
	candidates := Candidates(s, role, pool, registered)
	for _, agent := range candidates {
		if is, err := free(agent); err != nil || is {
			return agent, err
		}
	}
	return "", &Refused{Full, fmt.Sprintf("each of %d agents of %s is at work", len(candidates), role),
		"wait until one is idle"}
}

// Over reports whether an agent is not at work in the epoch of a slot any more. One that was admitted and not woken
// loses its slot after a time: whoever admitted it may have died.
func Over(s State, slot events.RoleSlot, now time.Time) bool {
	switch {
	case s.Epoch < slot.Epoch:
		return !now.Before(slot.At.Add(events.WakeTerm))
	case s.Epoch == slot.Epoch:
		return s.Holder == nil
	}
	return true
}

func admitted(s State, d *events.AgentAdmittedData, _ time.Time) (State, error) {
	before := 0
	if s.Life.Quota != nil {
		before = len(s.Life.Quota.Working)
	}
	if s.Form != events.RoleAddress || d.Max < 1 || len(d.Working) > max(d.Max, before) {
		return s, fmt.Errorf("%d agents of %s are at work, of at most %d", len(d.Working), s.Address, d.Max)
	}
	for i, w := range d.Working {
		if slices.ContainsFunc(d.Working[:i], func(o events.RoleSlot) bool { return o.Agent == w.Agent }) {
			return s, fmt.Errorf("%s is at work twice", w.Agent)
		}
	}
	q := d.RoleQuota
	s.Life.Quota = &q
	return s, nil
}
