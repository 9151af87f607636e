package mailbox_test

import (
	"fmt"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

func TestAlertTargets(t *testing.T) {
	t.Parallel()
	t.Run("MSG-14 an alert goes to the targets of its severity and to the one that the agent names, each once, and to no one once it is seen", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "web/worker/nux", events.AddressSpec{Agent: "worker", Escalate: "web/lead/ada"})
		b.must(b.send(events.MailDraft{ID: "m1", Body: "x"}))
		b.wake()
		routes := &events.AlertRoutes{Targets: map[events.Severity][]string{events.SeverityHigh: {"queue/night", "web/lead/ada", "web/worker/nux"},
			events.SeverityLow: {"queue/day"}}}
		if got := mailbox.AlertTargets(b.s, routes); len(got) != 0 {
			t.Errorf("no alert goes to %v", got)
		}
		b.s = mailbox.Judge(b.s, mailbox.Finding{Signal: "silent", Severity: events.SeverityHigh, Since: b.now}, b.now)
		if got := fmt.Sprint(mailbox.AlertTargets(b.s, routes)); got != "[web/lead/ada queue/night]" {
			t.Errorf("got %s", got)
		}
		before := len(b.s.Changes())
		for range 2 {
			b.s = mailbox.AlertSent(b.s, *b.s.Life.Alert, events.AlertNotice{To: "web/lead/ada", Code: mailbox.Full}, b.now)
		}
		if got := fmt.Sprint(mailbox.AlertTargets(b.s, routes)); got != "[queue/night]" || len(b.s.Changes()) != before+1 {
			t.Errorf("got %s", got)
		}
		old := *b.s.Life.Alert
		b.s = mailbox.Judge(b.s, mailbox.Finding{Signal: "silent", Severity: events.SeverityHigh, Since: b.now}, b.now.Add(events.AlertStale))
		if b.s.Life.Alert.Severity != events.SeverityCritical || fmt.Sprint(mailbox.AlertTargets(b.s, routes)) != "[web/lead/ada]" {
			t.Errorf("%+v goes to %v", b.s.Life.Alert, mailbox.AlertTargets(b.s, routes))
		}
		if s := mailbox.AlertSent(b.s, old, events.AlertNotice{To: "queue/night", Mail: "m"}, b.now); len(s.Life.Alert.Sent) != 0 {
			t.Error("what was sent of the alert before stands in the one after it")
		}
		b.must(b.steer(events.MailControl{Action: mailbox.Seen, By: "anna"}, b.s.Address))
		if got := mailbox.AlertTargets(b.s, routes); len(got) != 0 {
			t.Errorf("an alert that is seen goes to %v", got)
		}
	})
	t.Run("MSG-14 routes are of all agents, and name severities and addresses", func(t *testing.T) {
		t.Parallel()
		for what, r := range map[string]events.AlertRoutes{"severity": {Targets: map[events.Severity][]string{"loud": {"queue/day"}}},
			"address": {Targets: map[events.Severity][]string{events.SeverityLow: {"Queue/day"}}}, "broadcast": {Targets: map[events.Severity][]string{events.SeverityLow: {"all"}}},
			"twice": {Targets: map[events.Severity][]string{events.SeverityLow: {"queue/day", "queue/day"}}}} {
			if mailbox.Check(events.EveryAddress, events.MailControl{Action: mailbox.Routes, Routes: &r}) == nil {
				t.Errorf("%s is taken", what)
			}
		}
		good := events.MailControl{Action: mailbox.Routes, Routes: &events.AlertRoutes{}}
		if mailbox.Check(events.EveryAddress, good) != nil || mailbox.Check(events.AgentAddress, good) == nil {
			t.Error("routes of an agent are taken")
		}
	})
}
