package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// mailRules fold the mail of a run.
var mailRules = []rule{on(mailInjected)}

// HasMail reports whether a message stands in the conversation of a step of the run.
func (s *State) HasMail(id string) bool {
	return slices.ContainsFunc(s.Messages, func(m Message) bool { return slices.Contains(m.Mail, id) })
}

// mailInjected folds mail that the next turn of a step is shown. A message is shown once, whatever happens.
func mailInjected(s *State, _ events.Event, d *events.MailInjectedData) string {
	st := s.Step(d.Step)
	switch {
	case s.Created == nil || s.Created.Address == nil:
		return "the run is no agent with an address"
	case s.Status != events.Running || st == nil || st.Status != events.StepIsRunning || st.Owed == 0 || st.Final:
		return fmt.Sprintf("step %s is owed no turn", d.Step)
	case st.AssignedAgent != s.AgentName:
		return fmt.Sprintf("step %s is of agent %s, the mail of agent %s", d.Step, st.AssignedAgent, s.AgentName)
	case len(d.Mail) == 0 || strings.TrimSpace(d.Text) == "":
		return "it has no mail"
	}
	var ids []string
	for _, m := range d.Mail {
		if m.ID == "" || slices.Contains(ids, m.ID) || s.HasMail(m.ID) {
			return fmt.Sprintf("mail %q was given to the run before", m.ID)
		}
		ids = append(ids, m.ID)
	}
	s.Messages = slices.Clip(s.Messages)
	s.addMessage(d.Step, d.Text)
	s.Messages[len(s.Messages)-1].Mail = ids
	return ""
}
