package runtest

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// WokenCreated creates a run that is the agent of an address.
func WokenCreated() *events.RunCreatedData {
	c := Created()
	c.Agents = map[string]events.Agent{"worker": Agent("worker", "read", "bash", events.ToolMailSend)}
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

// Interrupting is a message that ends an answer.
func Interrupting(id string) *events.MailInterruptedData {
	return &events.MailInterruptedData{Event: eventOf(events.MailInterrupted), Mail: id, From: "@anna"}
}

// mailMoves give a step that is owed a turn a message that the run does not have.
func mailMoves(s run.State, st *run.Step) []events.Payload {
	if s.Created.Address == nil || s.Status != events.Running || st.Owed == 0 || st.Final ||
		st.AssignedAgent != s.AgentName {
		return nil
	}
	say := []events.Payload{Mail(st.ID, fmt.Sprintf("msg-%d", s.Sequence))}
	if s.Cuts() < events.MaxInterrupts {
		say = append(say, Interrupting(fmt.Sprintf("cut-%d", s.Sequence)))
	}
	return say
}

// MailAsked leaves a call of a mail tool to a planner.
func MailAsked(ref events.ToolRef) *events.MailRequestedData {
	d := &events.MailRequestedData{Event: eventOf(events.MailRequested), ToolRef: ref, Attempt: 1, Effect: "idempotent"}
	if ref.Tool == events.ToolMailSend {
		d.Request = events.MailRequest{To: "web/lead/ada", Mail: &events.MailDraft{Body: "done"}}
	}
	return d
}

// mailedMoves are what may follow a call that waits for a planner.
func mailedMoves(c *run.Call) []events.Payload {
	ref := Ref(c.Step, c.ID, c.Tool)
	if c.Answer == nil {
		answer := func(ok bool) *events.MailAnsweredData {
			return &events.MailAnsweredData{Event: eventOf(events.MailAnswered), ToolRef: ref,
				MailAnswer: events.MailAnswer{Output: "an answer", Success: ok}}
		}
		return []events.Payload{answer(true), answer(false)}
	}
	done := CallDone(ref, c.Fence, c.Answer.Output)
	done.Success = c.Answer.Success
	return []events.Payload{done}
}
