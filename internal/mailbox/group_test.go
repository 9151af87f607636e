package mailbox_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	t.Run("MSG-9 a message of a queue is claimed once, and waits again where the run ended before it was given it", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "queue/builds", events.AddressSpec{})
		b.must(b.send(events.MailDraft{ID: "m1", Body: "x"}))
		b.must(b.send(events.MailDraft{ID: "m2", Body: "x", Priority: "high"}))
		var got *events.ClaimedMail
		for range 2 {
			if b.s, got = mailbox.Claim(b.s, "web/worker/nux", "r1", "c1", at); got == nil || got.ID != "m2" {
				t.Fatalf("%+v", got)
			}
		}
		if b.s, got = mailbox.Claim(b.s, "web/worker/ada", "r2", "c1", at); got == nil || got.ID != "m1" {
			t.Fatalf("%+v", got)
		}
		if b.s, got = mailbox.Claim(b.s, "web/worker/ada", "r2", "c2", at); got != nil {
			t.Fatalf("%+v", got)
		}
		b.s = mailbox.Settle(b.s, "r1", "c1", true, at)
		b.s = mailbox.Settle(mailbox.Settle(b.s, "r2", "c1", false, at), "r2", "c1", false, at)
		if len(b.s.Claimed) != 0 || len(b.s.Pending) != 1 || b.s.Pending[0].ID != "m1" || b.s.Done[0].Run != "r1" {
			t.Errorf("%+v", b.s.Mailbox)
		}
		if s := mailbox.Wake(b.s, at, runOf); s.Holder != nil {
			t.Error("a queue was woken")
		}
	})
	t.Run("MSG-7 MSG-8 a message to a list or a channel is for those who are members when it comes, not for its sender", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "channel/news", events.AddressSpec{Members: []string{"web/worker/nux", "web/worker/ada"}})
		b.refused(b.steer(events.MailControl{Action: mailbox.Join, Member: "web/worker/nux"}, b.s.Address), mailbox.BadMove)
		b.must(b.steer(events.MailControl{Action: mailbox.Leave, Member: "web/worker/nux"}, b.s.Address))
		b.must(b.steer(events.MailControl{Action: mailbox.Join, Member: "web/lead/eve"}, b.s.Address))
		m := mailbox.MailOf(events.MailDraft{Body: "x"}, "m1", "web/worker/ada", b.s.Address, at)
		s, err := mailbox.Deliver(b.s, m, nil, events.MailBy{}, at)
		if err != nil || !reflect.DeepEqual(s.Pending[0].Members, []string{"web/lead/eve"}) {
			t.Fatalf("%v, %+v", err, s.Pending)
		}
		s = mailbox.Passed(mailbox.Passed(s, "m1", nil, at), "m1", nil, at)
		if len(s.Pending) != 0 || len(s.Done) != 1 {
			t.Errorf("%+v", s.Mailbox)
		}
	})
	t.Run("MSG-11 a kind that the address does not declare is refused", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "web/worker/nux", events.AddressSpec{Agent: "worker", Accepts: map[string]json.RawMessage{"done": json.RawMessage(`{}`)}})
		b.refused(b.send(events.MailDraft{ID: "m1", Body: "x", Kind: "merge"}), mailbox.BadKind)
		b.must(b.send(events.MailDraft{ID: "m2", Body: "x", Kind: "done"}))
		b.must(b.send(events.MailDraft{ID: "m3", Body: "x"}))
	})
	t.Run("MSG-7 MSG-17 an agent whose message a member of a group refuses is owed one notice, which names it; a person is not", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "list/leads", events.AddressSpec{Members: []string{"web/worker/nux", "web/worker/ada"}})
		no := []events.MailRefusal{{To: "web/worker/ada", Code: mailbox.Full}}
		for from, owed := range map[string]int{"web/lead/eve": 1, "@anna": 0, "station:delivery": 0} {
			s, err := mailbox.Deliver(b.s, mailbox.MailOf(events.MailDraft{Body: "x"}, "m1", from, b.s.Address, at), nil, events.MailBy{}, at)
			b.must(err)
			if s := mailbox.Passed(s, "m1", nil, at); len(mailbox.OwedNotices(s)) != 0 {
				t.Errorf("%s: %+v", from, s.Done)
			}
			s = mailbox.Passed(mailbox.Passed(s, "m1", no, at), "m1", no, at)
			all := mailbox.OwedNotices(s)
			if len(all) != owed || mailbox.OwesNotice(s, "m1") != (owed == 1) {
				t.Errorf("%s: %+v", from, s.Done)
			}
			if owed == 0 {
				continue
			}
			m := mailbox.NoticeMail(s, all[0], "n1")
			if m.From == from || m.To != "" && m.To != from || m.ReplyTo != "m1" || !strings.HasSuffix(m.Body, "web/worker/ada (mailbox_full)") {
				t.Errorf("%+v", m)
			}
			for range 2 {
				s = mailbox.Noticed(s, "m1", "n1", "", at)
			}
			if mailbox.OwesNotice(s, "m1") || len(s.Changes()) != len(b.s.Changes())+3 {
				t.Errorf("%+v", s.Mailbox)
			}
		}
	})
	t.Run("MSG-7 a notice of all members that there may be has room in a mailbox", func(t *testing.T) {
		t.Parallel()
		of := events.DoneMail{ID: "m1", From: "web/lead/eve", At: at}
		part := strings.Repeat("x", 17)
		for i := range events.MaxMembers {
			of.Refused = append(of.Refused, events.MailRefusal{To: fmt.Sprintf("%s/%s/%s%03d", part, part, part, i), Code: mailbox.Full})
		}
		m := mailbox.NoticeMail(newBox(t, "list/leads", events.AddressSpec{}).s, of, "n1")
		if len(m.Body) > events.MaxMailBody || !strings.HasSuffix(m.Body, " more") {
			t.Errorf("%d bytes, it ends with %q", len(m.Body), m.Body[len(m.Body)-40:])
		}
	})
}
