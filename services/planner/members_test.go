package planner

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// TestJustRegistered registers an address with a planner that dies at each operation. Another planner is then asked for
// what names that address, before its row shows the log.
func TestJustRegistered(t *testing.T) {
	t.Parallel()
	for id, c := range map[string]struct {
		address string
		control events.MailControl
	}{
		"MSG-7 a list may have a member": {"list/all", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Members: []string{"a/b/c"}}}},
		"MSG-14 an agent may name an address for what it does not do": {"a/b/d", events.MailControl{Action: mailbox.Register,
			Spec: &events.AddressSpec{Agent: "worker", Escalate: "a/b/c"}}},
		"MSG-14 alerts may go to an address": {events.Everyone, events.MailControl{Action: mailbox.Routes,
			Routes: &events.AlertRoutes{Targets: map[events.Severity][]string{events.SeverityHigh: {"a/b/c"}}}}},
	} {
		t.Run(id+" from its registration on, also where its row is behind its log", func(t *testing.T) {
			t.Parallel()
			behind := 0
			for _, late := range []bool{false, true} {
				for op := 0; ; op++ {
					x := newExchange(t, uint64(op))
					x.control("a/b/c", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
					died := x.cutAt(op, late, x.look, func(ctx context.Context, d delivered) error { return x.handle(ctx, x.planners[0], d) })
					_, key, err := events.ParseAddress("a/b/c")
					if err != nil {
						t.Fatal(err)
					}
					s, err := x.planners[1].Postmaster().Ledger.Fresh(t.Context(), key)
					if err != nil {
						t.Fatal(err)
					}
					rows, err := x.planners[1].Postmaster().Rows.Keys(t.Context(), mailbox.View().Prefix)
					if err != nil {
						t.Fatal(err)
					}
					if s.Exists() && len(rows) == 0 {
						behind++
					}
					b, err := json.Marshal(c.control)
					if err != nil {
						t.Fatal(err)
					}
					_, key, err = events.ParseAddress(c.address)
					if err != nil {
						t.Fatal(err)
					}
					err = x.planners[1].Postmaster().Input(t.Context(), letter{events.AgentSubject("s1", key), string(b), 100})
					if no, refused := errors.AsType[*kernel.Refusal](err); refused != !s.Exists() || refused && no.Code != mailbox.Unknown {
						t.Errorf("operation %d, late %v, registered %v: %v", op, late, s.Exists(), err)
					}
					if !died {
						break
					}
				}
			}
			if behind == 0 {
				t.Error("no row was behind")
			}
		})
	}
}
