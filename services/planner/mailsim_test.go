package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func (x *exchange) send() {
	n := len(x.sent)
	to := append(slices.Clone(x.addresses), "list/all-of-them")[x.rng.IntN(len(x.addresses)+1)]
	id := fmt.Sprintf("m%d", n)
	x.sent[id] = true
	d := &events.MailDraft{ID: id, Body: "x", Priority: events.Priorities()[x.rng.IntN(4)]}
	d.Interrupt = d.Priority == "urgent" && to != "list/all-of-them"
	x.control(to, events.MailControl{Action: mailbox.Send, Mail: d})
}

// play has people send mail in trouble, and then in peace.
func (x *exchange) play() {
	x.t.Helper()
	for i := range 3 {
		x.addresses = append(x.addresses, fmt.Sprintf("a/b/c%d", i))
		x.control(x.addresses[i], events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker", Interrupts: events.InterruptsOfPeople}})
		x.settle()
	}
	x.control("list/all-of-them", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Members: x.addresses[:1]}})
	x.settle()
	for range 120 {
		living := x.look()
		switch n := x.rng.IntN(16); {
		case n < 8 && len(x.waiting) > 0:
			x.deliver(x.rng.IntN(len(x.waiting)), true)
		case n < 10 && len(x.sent) < 60:
			x.send()
		case n < 14 && len(living) > 0:
			x.works(living[x.rng.IntN(len(living))], x.rng.IntN(3) > 0)
		case n == 14 && len(living) > 0 && x.rng.IntN(3) == 0:
			x.stop(living[x.rng.IntN(len(living))])
		case n == 14 && len(living) > 0 && x.rng.IntN(3) == 0:
			x.settle()
			x.interrupted()
		case n == 15 && x.orders && x.rng.IntN(2) == 0:
			x.control(x.addresses[x.rng.IntN(len(x.addresses))], events.MailControl{By: "anna",
				Action: []string{mailbox.Handoff, mailbox.Handoff, mailbox.Restart, mailbox.Stop, mailbox.Start}[x.rng.IntN(5)]})
		case n == 15:
			x.now = x.now.Add(time.Duration(x.rng.IntN(60)) * time.Second)
		}
	}
	x.rest()
	x.judge()
}

// rest has all work be done.
func (x *exchange) rest() {
	x.t.Helper()
	for x.settle(); x.orders; x.orders = false {
		for _, a := range x.addresses {
			if s := x.box(a); s.Life.Stopped {
				x.control(a, events.MailControl{Action: mailbox.Start})
			}
		}
		x.settle()
	}
	for range 200 {
		x.settle()
		x.interrupted()
		for _, a := range x.addresses {
			if s := x.box(a); s.Holder == nil && len(s.Pending) > 0 && !x.now.Before(s.NotBefore) && len(x.roles) == 0 {
				x.t.Fatalf("seed %d: agent %s sleeps, and %d messages wait", x.seed, a, len(s.Pending))
			} else if s.Holder != nil && !s.Holder.Started {
				x.t.Fatalf("seed %d: agent %s was woken, and no one begins run %s", x.seed, a, s.Holder.Run)
			}
		}
		living := x.look()
		for _, id := range living {
			x.goesOn(id)
		}
		if len(living) == 0 && len(x.waiting) == 0 && len(x.timers) == 0 {
			break
		}
		if len(living) == 0 {
			x.now = x.now.Add(time.Minute)
		}
	}
}

// interrupted holds, where nothing is left to be delivered, that each message which interrupts has ended the answer of
// the run that is its agent, and that the row shows it to the executor.
func (x *exchange) interrupted() {
	x.t.Helper()
	for _, a := range x.addresses {
		of := x.box(a)
		if of.Holder == nil || !of.Holder.Started {
			continue
		}
		s, err := x.ledger(events.Executor).Fresh(x.t.Context(), of.Holder.Run)
		if err != nil {
			x.t.Fatal(err)
		}
		row, err := x.st.KV(topology.SessionBucket).Get(x.t.Context(), mailbox.View().Key(of.ID))
		shown, _, ok := mailbox.View().Read(row)
		if err != nil || !ok {
			x.t.Fatal(ok, err)
		}
		for _, m := range of.Interrupting(x.now) {
			switch {
			case s.Status != events.Running || s.HasMail(m.ID):
			case len(s.Messages) == 0 && shown.Interrupted(s.HarnessID, s.HasMail, x.now): // it came before the first turn, which is given it
			case !s.WasCut(m.ID) && s.Cuts() < events.MaxInterrupts:
				x.t.Fatalf("seed %d: mail %s waits for %s, and run %s was not interrupted", x.seed, m.ID, a, s.HarnessID)
			case !shown.Interrupted(s.HarnessID, s.HasMail, x.now):
				x.t.Fatalf("seed %d: mail %s interrupted run %s, and the executor does not find it", x.seed, m.ID, s.HarnessID)
			}
			x.cuts++
		}
	}
}

// goesOn has a run do its work. Where its planner died in the middle of its beginning, run.created is delivered again,
// and a run without a plan is stopped: it is too young for the planner to plan it again.
func (x *exchange) goesOn(id string) {
	x.t.Helper()
	s, err := x.ledger(events.Planner).Fresh(x.t.Context(), id)
	switch {
	case err != nil:
		x.t.Fatal(err)
	case s.Plan == nil && s.Status == events.Running:
		x.stop(id)
	case s.Plan != nil && s.Plan.Steps[0].Status == events.StepIsPending:
		x.waiting = append(x.waiting, delivered{what: string(events.RunCreated), run: id})
	default:
		x.works(id, true)
	}
}

// judge holds that each message was given to one turn and acknowledged once, and that rows show the logs.
func (x *exchange) judge() {
	x.t.Helper()
	for id := range x.sent {
		if x.shown[id] == "" {
			x.t.Errorf("seed %d: mail %s was given to no turn", x.seed, id)
		}
	}
	acked := map[string]string{}
	for _, a := range x.addresses {
		s := x.box(a)
		if s.Holder != nil || len(s.Pending) > 0 {
			x.t.Errorf("seed %d: address %s is %+v, %d messages wait", x.seed, a, s.Holder, len(s.Pending))
		}
		for _, d := range s.Done {
			if acked[d.ID] != "" || d.State != events.MailIsAcknowledged || d.Run != x.shown[d.ID] {
				x.t.Errorf("seed %d: %+v, shown to run %q, acknowledged before by %q", x.seed, d, x.shown[d.ID], acked[d.ID])
			}
			acked[d.ID] = d.Run
		}
	}
	if len(acked) != len(x.sent) {
		x.t.Errorf("seed %d: %d messages were acknowledged, %d sent", x.seed, len(acked), len(x.sent))
	}
}

func TestMailInTrouble(t *testing.T) {
	t.Parallel()
	t.Run("MSG-1 MSG-2 MSG-4 MSG-6 MSG-7 MSG-15 planners that die at any operation lose no mail and no interrupt, and give none to two turns", func(t *testing.T) {
		t.Parallel()
		deaths, sent, turns, cuts := 0, 0, 0, 0
		for seed := range uint64(10) {
			x := newExchange(t, seed)
			x.play()
			deaths, sent, turns = deaths+x.deaths, sent+len(x.sent), turns+x.turns
			cuts += x.cuts
		}
		if deaths < 40 || sent < 100 || turns < 60 || cuts < 5 {
			t.Errorf("only %d deaths, %d messages, %d turns, %d interrupts", deaths, sent, turns, cuts)
		}
		t.Logf("%d deaths, %d messages, %d turns, %d interrupts", deaths, sent, turns, cuts)
	})
}

func TestMailCut(t *testing.T) {
	t.Parallel()
	t.Run("MSG-2 MSG-4 MSG-6 MSG-7 MSG-15 SAFE-3 a planner that dies at any one operation loses no mail, and leaves no agent asleep that has some", func(t *testing.T) {
		t.Parallel()
		plays := 0
		for _, late := range []bool{false, true} {
			for op := 0; ; op++ {
				x := newExchange(t, uint64(op))
				x.addresses = []string{"a/b/c0", "a/b/c1"}
				for _, a := range x.addresses {
					x.control(a, events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
					x.settle()
				}
				x.control("list/one", events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Members: x.addresses[1:]}})
				x.settle()
				x.cut, x.late = op, late
				mail := func(to, id string) {
					x.sent[id] = true
					x.control(to, events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: id, Body: "x"}})
				}
				mail("a/b/c0", "m0")
				mail("list/one", "m1")
				x.settle()
				for _, id := range x.look() {
					x.works(id, false)
				}
				mail("a/b/c0", "m2") // the agent is at work, and this waits for its next run
				x.settle()
				for _, id := range x.look() {
					s, err := x.ledger(events.Executor).Fresh(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					if s.HasMail("m0") {
						x.finish(id, s)
					}
				}
				x.rest()
				if x.judge(); t.Failed() {
					t.Fatalf("the planner died at operation %d, after it: %v", op, late)
				}
				if plays++; x.deaths == 0 {
					break
				}
			}
		}
		if plays < 60 {
			t.Errorf("only %d plays", plays)
		}
		t.Logf("%d plays", plays)
	})
}
