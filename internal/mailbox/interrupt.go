package mailbox

import (
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// interruptible reports whether mail of a sender may end an answer of the agent. No one's may where nothing is said.
func (s State) interruptible(from string) bool {
	switch {
	case s.Form != events.AgentAddress:
		return false
	case s.Spec.Interrupts == events.InterruptsOfPeople:
		return strings.HasPrefix(from, "@")
	}
	return s.Spec.Interrupts == events.InterruptsOfAll
}

// Interrupting are the messages that are to end an answer of the run that is the agent, in the order of their urgency.
// They wait like all mail: what ends the answer is no delivery.
func (s State) Interrupting(now time.Time) (all []events.PendingMail) {
	if s.Holder == nil || !s.Holder.Started {
		return nil
	}
	for _, p := range s.due(now) {
		if p.Interrupt {
			all = append(all, p)
		}
	}
	return all
}

// Interrupted reports whether a message waits for which the turn of a run must not begin, and that the run does not
// have.
func (s State) Interrupted(run string, has func(id string) bool, now time.Time) bool {
	return s.Holder != nil && s.Holder.Run == run &&
		slices.ContainsFunc(s.Interrupting(now), func(p events.PendingMail) bool { return !has(p.ID) })
}
