package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Names of the tools by which an agent sends and reads mail, sees what it works on, hands off to its next run, and
// hands in the work item that it holds.
const (
	ToolMailSend    = "mail_send"
	ToolMailRead    = "mail_read"
	ToolWho         = "who"
	ToolHandoff     = "handoff"
	ToolWorkCurrent = "work_current"
	ToolDeliver     = "deliver"
)

// IsMailTool reports whether calls of a tool are answered by a planner: as part of an agent with an address, or, of
// ToolDeliver, as part of the holder of a work item.
func IsMailTool(name string) bool {
	return name == ToolMailSend || name == ToolMailRead || name == ToolWho || name == ToolHandoff ||
		name == ToolWorkCurrent ||
		name == ToolDeliver
}

// CanAsk reports whether a run may call a mail tool: it is an agent with an address, or, for ToolDeliver, holds an
// item.
func (d *RunCreatedData) CanAsk(tool string) bool {
	if tool == ToolDeliver {
		return d.Work != nil
	}
	return d.Address != nil
}

// MailRequest is what a call of a mail tool asks for. Who sends is never part of it: that is the run.
type MailRequest struct {
	// To and Mail go with ToolMailSend.
	To   string     `json:"to,omitempty"`
	Mail *MailDraft `json:"mail,omitempty"`
	// Queue, with ToolMailRead, is where a message is claimed; without it the own mailbox is shown.
	Queue string `json:"queue,omitempty"`
	// Summary goes with ToolHandoff.
	Summary string `json:"summary,omitempty"`
	// Deliver goes with ToolDeliver: how the work item of the run is to be delivered. The item is never part of it.
	Deliver *WorkDeliver `json:"deliver,omitempty"`
}

// Requesting reads and checks the arguments of a call of a mail tool.
func Requesting(tool string, input json.RawMessage) (r MailRequest, err error) {
	var args struct {
		To string `json:"to"`
		MailDraft
		Queue     string `json:"queue"`
		Summary   string `json:"summary"`
		ReviewTo  string `json:"review_to"`
		Oversight string `json:"oversight"`
	}
	if err := json.Unmarshal(input, &args); err != nil {
		return r, fmt.Errorf("the arguments are unreadable: %w", err)
	}
	switch tool {
	case ToolMailSend:
		args.MailDraft.ID, args.MailDraft.Force = "", false
		r.To, r.Mail = args.To, &args.MailDraft
	case ToolMailRead:
		r.Queue = args.Queue
	case ToolHandoff:
		r.Summary = args.Summary
	case ToolDeliver:
		r.Deliver = &WorkDeliver{Queue: args.Queue, ReviewTo: args.ReviewTo, Oversight: args.Oversight}
	}
	return r, r.Check(tool)
}

// Check returns what is wrong with a request, in words for the agent.
func (r MailRequest) Check(tool string) error {
	switch {
	case (tool == ToolMailSend) != (r.Mail != nil) || (tool != ToolMailSend && r.To != "") ||
		(tool != ToolMailRead && r.Queue != "") ||
		(tool != ToolHandoff && r.Summary != "") || (tool == ToolDeliver) != (r.Deliver != nil):
		return fmt.Errorf("the request is not one of %s", tool)
	case r.Mail != nil && (r.Mail.Force || r.Mail.ID != ""):
		return errors.New("an agent gives a message neither an id nor force")
	case r.Mail != nil:
		if _, _, err := ParseAddress(r.To); err != nil {
			return err
		}
		return r.Mail.Check()
	case r.Queue != "":
		if form, _, err := ParseAddress(r.Queue); err != nil {
			return err
		} else if form != QueueAddress {
			return fmt.Errorf("%s is no queue", r.Queue)
		}
	case r.Deliver != nil && (r.Deliver.Review != "" || r.Deliver.Maker != ""):
		return errors.New("an agent names neither the review nor the maker of a delivery")
	case r.Deliver != nil:
		return r.Deliver.Check()
	case tool == ToolHandoff:
		return CheckSummary(r.Summary)
	}
	return nil
}

// MailAnswer is what became of a request.
type MailAnswer struct {
	Output  string `json:"output"`
	Success bool   `json:"success"`
}

// MailRequestedData is the payload of mail.requested. It is the monitoring event tool_start of such a call.
type MailRequestedData struct {
	Event string `json:"event"`
	ToolRef
	Request MailRequest `json:"request"`
	Attempt int         `json:"attempt"`
	Effect  string      `json:"effect"`
}

// MailAnsweredData is the payload of mail.answered.
type MailAnsweredData struct {
	Event string `json:"event"`
	ToolRef
	MailAnswer
}

// FinishMailed is the finish reason of a turn whose answer mail interrupted; the next turn is given it.
const FinishMailed = "interrupted_by_mail"

// MailInterruptedData is the payload of mail.interrupted: the message, and who sent it.
type MailInterruptedData struct {
	Event string `json:"event"`
	Mail  string `json:"mail"`
	From  string `json:"from"`
}

// Kind implements Payload.
func (*MailInterruptedData) Kind() Kind { return MailInterrupted }

func (d *MailInterruptedData) line() string {
	return fmt.Sprintf("mail %s from %s ends the answer that is being given", d.Mail, d.From)
}

// Kind implements Payload.
func (*MailRequestedData) Kind() Kind { return MailRequested }

// Kind implements Payload.
func (*MailAnsweredData) Kind() Kind { return MailAnswered }

func (d *MailRequestedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("call %s %s %s%s", d.Tool, d.Call, d.Request.To, d.Request.Queue))
}

func (d *MailAnsweredData) line() string {
	if !d.Success {
		return fmt.Sprintf("call %s %s was refused: %s", d.Tool, d.Call, strings.Join(strings.Fields(d.Output), " "))
	}
	return fmt.Sprintf("call %s %s is answered", d.Tool, d.Call)
}

// InjectedMail is the head of a message that a run was given.
type InjectedMail struct {
	ID       string `json:"id"`
	From     string `json:"from"`
	Priority string `json:"priority"`
	// Earlier is true where it came before the run began.
	Earlier bool `json:"earlier,omitempty"`
}

// MailInjectedData is the payload of mail.injected. Text is what the model reads, from its next turn on.
type MailInjectedData struct {
	Event string         `json:"event"`
	Step  string         `json:"step_id"`
	Mail  []InjectedMail `json:"mail"`
	Text  string         `json:"text"`
}

// Kind implements Payload.
func (*MailInjectedData) Kind() Kind { return MailInjected }

func (d *MailInjectedData) line() string {
	var ids []string
	for _, m := range d.Mail {
		ids = append(ids, m.ID+" from "+m.From)
	}
	return fmt.Sprintf("mail for step %s: %s", d.Step, strings.Join(ids, ", "))
}
