package lifecycle

import (
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Mailed has a message end the answer that the model of a run is giving, once. A run that does not go on now, one that
// has the message, and one that was interrupted often enough is left: it is given the message before its next turn.
func Mailed(s run.State, mail, from string) []events.Payload {
	if s.Status != events.Running || s.WasCut(mail) || s.HasMail(mail) || s.Cuts() >= events.MaxInterrupts {
		return nil
	}
	return []events.Payload{&events.MailInterruptedData{Event: "mail_interrupted", Mail: mail, From: from}}
}
