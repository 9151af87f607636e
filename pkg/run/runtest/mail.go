package runtest

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// WokenCreated creates a run that is the agent of an address.
func WokenCreated() *events.RunCreatedData {
	c := Created()
	c.Address = &events.AddressRef{Address: "web/worker/nux", Epoch: 1}
	return c
}

// Mail gives a step messages with these ids.
func Mail(step string, ids ...string) *events.MailInjectedData {
	d := &events.MailInjectedData{Event: eventOf(events.MailInjected), Step: step, Text: "Mail has come."}
	for _, id := range ids {
		d.Mail = append(d.Mail, events.InjectedMail{ID: id, From: "web/lead/ada", Priority: "normal"})
	}
	return d
}

// mailMoves give a step that is owed a turn a message that the run does not have.
func mailMoves(s run.State, st *run.Step) []events.Payload {
	if s.Created.Address == nil || s.Status != events.Running || st.Owed == 0 || st.Final || st.AssignedAgent != s.AgentName {
		return nil
	}
	return []events.Payload{Mail(st.ID, fmt.Sprintf("msg-%d", s.Sequence))}
}
