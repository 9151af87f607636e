package events

import (
	"fmt"
	"strings"
)

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
