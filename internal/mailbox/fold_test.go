package mailbox_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

func TestFold(t *testing.T) {
	t.Parallel()
	born := &events.AgentRegisteredData{Address: "web/worker/nux", Spec: events.AddressSpec{Agent: "a"}}
	queue := &events.AgentRegisteredData{Address: "queue/x"}
	list := &events.AgentRegisteredData{Address: "list/x"}
	noticed := &events.MailNoticedData{ID: "m", Mail: "n"}
	mail := func(id string) events.Payload { return &events.MailSentData{Mail: events.Mail{ID: id}} }
	woken := func(epoch int) events.Payload {
		return &events.AgentWokenData{Epoch: epoch, Run: runOf("x", epoch), Mail: "m"}
	}
	acked := func(run string) events.Payload { return &events.MailAckedData{IDs: []string{"m"}, Run: run} }
	claim := func(run string) events.Payload { return &events.MailClaimedData{ID: "m", Run: run, Call: "c"} }
	for what, log := range map[string][]events.Payload{
		"two runs of one agent":                {born, mail("m"), woken(1), woken(2)},
		"an epoch that is left out":            {born, mail("m"), woken(2)},
		"an agent that nothing woke":           {born, woken(1)},
		"a queue that is woken":                {queue, mail("m"), woken(1)},
		"the end of another run":               {born, mail("m"), woken(1), &events.AgentEndedData{Epoch: 1, Run: "other"}},
		"a start of another run":               {born, mail("m"), woken(1), &events.AgentStartedData{Epoch: 1, Run: "other"}},
		"a message that comes twice":           {born, mail("m"), mail("m")},
		"a message that comes again later":     {born, mail("m"), acked("r"), mail("m")},
		"a message that is acknowledged twice": {born, mail("m"), acked("r"), acked("r")},
		"mail that expires under a run":        {born, mail("m"), woken(1), &events.MailExpiredData{IDs: []string{"m"}}},
		"a message that two claim":             {queue, mail("m"), claim("r1"), claim("r2")},
		"a claim of an agent's mail":           {born, mail("m"), claim("r1")},
		"a claim that another returns":         {queue, mail("m"), claim("r1"), &events.MailReturnedData{IDs: []string{"m"}, Run: "r2"}},
		"a claim that another acknowledges":    {queue, mail("m"), claim("r1"), acked("r2")},
		"a notice that is not owed":            {queue, mail("m"), acked("r"), &events.MailNoticedData{ID: "m", Mail: "n"}},
		"a notice that an agent's mailbox owes": {born, mail("m"), &events.MailAckedData{IDs: []string{"m"}, Owed: true,
			Refused: []events.MailRefusal{{To: "a/b/c", Code: mailbox.Full}}}},
		"a notice of no refusal": {list, mail("m"), &events.MailAckedData{IDs: []string{"m"}, Owed: true}},
		"a notice that is given twice": {list, mail("m"), &events.MailAckedData{IDs: []string{"m"}, Owed: true,
			Refused: []events.MailRefusal{{To: "a/b/c", Code: mailbox.Full}}}, noticed, noticed},
		"an address that is made twice":    {born, born},
		"an address that begins with mail": {mail("m")},
		"an address of another name":       {queue},
		"an address that is none":          {&events.AgentRegisteredData{Address: "web/worker/Nux"}},
	} {
		t.Run("SAFE-2 MSG-6 MSG-9 a log does not fold that has "+what, func(t *testing.T) {
			t.Parallel()
			var s mailbox.State
			var err error
			subject := "web_worker_nux"
			if log[0] == events.Payload(queue) && len(log) > 1 {
				subject = "queue_x"
			}
			if log[0] == events.Payload(list) {
				subject = "list_x"
			}
			for i, p := range log {
				if err != nil {
					t.Fatalf("event %d: %v", i, err)
				}
				s, err = mailbox.Aggregate().Apply(s, events.Event{Subject: subject, Sequence: uint64(i + 1), Time: at}, p, "h")
			}
			if err == nil {
				t.Errorf("it folds to %+v", s.Mailbox)
			}
		})
	}
}

// refold folds what was decided, as stored events.
func refold(t *rapid.T, s mailbox.State) (again mailbox.State) {
	for i, p := range s.Changes() {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := events.LookupAgent(p.Kind())
		read := kind.New()
		if err := json.Unmarshal(b, read); err != nil {
			t.Fatal(err)
		}
		if again, err = mailbox.Aggregate().Apply(again, events.Event{Subject: s.ID, Sequence: uint64(i + 1), Time: at}, read, "h"); err != nil {
			t.Fatalf("event %d: %v", i+1, err)
		}
	}
	return again
}

// TestMail plays an agent with its runs: a run is given what is due, some of its turns end, some runs fail.
func TestMail(t *testing.T) {
	t.Parallel()
	t.Run("MSG-4 MSG-6 MSG-15 MSG-16 PROP-24 whatever happens, no message is lost, and none is given to two turns", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			spec := events.AddressSpec{Agent: "worker"}
			s, _ := mailbox.Steer(mailbox.State{}, mailbox.Wish{MailControl: events.MailControl{Action: mailbox.Register, Spec: &spec}, Address: "a/b/c"}, at)
			now, n := at, 0
			sent := map[string]time.Time{} // with what each expires
			given := map[string]string{}   // the run whose turn was given a message
			has := map[string]bool{}       // what the run under way has, and no turn ended
			sentIn := map[string]int{}
			t.Repeat(map[string]func(*rapid.T){
				"send": func(t *rapid.T) {
					n++
					m := mailbox.MailOf(events.MailDraft{Body: "x", Priority: rapid.SampledFrom(events.Priorities()).Draw(t, "priority"),
						Expires: rapid.SampledFrom([]string{"1m", "1h"}).Draw(t, "expires")}, fmt.Sprint("m", n), "@a", "a/b/c", now)
					next, err := mailbox.Deliver(s, m, nil, events.MailBy{}, now)
					if err == nil {
						s, sent[m.ID], sentIn[m.ID] = next, m.ExpiresAt, next.Epoch
					}
				},
				"time": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second) },
				"look": func(t *rapid.T) {
					s = mailbox.Wake(mailbox.Expire(s, now), now, runOf)
					if s.Holder != nil && rapid.Bool().Draw(t, "exists") {
						s, _ = mailbox.Accept(s, s.Epoch, s.Holder.Run, now)
					}
				},
				"inject": func(t *rapid.T) {
					if s.Holder == nil || !s.Holder.Started {
						return
					}
					if d := s.Inject(s.Holder.Run, "only", func(id string) bool { return has[id] }, now); d != nil {
						for _, m := range d.Mail {
							if given[m.ID] != "" || m.Earlier != (sentIn[m.ID] < s.Epoch) {
								t.Fatalf("%s was given to %q and is injected into %s, earlier %v", m.ID, given[m.ID], s.Holder.Run, m.Earlier)
							}
							has[m.ID] = true
						}
					}
				},
				"turn": func(t *rapid.T) {
					if s.Holder == nil || len(has) == 0 {
						return
					}
					var ids []string
					for id := range has {
						if s.Waits(id) {
							ids = append(ids, id)
						}
						given[id] = s.Holder.Run
					}
					if rapid.Bool().Draw(t, "at once") {
						s = mailbox.Shown(s, s.Holder.Run, ids, now)
					}
				},
				"end": func(t *rapid.T) {
					if s.Holder == nil {
						return
					}
					run := s.Holder.Run
					var ids []string
					for id := range has {
						if given[id] == run {
							ids = append(ids, id)
						}
					}
					s = mailbox.End(mailbox.Shown(s, run, ids, now), run, rapid.SampledFrom([]string{mailbox.Completed, mailbox.Failed}).Draw(t, "as"), "", now)
					has = map[string]bool{}
				},
				"": func(t *rapid.T) {
					for id, end := range sent {
						var state string
						for _, d := range s.Done {
							if d.ID == id {
								state = d.State
							}
						}
						switch {
						case s.Waits(id) && state != "":
							t.Fatalf("%s waits and is %s", id, state)
						case !s.Waits(id) && state == "" && n < events.MaxMailDone:
							t.Fatalf("%s is lost", id)
						case state == events.MailIsExpired && (given[id] != "" || now.Before(end)):
							t.Fatalf("%s is dead, was given to %q and ends at %s", id, given[id], end)
						case state == events.MailIsAcknowledged && given[id] == "":
							t.Fatalf("%s is acknowledged and was given to no turn", id)
						}
					}
					again := refold(t, s)
					row, err := mailbox.View().Row(again, 7)
					if err != nil {
						t.Fatal(err)
					}
					if shown, position, ok := mailbox.View().Read(row); !ok || position != 7 || !reflect.DeepEqual(shown, again) {
						t.Fatalf("the row shows %+v, want %+v", shown, again)
					}
				},
			})
		})
	})
}
