package rebuild_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestMail(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-8 PERS-21 MSG-2 the row of a mailbox that is gone or damaged is made again, byte for byte", func(t *testing.T) {
		t.Parallel()
		st, err := mem.New("s1", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rows, log := st.KV(topology.SessionBucket), st.JournalFor(events.AgentAggregate)
		l, err := mailbox.NewLedger(mailbox.LedgerConfig{Station: "s1", By: events.Planner, Journal: log, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		ids := []string{"a_b_gone", "a_b_damaged"}
		var want [][]byte
		for _, id := range ids {
			w, err := l.Write(t.Context(), id, func(s mailbox.State, now time.Time) ([]events.Payload, error) {
				address, _ := events.AddressOf(id)
				s, err := mailbox.Steer(s, mailbox.Wish{MailControl: events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "a"}}, Address: address, Input: 1}, now)
				if err == nil {
					s, err = mailbox.Deliver(s, mailbox.MailOf(events.MailDraft{Body: "x"}, "m1", "@anna", address, now), nil, events.MailBy{Input: 2}, now)
				}
				run := func(string, int) string { return "r1" }
				s, _ = mailbox.Accept(mailbox.Wake(s, now, run), 1, "r1", now)
				if s, err = mailbox.Ask(s, 1, &events.AgentAskedData{Order: mailbox.Handoff, Run: "r1", Summary: "half"}, now); err != nil {
					return nil, err
				}
				s = mailbox.HandOff(mailbox.Answers(s, "r1", now), "r1", events.AgentAccount{Plan: []string{"a"}}, now)
				return s.Changes(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			row, err := mailbox.View().Row(w.State, w.Head)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, row)
		}
		if err := rows.Put(t.Context(), mailbox.View().Key("a_b_damaged"), []byte("{")); err != nil {
			t.Fatal(err)
		}
		rep, err := rebuild.All(t.Context(), rebuild.Config{Journal: st.Journal(), State: st.KV(topology.StateBucket), Blobs: st.Blobs(), Now: time.Now,
			Logged: func(context.Context) ([]string, error) { return nil, nil },
			Agents: rebuild.Rows{Journal: log, Rows: rows, Logged: func(context.Context) ([]string, error) { return ids, nil }}})
		if err != nil || rep.Agents[rebuild.Made] != 1 || rep.Agents[rebuild.Corrected] != 1 || rep.Changed() != 2 || len(rep.Faults) > 0 {
			t.Fatalf("%+v, %v", rep, err)
		}
		for i, id := range ids {
			if got, err := rows.Get(t.Context(), mailbox.View().Key(id)); err != nil || !bytes.Equal(got, want[i]) {
				t.Errorf("%s is %s, was %s", id, got, want[i])
			}
		}
	})
}
