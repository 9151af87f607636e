package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// mailRules fold the mail of a run.
var mailRules = []rule{on(mailInjected), on(mailInterrupted), on(mailRequested), on(mailAnswered)}

// MailCall is what a call of a mail tool asks for, and what became of it; nil for all others.
type MailCall struct {
	Mail   *events.MailRequest `json:"mail,omitempty"`
	Answer *events.MailAnswer  `json:"answer,omitempty"`
}

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

// WasCut reports whether a message has ended an answer of the run.
func (s *State) WasCut(id string) bool {
	return s.AgentLoopSnapshot != nil && slices.Contains(s.AgentLoopSnapshot.Cut, id)
}

// Cuts is how many messages have ended an answer of the run.
func (s *State) Cuts() int {
	if s.AgentLoopSnapshot == nil {
		return 0
	}
	return len(s.AgentLoopSnapshot.Cut)
}

// mailInterrupted folds that mail ends the answer of a turn. A message does so once, and not once it was given.
func mailInterrupted(s *State, _ events.Event, d *events.MailInterruptedData) string {
	switch {
	case s.Created == nil || s.Created.Address == nil:
		return "the run is no agent with an address"
	case s.Status != events.Running:
		return fmt.Sprintf("the run is %s", s.Status)
	case d.Mail == "" || s.WasCut(d.Mail) || s.HasMail(d.Mail):
		return fmt.Sprintf("mail %q has interrupted the run before, or was given to it", d.Mail)
	case s.Cuts() >= events.MaxInterrupts:
		return fmt.Sprintf("%d messages have interrupted the run", s.Cuts())
	}
	loop := Loop{}
	if s.AgentLoopSnapshot != nil {
		loop = *s.AgentLoopSnapshot
	}
	loop.Cut = append(slices.Clone(loop.Cut), d.Mail)
	s.AgentLoopSnapshot = &loop
	return ""
}

// mailRequested folds a call of a mail tool, which only a run with an address can have, or one that holds a work item.
func mailRequested(s *State, f events.Event, d *events.MailRequestedData) string {
	c, fault := s.open(d.ToolRef, CallAllowed)
	if fault != "" {
		return fault
	}
	switch {
	case !events.IsMailTool(d.Tool) || !s.Created.CanAsk(d.Tool) || s.Harness(c.Step):
		return fmt.Sprintf("call %s of tool %s sends no mail", d.Call, d.Tool)
	case d.Attempt != 1:
		return fmt.Sprintf("call %s is requested as attempt %d", d.Call, d.Attempt)
	}
	if err := d.Request.Check(d.Tool); err != nil {
		return err.Error()
	}
	asks := d.Request
	c.Phase, c.Attempt, c.Fence, c.StartedAt, c.Mail = CallMailed, 1, f.Sequence, f.Time, &asks
	s.setOpen(d.Call, &c)
	return ""
}

func mailAnswered(s *State, _ events.Event, d *events.MailAnsweredData) string {
	c, fault := s.open(d.ToolRef, CallMailed)
	if fault != "" {
		return fault
	}
	if c.Answer != nil {
		return fmt.Sprintf("call %s was answered before", d.Call)
	}
	answer := d.MailAnswer
	c.Answer = &answer
	s.setOpen(d.Call, &c)
	return ""
}
