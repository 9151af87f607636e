package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// clubWriter sends a typed message to a list when it is woken, and reads what comes back.
const clubWriter = `
turns:
  - when: {turn: 1, message: {contains: "| write to the club"}}
    text: I write.
    calls:
      - {name: mail_send, input: {to: list/club, body: "It is merged.", kind: merged}}
  - when: {turn: 1}
    text: Read.
  - when: {turn: 2}
    text: Done.
`

func TestMailOfGroupRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "reader", Tools: []string{"bash"}, Prompt: "You read."}, mailReader)
	w.agent(events.Agent{Name: "writer", Tools: []string{events.ToolMailSend}, Prompt: "You write."}, clubWriter)
	w.start()
	t.Run("MSG-4 MSG-7 MSG-17 an agent whose message a member of a list refuses is given one notice of the station, and the others have it", func(t *testing.T) {
		w := w.on(t)
		w.registerAddress("crew/writer/one", events.AddressSpec{Agent: "writer"})
		w.registerAddress("crew/reader/two", events.AddressSpec{Agent: "reader"})
		w.registerAddress("crew/reader/typed", events.AddressSpec{Agent: "reader",
			Accepts: map[string]json.RawMessage{"report": json.RawMessage(`{"type":"object"}`)}})
		w.registerAddress("list/club", events.AddressSpec{Members: []string{"crew/writer/one", "crew/reader/two", "crew/reader/typed"}})
		w.send("crew/writer/one", events.MailDraft{ID: "m1", Body: "write to the club"})
		one := w.boxIs("crew/writer/one", "idle again, with the notice read", func(s mailbox.State) bool {
			return s.Holder == nil && len(s.Pending) == 0 && slices.ContainsFunc(s.Done, func(d events.DoneMail) bool { return d.From == "station:mail" })
		})
		notices := 0
		for _, d := range one.Done {
			if d.From == "station:mail" {
				notices++
			}
		}
		if notices != 1 || len(one.Done) != 2 {
			t.Errorf("%d notices, %+v", notices, one.Done)
		}
		w.boxIs("crew/reader/two", "it has the message", func(s mailbox.State) bool {
			return slices.ContainsFunc(s.Done, func(d events.DoneMail) bool { return d.From == "crew/writer/one" })
		})
		if s := w.box("crew/reader/typed"); len(s.Done)+len(s.Pending) != 0 {
			t.Errorf("%+v", s.Mailbox)
		}
		if got := w.passed("list/club"); !strings.HasSuffix(got, "mail.sent mail.acked mail.noticed") {
			t.Errorf("got %s", got)
		}
	})
}
