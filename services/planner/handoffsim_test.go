package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// kinds counts the events of an address.
func (x *exchange) kinds(address string) map[events.Kind]int {
	x.t.Helper()
	_, id, _ := events.ParseAddress(address)
	n := map[events.Kind]int{}
	for after, more := uint64(0), true; more; {
		var batch []kernel.Record
		var err error
		if batch, more, err = x.st.JournalFor(events.AgentAggregate).Read(x.t.Context(), id, after); err != nil {
			x.t.Fatal(err)
		}
		for _, r := range batch {
			_, p, err := events.ReadAs(r.Bytes, events.AgentAggregate, events.LookupAgent)
			if err != nil {
				x.t.Fatal(err)
			}
			n[p.Kind()]++
			after = r.Seq
		}
	}
	return n
}

func TestHandoffCut(t *testing.T) {
	t.Parallel()
	const agent = "a/b/c0"
	for order, stride := range map[string]int{mailbox.Handoff: 1, mailbox.Restart: 3, mailbox.Stop: 2} {
		t.Run("CONT-11 PERS-12c PERS-13 PRMT-3 a planner that dies at any one operation of a "+order+" leaves one next run with the account, and no mail lost", func(t *testing.T) {
			t.Parallel()
			plays := 0
			for _, late := range []bool{false, true} {
				for op := 0; ; op += stride {
					x := newExchange(t, uint64(op))
					x.addresses = []string{agent}
					x.control(agent, events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
					x.settle()
					mail := func(id string) {
						x.sent[id] = true
						x.control(agent, events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: id, Body: "x"}})
					}
					mail("m0")
					x.settle()
					old := x.look()[0]
					x.works(old, false)
					x.cut, x.late = op, late
					c := events.MailControl{Action: order, By: "anna"}
					if order == mailbox.Handoff {
						c.Summary = "half is done"
					}
					x.control(agent, c)
					mail("m1")
					x.settle()
					if order == mailbox.Stop {
						if s := x.box(agent); s.Holder != nil || !s.Life.Stopped || s.Epoch != 1 {
							t.Fatalf("operation %d, %v: %+v", op, late, s.Mailbox)
						}
						x.control(agent, events.MailControl{Action: mailbox.Start})
					}
					x.rest()
					if x.judge(); t.Failed() {
						t.Fatalf("the planner died at operation %d, after it: %v", op, late)
					}
					x.handedOver(agent, old, order, fmt.Sprintf("operation %d, %v", op, late))
					if plays++; x.deaths == 0 {
						break
					}
				}
			}
			if plays < 12 {
				t.Errorf("only %d plays", plays)
			}
			t.Logf("%d plays", plays)
		})
	}
}

// handedOver holds that the work of a run went to the next one, once.
func (x *exchange) handedOver(agent, old, order, when string) {
	x.t.Helper()
	n, l := x.kinds(agent), x.ledger(events.Planner)
	before, err := l.Fresh(x.t.Context(), old)
	if err != nil {
		x.t.Fatal(err)
	}
	next, err := l.Fresh(x.t.Context(), x.planners[0].cfg.Names.Wake("a_b_c0", 2))
	if err != nil {
		x.t.Fatal(err)
	}
	want, over := events.FinishHandedOff, events.AgentHandedOff
	if order == mailbox.Stop {
		want, over = events.FinishStopped, events.AgentEnded
	}
	if before.Result == nil || before.Result.FinishReason != want || n[over] < 1 || n[events.AgentHandedOff] > 1 || n[events.AgentAsked]+n[events.AgentStopped] != 1 {
		x.t.Fatalf("%s: %+v, %v", when, before.Result, n)
	}
	text := "Run " + old + " was the agent"
	if order == mailbox.Handoff {
		text = "| half is done"
	}
	if next.Created == nil || !strings.Contains(next.Created.Handoff,
		text) || next.Created.Address.Fresh != (order == mailbox.Handoff) {
		x.t.Fatalf("%s: the next run is given %+v", when, next.Created)
	}
	if s := x.box(agent); s.Life.Account != nil {
		x.t.Fatalf("%s: the account stands after the work is done: %+v", when, s.Life.Account)
	}
}

func TestIdleColony(t *testing.T) {
	t.Parallel()
	t.Run("agents that are idle cost nothing: no timer, no message and no event, however long", func(t *testing.T) {
		t.Parallel()
		x := newExchange(t, 1)
		for i := range 6 {
			x.addresses = append(x.addresses, fmt.Sprintf("a/b/c%d", i))
			x.control(x.addresses[i], events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker",
				Respawn: i%2 == 0}})
			x.settle()
			id := fmt.Sprintf("m%d", i)
			x.sent[id] = true
			x.control(x.addresses[i], events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: id, Body: "x"}})
		}
		x.settle()
		if len(x.timers) != 6 {
			t.Errorf("%d working agents are looked at, want 6", len(x.timers))
		}
		x.rest()
		x.judge()
		before := map[string]uint64{}
		for _, a := range x.addresses {
			before[a] = x.box(a).Sequence
		}
		for range 48 {
			x.now = x.now.Add(time.Hour)
			if living := x.look(); len(living)+len(x.waiting)+len(x.timers) != 0 {
				t.Fatalf("%d runs live, %d messages wait, timers %v", len(living), len(x.waiting), x.timers)
			}
		}
		for _, a := range x.addresses {
			if s := x.box(a); s.Sequence != before[a] {
				t.Errorf("%s has %d events, %d before", a, s.Sequence, before[a])
			}
		}
	})
}

func TestOrdersInTrouble(t *testing.T) {
	t.Parallel()
	t.Run("CONT-11 CLI-14a MSG-4 MSG-6 MSG-15 agents that are stopped, started and hand off at any time, with planners that die, lose no mail and are one run", func(t *testing.T) {
		t.Parallel()
		deaths, n := 0, map[events.Kind]int{}
		for seed := range uint64(8) {
			x := newExchange(t, 1000+seed)
			x.orders = true
			x.play()
			deaths += x.deaths
			for _, a := range x.addresses {
				for k, of := range x.kinds(a) {
					n[k] += of
				}
			}
		}
		if deaths < 20 || n[events.AgentHandedOff] < 3 || n[events.AgentStopped] < 1 {
			t.Errorf("only %d deaths, %v", deaths, n)
		}
		t.Logf("%d deaths, %v", deaths, n)
	})
}
