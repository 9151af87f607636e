package planner

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/team"
)

// work is where planners of an exchange have work items.
func (x *exchange) work(rows kernel.KV, clock func() time.Time) *team.WorkItems {
	x.t.Helper()
	log, err := work.NewLedger(work.LedgerConfig{Station: "s1", By: events.Planner,
		Journal: mortalLog{x.st.JournalFor(events.WorkAggregate), x.theater}, Snapshots: work.View().Snapshots(rows), Entropy: rand.Reader, Now: clock})
	if err != nil {
		x.t.Fatal(err)
	}
	return &team.WorkItems{Ledger: log, Rows: rows, Timers: exchangeTimers{x}, Now: clock}
}

func (x *exchange) wants(item string, c events.WorkControl) {
	b, err := json.Marshal(c)
	if err != nil {
		x.t.Fatal(err)
	}
	x.inputs++
	x.waiting = append(x.waiting, delivered{what: "item", run: item, message: letter{events.WorkSubject("s1", item), string(b), x.inputs}})
}

func (x *exchange) adds(item string) {
	x.items = append(x.items, item)
	x.wants(item, events.WorkControl{Action: work.Add, Spec: &events.WorkSpec{Title: "do " + item}})
	x.settle()
}

func assigns(address string) events.WorkControl {
	return events.WorkControl{Action: work.Assign, Dispatch: &events.WorkDispatch{Address: address}, Start: true, By: "anna"}
}

// item reads one from its log, event by event.
func (x *exchange) item(id string) (s work.State, kinds []string) {
	o := office{theater: x.theater}
	s, all := o.item(id)
	for _, p := range all {
		kinds = append(kinds, strings.TrimPrefix(string(p.Kind()), "work."))
	}
	return s, kinds
}

// holds holds that a run that was begun with a work item has that item, and that its agent knows.
func (x *exchange) holds(id string, s run.State) {
	x.t.Helper()
	of := s.Created.Work
	if of == nil || s.Plan == nil { // nothing of it has begun
		return
	}
	item, _ := x.item(of.Work)
	if !item.Holds(of.Epoch, id) || !item.Binding.Started || item.Binding.AgentEpoch != s.Created.Address.Epoch {
		_, kinds := x.item(of.Work)
		x.t.Fatalf("seed %d: run %s works on item %s (binding %d), whose holder is %+v: %v", x.seed, id, of.Work, of.Epoch, item.Binding, kinds)
	}
	if now := x.box(s.Created.Address.Address).Life.Work; now == nil || *now != *of {
		x.t.Fatalf("seed %d: run %s works on item %s, and its agent on %+v", x.seed, id, of.Work, now)
	}
}

// consistent holds, where nothing is left to be delivered, that an item and its agent name each other.
func (x *exchange) consistent() {
	x.t.Helper()
	held := map[string]string{}
	for _, id := range x.items {
		s, _ := x.item(id)
		if s.Binding == nil {
			continue
		}
		address := s.Binding.Address
		if held[address] != "" {
			x.t.Fatalf("seed %d: %s holds the items %s and %s", x.seed, address, held[address], id)
		}
		held[address] = id
		if of := x.box(address).Life.Work; of == nil || *of != (events.WorkRef{Work: id, Epoch: s.Epoch}) {
			x.t.Fatalf("seed %d: item %s is held by %s, which works on %+v", x.seed, id, address, of)
		}
	}
}

func TestHeldItemCut(t *testing.T) {
	t.Parallel()
	const agent = "a/b/c0"
	again := "created bound started handed-off started closed"
	for order, of := range map[string]struct {
		want   string
		stride int
	}{mailbox.Handoff: {again, 1}, mailbox.Restart: {again, 5}, mailbox.Stop: {again, 3}, "": {"created bound started closed", 3}} {
		t.Run("WORK-4 WORK-5 CONT-12 SAFE-3 a planner that dies at any one operation leaves an item with its agent, whose next run goes on with it: "+order, func(t *testing.T) {
			t.Parallel()
			plays := 0
			for _, late := range []bool{false, true} {
				for op := 0; ; op += of.stride {
					x := newExchange(t, uint64(op))
					x.addresses = []string{agent}
					x.control(agent, events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
					x.settle()
					x.adds("w")
					x.cut, x.late = op, late
					x.wants("w", assigns(agent))
					x.settle()
					x.consistent()
					x.ordered(agent, order)
					if x.deaths == 0 { // no clock has to go on for it
						for range 2 { // the executor knows of the permission once it has looked again
							for _, id := range x.look() {
								x.works(id, true)
							}
							x.settle()
						}
						if of := x.box(agent); of.Holder != nil || of.Life.Work != nil {
							t.Fatalf("the item is done, and its agent is %+v", of.Mailbox)
						}
					}
					x.rest()
					x.consistent()
					s, kinds := x.item("w")
					got := strings.Join(kinds, " ")
					// Where its planner died in the middle of its beginning a run of the test has no plan, and a
					// person stops it.
					stopped := s.Status == events.WorkIsOpen && s.Last != nil && s.Last.Code == events.WorkFailed
					if got != of.want && !stopped || s.Binding != nil || x.box(agent).Holder != nil || x.box(agent).Life.Work != nil {
						t.Fatalf("operation %d, %v: %s, %+v, %+v", op, late, got, s.WorkItem, x.box(agent).Mailbox)
					}
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

// ordered has an agent that works on an item do something else first.
func (x *exchange) ordered(agent, order string) {
	x.t.Helper()
	living := x.look()
	if order == "" || len(living) == 0 {
		return
	}
	x.works(living[0], false)
	x.control(agent, events.MailControl{Action: order, By: "anna"})
	x.settle()
	if order == mailbox.Stop {
		if s := x.box(agent); s.Holder != nil || !s.Life.Stopped {
			x.t.Fatalf("seed %d: %+v", x.seed, s.Mailbox)
		}
		x.control(agent, events.MailControl{Action: mailbox.Start})
		x.settle()
	}
	x.consistent()
}

func TestHeldItemsInTrouble(t *testing.T) {
	t.Parallel()
	t.Run("WORK-3 WORK-4 WORK-7 WORK-8 PROP-21 agents that are given items, hand off, are stopped and get mail, with planners that die, have one item each, which names them", func(t *testing.T) {
		t.Parallel()
		deaths, went := 0, map[string]int{}
		for seed := range uint64(6) {
			x := newExchange(t, 3000+seed)
			x.orders = true
			for i := range 2 {
				x.addresses = append(x.addresses, fmt.Sprintf("a/b/c%d", i))
				x.control(x.addresses[i], events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker", Respawn: i == 1}})
				x.settle()
			}
			for i := range 3 {
				x.adds(fmt.Sprintf("w%d", i))
			}
			x.hustle()
			x.rest()
			x.freed()
			x.judge()
			deaths += x.deaths
			for _, id := range x.items {
				_, kinds := x.item(id)
				for _, k := range kinds {
					went[k]++
				}
			}
		}
		if deaths < 30 || went["handed-off"] < 3 || went["closed"] < 4 || went["unbound"] < 3 {
			t.Errorf("only %d deaths, %v", deaths, went)
		}
		t.Logf("%d deaths, %v", deaths, went)
	})
}

// hustle has people do all that they can, in trouble.
func (x *exchange) hustle() {
	x.t.Helper()
	for range 160 {
		living, item, agent := x.look(), x.items[x.rng.IntN(len(x.items))], x.addresses[x.rng.IntN(len(x.addresses))]
		switch n := x.rng.IntN(20); {
		case n < 9 && len(x.waiting) > 0:
			x.deliver(x.rng.IntN(len(x.waiting)), true)
		case n < 12:
			c := assigns(agent)
			c.Start = x.rng.IntN(4) > 0
			x.wants(item, c)
		case n == 12:
			x.wants(item, events.WorkControl{Action: []string{work.Unassign, work.Start}[x.rng.IntN(2)]})
		case n < 16 && len(living) > 0:
			x.works(living[x.rng.IntN(len(living))], x.rng.IntN(3) == 0)
		case n == 16 && len(living) > 0 && x.rng.IntN(3) == 0:
			x.stop(living[x.rng.IntN(len(living))])
		case n == 17 && x.rng.IntN(2) == 0:
			x.control(agent, events.MailControl{By: "anna",
				Action: []string{mailbox.Handoff, mailbox.Handoff, mailbox.Restart, mailbox.Stop, mailbox.Start}[x.rng.IntN(5)]})
		case n == 18 && len(x.sent) < 10:
			id := fmt.Sprintf("m%d", len(x.sent))
			x.sent[id] = true
			x.control(agent, events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: id, Body: "x"}})
		case n == 19:
			x.now = x.now.Add(time.Duration(x.rng.IntN(6)) * time.Minute)
		}
	}
}

// freed has items that were never started expire, and holds that none is lost.
func (x *exchange) freed() {
	x.t.Helper()
	x.now = x.now.Add(time.Hour)
	x.rest()
	x.consistent()
	for _, id := range x.items {
		if s, kinds := x.item(id); s.Binding != nil || s.Status == events.WorkIsBound {
			x.t.Errorf("seed %d: item %s is held by %+v, which is %+v: %v", x.seed, id, s.Binding, x.box(s.Binding.Address).Mailbox, kinds)
		}
	}
}

func TestBounceNoticeCut(t *testing.T) {
	t.Parallel()
	t.Run("DLV-2 DLV-3 MSG-17 SAFE-3 a planner that dies at any one operation after a delivery bounced has the agent that made the work be told once", func(t *testing.T) {
		t.Parallel()
		const maker = "a/b/c1"
		plays := 0
		for _, late := range []bool{false, true} {
			for op := 0; ; op++ {
				x := newExchange(t, uint64(op))
				for _, address := range []string{"a/b/c0", maker} {
					x.control(address, events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
				}
				x.adds("w")
				c := assigns("a/b/c0")
				c.Dispatch.Repo, c.Dispatch.Branch, c.Dispatch.Deliver = "https://host/repo", "main", &events.WorkDeliver{Maker: maker}
				x.wants("w", c)
				x.settle()
				item, _ := x.item("w")
				b := item.Binding
				if b == nil || !b.Started {
					t.Fatalf("the item is held by %+v", b)
				}
				if _, err := x.planners[0].Assigner().Change(t.Context(), "w", func(s work.State) (work.State, error) {
					return work.Deliver(s, b.Epoch, b.Run, work.Seen{Run: &events.Delivery{Note: "there is nothing"}}, x.now), nil
				}); err != nil {
					t.Fatal(err)
				}
				x.cut, x.late = op, late
				x.waiting = append(x.waiting, delivered{what: "item due", run: "w"})
				for n := 0; len(x.waiting) > 0; n++ {
					if x.deliver(0, false); n > 100 {
						t.Fatalf("operation %d, %v: it does not come to rest: %+v", op, late, x.waiting)
					}
				}
				item, kinds := x.item("w")
				var told []events.DeliveryNotice
				for _, n := range item.Delivery.Notices {
					if n.Target == events.NoticeMaker {
						told = append(told, n)
					}
				}
				box := x.box(maker)
				if item.Delivery.Phase != events.DeliveryIsBounced || len(told) != 1 || told[0].To != maker || len(box.Pending) != 1 ||
					box.Pending[0].ID != told[0].Mail || x.kinds(maker)[events.MailSent] != 1 {
					t.Fatalf("operation %d, %v: %v, %+v, its mailbox has %+v", op, late, kinds, item.Delivery, box.Pending)
				}
				if plays++; x.deaths == 0 {
					break
				}
			}
		}
		if plays < 6 {
			t.Errorf("only %d plays", plays)
		}
		t.Logf("%d plays", plays)
	})
}
