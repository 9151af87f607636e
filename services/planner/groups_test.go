package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// writes has the run of an agent call the tool that sends a message. Planners are given that call.
func (x *exchange) writes(id, to, kind string) {
	x.t.Helper()
	say := func(by events.Service, decide func(s run.State) []events.Payload) {
		x.t.Helper()
		w, err := x.ledger(by).Write(x.t.Context(), id, func(s run.State, _ time.Time) ([]events.Payload, error) { return decide(s), nil })
		if err != nil || len(w.Events) == 0 {
			x.t.Fatal(err, w.Events)
		}
	}
	ref := runtest.Ref("step-1", "c1-1", events.ToolMailSend)
	say(events.Executor, func(s run.State) []events.Payload {
		task := turn.Next(s, "step-1", x.now).Ask
		return turn.Finish(s, *task, turn.Answer{Data: events.TurnFinishedData{FinishReason: "tool_calls", Model: "m", Provider: "p",
			Calls: []events.RequestedCall{runtest.Asked(1, 1, events.ToolMailSend, "{}")}}})
	})
	say(events.Gatekeeper, func(run.State) []events.Payload { return []events.Payload{runtest.CallYes(ref, "idempotent")} })
	say(events.Toolrunner, func(run.State) []events.Payload {
		d := runtest.MailAsked(ref)
		d.Request = events.MailRequest{To: to, Mail: &events.MailDraft{Body: "x", Kind: kind}}
		return []events.Payload{d}
	})
	x.waiting = append(x.waiting, delivered{what: string(events.MailRequested), run: id})
}

// requested is the event of a run that asks a planner for something.
func (x *exchange) requested(id string) (stored []byte) {
	x.t.Helper()
	for _, r := range x.st.Log(id) {
		if _, p, err := events.Read(r.Bytes); err == nil && p.Kind() == events.MailRequested {
			stored = r.Bytes
		}
	}
	return stored
}

// club is an exchange with an agent at work, and a list of three agents of which one takes messages of one kind alone.
func club(t *testing.T, op int) (x *exchange, id string) {
	t.Helper()
	x = newExchange(t, uint64(op))
	x.addresses = []string{"a/b/c0", "a/b/c1", "a/b/c2", "a/b/c3"}
	for i, a := range x.addresses {
		spec := events.AddressSpec{Agent: "worker"}
		if i == 2 {
			spec.Accepts = map[string]json.RawMessage{"report": json.RawMessage(`{"type":"object"}`)}
		}
		x.control(a, events.MailControl{Action: mailbox.Register, Spec: &spec})
		x.settle()
	}
	x.control("list/club", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Members: x.addresses}})
	x.control("a/b/c0", events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: "m0", Body: "x"}})
	x.settle()
	id = x.look()[0]
	x.works(id, false)
	return x, id
}

// mailOf are the messages of a sender that came to an address, whether they wait or not.
func (x *exchange) mailOf(address, from string) (ids []string) {
	s := x.box(address)
	for _, p := range s.Pending {
		if p.From == from {
			ids = append(ids, p.ID)
		}
	}
	for _, d := range s.Done {
		if d.From == from {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

const postOffice = "station:mail"

func TestGroupRefusedCut(t *testing.T) {
	t.Parallel()
	t.Run("MSG-4 MSG-7 MSG-17 SAFE-3 a planner that dies at any one operation of a message to a list leaves its sender with one notice of the member that refused it", func(t *testing.T) {
		t.Parallel()
		plays := 0
		for _, late := range []bool{false, true} {
			for op := 0; ; op++ {
				x, id := club(t, op)
				x.cut, x.late = op, late
				x.writes(id, "list/club", "other")
				x.settle()
				when := fmt.Sprintf("operation %d, after it: %v", op, late)
				x.addresses = append(x.addresses, "list/club")
				x.rows()
				got := x.mailOf("a/b/c0", postOffice)
				if len(got) != 1 {
					t.Fatalf("%s: the sender has the notices %v", when, got)
				}
				s, n := x.box("list/club"), x.kinds("list/club")
				if n[events.MailNoticed] != 1 || n[events.MailAcked] != 1 || len(mailbox.OwedNotices(s)) != 0 || len(s.Pending) != 0 {
					t.Fatalf("%s: %v, %+v", when, n, s.Mailbox)
				}
				for i, want := range []int{0, 1, 0, 1} {
					if all := x.mailOf(x.addresses[i], "a/b/c0"); len(all) != want {
						t.Fatalf("%s: %s has %v, want %d", when, x.addresses[i], all, want)
					}
				}
				if plays++; x.deaths == 0 {
					break
				}
			}
		}
		if plays < 30 {
			t.Errorf("only %d plays", plays)
		}
		t.Logf("%d plays", plays)
	})
}

func TestGroupRefused(t *testing.T) {
	t.Parallel()
	t.Run("MSG-7 MSG-17 a notice names who refused the message and why, and comes once, whoever looks at the list again", func(t *testing.T) {
		t.Parallel()
		x, id := club(t, 1)
		x.writes(id, "list/club", "other")
		x.settle()
		s := x.box("a/b/c0")
		i := slices.IndexFunc(s.Pending, func(p events.PendingMail) bool { return p.From == postOffice })
		if i < 0 {
			t.Fatalf("%+v", s.Mailbox)
		}
		if m := s.Pending[i]; !strings.Contains(m.Body, "list/club") || !strings.HasSuffix(m.Body, "\na/b/c2 ("+mailbox.BadKind+")") ||
			strings.Contains(m.Body, "c1") || m.ReplyTo == "" {
			t.Errorf("%+v", m)
		}
		for range 2 {
			if err := x.planner().Postmaster().Due(t.Context(), kernel.Due[mailbox.State]{ID: "list_club", Deliveries: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if got := x.mailOf("a/b/c0", postOffice); len(got) != 1 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("MSG-7 a person, and an agent whose message all members take, get no notice", func(t *testing.T) {
		t.Parallel()
		x, id := club(t, 1)
		x.control("list/club", events.MailControl{Action: mailbox.Send, By: "anna", Mail: &events.MailDraft{ID: "m1", Body: "x", Kind: "other"}})
		x.writes(id, "list/club", "")
		x.settle()
		if n := x.kinds("list/club"); n[events.MailAcked] != 2 || n[events.MailNoticed] != 0 {
			t.Errorf("got %v", n)
		}
		if got := x.mailOf("a/b/c0", postOffice); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("MSG-7 a sender whose mailbox takes no notice is recorded with the reason", func(t *testing.T) {
		t.Parallel()
		x, id := club(t, 1)
		for i := range events.MaxMailbox {
			m := mailbox.MailOf(events.MailDraft{Body: "x"}, fmt.Sprintf("x%d", i), fmt.Sprintf("@p%d", i/40), "a/b/c0", x.now)
			err := fill(x.planners[0], m, x.now)
			if err != nil {
				break // it is full
			}
		}
		x.writes(id, "list/club", "other")
		x.settle()
		if n, got := x.kinds("list/club"), x.mailOf("a/b/c0", postOffice); n[events.MailNoticed] != 1 || len(got) != 0 {
			t.Errorf("got %v, %v", n, got)
		}
		if s := x.box("list/club"); len(mailbox.OwedNotices(s)) != 0 {
			t.Errorf("%+v", s.Done)
		}
	})
}
