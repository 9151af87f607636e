package planner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	random "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// exchange is a theater whose planners have mail. Its executor is played by the test, from the rows as a real one.
type exchange struct {
	*theater
	planners  [2]*Role
	addresses []string
	timers    map[string]time.Time
	told      map[string]bool
	sent      map[string]bool
	// shown is the run whose turn was given a message.
	shown map[string]string
	turns int
	// cuts counts the messages that were found to have interrupted a run.
	cuts int
	// orders has people stop and start agents and have them hand off, too.
	orders bool
	// cut is how many operations all planners together have before one of them dies, once; none where it is negative.
	cut int
	// items are work items, and due when they are looked at again.
	items []string
	due   map[string]time.Time
	// roles are those of every definition; with them at most one agent is a run at a time.
	roles []events.AgentRole
}

// exchangeTimers are timers of planners that die.
type exchangeTimers struct{ x *exchange }

// Set implements kernel.Timers.
func (m exchangeTimers) Set(ctx context.Context, id, name string, at time.Time) error {
	if ctx.Err() != nil || m.x.dies(func() {
		switch name {
		case mailTimer:
			m.x.timers[id] = at
		case expiryTimer:
			m.x.due[id] = at
		}
	}) {
		return errCut
	}
	return nil
}

func newExchange(t *testing.T, seed uint64) *exchange {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{theater: &theater{t: t, seed: seed, rng: random.New(random.NewPCG(seed, 0xa11)), st: st, left: -1,
		now: time.Unix(1, 0).UTC()}, timers: map[string]time.Time{}, told: map[string]bool{}, sent: map[string]bool{}, shown: map[string]string{}, due: map[string]time.Time{}, cut: -1}
	for i := range x.planners {
		x.planners[i] = x.planner()
	}
	return x
}

// planner is one that knows nothing.
func (x *exchange) planner() *Role {
	x.t.Helper()
	runs, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: mortalLog{x.st.JournalOf(events.Planner), x.theater}, Entropy: rand.Reader})
	if err != nil {
		x.t.Fatal(err)
	}
	clock := func() time.Time { return x.now }
	rows := mortalRows{x.st.KV(topology.SessionBucket), x.theater}
	log, err := mailbox.NewLedger(mailbox.LedgerConfig{Station: "s1", By: events.Planner, Journal: mortalLog{x.st.JournalFor(events.AgentAggregate), x.theater},
		Snapshots: mailbox.View().Snapshots(rows), Entropy: rand.Reader, Now: clock})
	if err != nil {
		x.t.Fatal(err)
	}
	r, err := New(Config{Station: "s1", Ledger: runs, Timers: mortalTimers{x.theater}, Agents: manned{roles: x.roles}, ChildKey: []byte("key"),
		Aggregates: Aggregates{Mail: &Mailboxes{Ledger: log, Rows: rows, Timers: exchangeTimers{x}, Now: clock}, Work: x.work(rows, clock)}})
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

func (x *exchange) control(address string, c events.MailControl) {
	_, id, err := events.ParseAddress(address)
	if err != nil {
		x.t.Fatal(err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		x.t.Fatal(err)
	}
	x.inputs++
	x.waiting = append(x.waiting, delivered{what: "control", run: address, message: letter{events.AgentSubject("s1", id), string(b), x.inputs}})
}

// deliver has one of the planners handle a message; it stays where that one died or wants it again.
func (x *exchange) deliver(i int, trouble bool) {
	x.t.Helper()
	x.waiting[i].times++
	d := x.waiting[i]
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	x.kill, x.left = cancel, x.cut
	if x.cut < 0 {
		x.late = false
	}
	if trouble && x.rng.IntN(2) == 0 {
		x.left, x.late = x.rng.IntN(12), x.rng.IntN(2) == 0
	}
	at := x.rng.IntN(len(x.planners))
	err := x.handle(ctx, x.planners[at], d)
	if x.cut >= 0 {
		x.cut = x.left
	}
	if ctx.Err() != nil {
		x.cut = -1
		x.planners[at] = x.planner()
		return
	}
	x.left = -1
	if no, refused := errors.AsType[*kernel.Refusal](err); err == nil || refused {
		if refused && d.what == "control" && !((x.orders || len(x.items) > 0) && no.Code == mailbox.BadMove) {
			x.t.Fatalf("seed %d: %s was refused: %v", x.seed, d.message.body, err)
		}
		x.waiting = append(x.waiting[:i], x.waiting[i+1:]...)
		return
	}
	if _, again := errors.AsType[*kernel.RetryAfter](err); !again {
		x.t.Fatalf("seed %d: %s: %v", x.seed, d.what, err)
	}
}

func (x *exchange) handle(ctx context.Context, r *Role, d delivered) error {
	switch d.what {
	case "due":
		return r.Postmaster().Due(ctx, kernel.Due[mailbox.State]{ID: d.run, Name: mailTimer, Deliveries: 1})
	case "control":
		return r.Postmaster().Input(ctx, d)
	case "item":
		return r.Assigner().Input(ctx, d)
	case "item due":
		return r.Assigner().Due(ctx, kernel.Due[work.State]{ID: d.run, Name: expiryTimer, Deliveries: 1})
	case "stop":
		return r.Input(ctx, d.message)
	}
	s, err := r.cfg.Ledger.Fresh(ctx, d.run)
	if err != nil {
		return err
	}
	return r.Event(ctx, runlog.ReceivedEvent{Run: d.run, Kind: events.Kind(d.what), State: s, Step: "step-1", Deliveries: d.times,
		Stored: x.requested(d.run)})
}

// box reads one from its log, event by event.
func (x *exchange) box(address string) (s mailbox.State) {
	x.t.Helper()
	_, id, _ := events.ParseAddress(address)
	for after, more := uint64(0), true; more; {
		var batch []kernel.Record
		var err error
		if batch, more, err = x.st.JournalFor(events.AgentAggregate).Read(x.t.Context(), id, after); err != nil {
			x.t.Fatal(err)
		}
		for _, r := range batch {
			f, p, err := events.ReadAs(r.Bytes, events.AgentAggregate, events.LookupAgent)
			if err == nil {
				s, err = mailbox.Aggregate().Apply(s, f, p, events.HashOf(r.Bytes))
			}
			if err != nil {
				x.t.Fatalf("seed %d: %v", x.seed, err)
			}
			after = r.Seq
		}
	}
	return s
}

func (x *exchange) ledger(by events.Service) *runlog.Ledger {
	x.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: by, Journal: x.st.JournalOf(by), Entropy: rand.Reader})
	if err != nil {
		x.t.Fatal(err)
	}
	return l
}

// look holds that no agent is two runs, or one that its address does not name, and returns the runs that live.
func (x *exchange) look() (living []string) {
	x.t.Helper()
	l, at := x.ledger(events.Planner), map[string]string{}
	for _, id := range x.st.Runs() {
		if x.told[id] {
			continue
		}
		s, _, err := l.State(x.t.Context(), id)
		if err != nil || s.Created.Address == nil {
			x.t.Fatalf("seed %d: run %s: %v, %+v", x.seed, id, err, s.Created)
		}
		address := s.Created.Address.Address
		switch {
		case s.Status.Ended():
			x.told[id] = true
			x.waiting = append(x.waiting, delivered{what: string(events.RunCompleted), run: id})
			continue
		case s.Status != events.Created:
			if at[address] != "" {
				x.t.Fatalf("seed %d: runs %s and %s are both %s", x.seed, at[address], id, address)
			}
			at[address] = id
			if len(x.roles) > 0 && len(at) > 1 {
				x.t.Fatalf("seed %d: %v are at work, and one may be", x.seed, at)
			}
			if of := x.box(address); !of.Holds(s.Created.Address.Epoch, id) || !of.Holder.Started {
				x.t.Fatalf("seed %d: run %s is %s, which is %+v", x.seed, id, address, of.Holder)
			}
			x.holds(id, s)
		}
		living = append(living, id)
	}
	for id, due := range x.timers {
		if !due.After(x.now) {
			delete(x.timers, id)
			x.waiting = append(x.waiting, delivered{what: "due", run: id})
		}
	}
	for id, due := range x.due {
		if !due.After(x.now) {
			delete(x.due, id)
			x.waiting = append(x.waiting, delivered{what: "item due", run: id})
		}
	}
	return living
}

// works has the gatekeeper and the executor go on with a run: its step is permitted, it is given mail, and where answers is
// set its turn ends, which ends the step.
func (x *exchange) works(id string, answers bool) {
	x.t.Helper()
	ctx, l := x.t.Context(), x.ledger(events.Executor)
	s, err := l.Fresh(ctx, id)
	if err != nil {
		x.t.Fatal(err)
	}
	st := s.Step("step-1")
	if st == nil || s.Status != events.Running {
		return
	}
	if st.Status == events.StepIsReady {
		w, err := x.ledger(events.Gatekeeper).Write(ctx, id, func(run.State, time.Time) ([]events.Payload, error) {
			return []events.Payload{runtest.Allowed("step-1")}, nil
		})
		if s = w.State; err != nil {
			x.t.Fatal(err)
		}
	}
	task := turn.Next(s, "step-1", x.now).Ask
	if task == nil {
		return
	}
	_, box, _ := events.ParseAddress(s.Created.Address.Address)
	row, err := x.st.KV(topology.SessionBucket).Get(ctx, mailbox.View().Key(box))
	if err != nil {
		x.t.Fatal(err)
	}
	shown, _, _ := mailbox.View().Read(row)
	w, err := l.Write(ctx, id, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return turn.Inject(s, *task, shown.Inject(id, "step-1", s.HasMail, x.now)), nil
	})
	if err == nil && len(w.Events) > 0 {
		x.waiting = append(x.waiting, delivered{what: string(events.MailInjected), run: id})
	}
	if err != nil {
		x.t.Fatal(err)
	}
	if answers {
		x.finish(id, w.State)
	}
}

// finish ends the turn of a run, and with it the step.
func (x *exchange) finish(id string, s run.State) {
	x.t.Helper()
	task := turn.Next(s, "step-1", x.now).Ask
	if task == nil {
		return
	}
	w, err := x.ledger(events.Executor).Write(x.t.Context(), id, func(s run.State, _ time.Time) ([]events.Payload, error) {
		return turn.Finish(s, *task, turn.Answer{Data: events.TurnFinishedData{Text: "read", FinishReason: events.FinishDone, Model: "m", Provider: "p"}}), nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
	x.waiting = append(x.waiting, delivered{what: string(events.StepFinished), run: id})
	x.turns++
	for _, m := range w.State.Messages {
		for _, of := range m.Mail {
			if x.shown[of] != "" {
				x.t.Fatalf("seed %d: mail %s was given to a turn of run %s and to one of run %s", x.seed, of, x.shown[of], id)
			}
			x.shown[of] = id
		}
	}
}

// settle has all that waits be delivered: the rows show the logs then.
func (x *exchange) settle() {
	x.t.Helper()
	x.drain()
	x.rows()
}

// drain has all that waits be delivered, while a test holds back a message that is not acknowledged.
func (x *exchange) drain() {
	x.t.Helper()
	for n := 0; ; n++ {
		if x.look(); len(x.waiting) == 0 {
			return
		}
		if n > 2000 {
			x.t.Fatalf("seed %d: it does not come to rest: %+v", x.seed, x.waiting)
		}
		x.deliver(n%len(x.waiting), false)
	}
}

// rows holds that the rows show the logs, once all messages are acknowledged.
func (x *exchange) rows() {
	x.t.Helper()
	for _, a := range x.addresses {
		s := x.box(a)
		rowShows(x.theater, mailbox.View(), s.ID, s)
	}
	for _, id := range x.items {
		s, _ := x.item(id)
		rowShows(x.theater, work.View(), id, s)
	}
}

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

// interrupted holds, where nothing is left to be delivered, that each message which interrupts has ended the answer of the
// run that is its agent, and that the row shows it to the executor.
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

// goesOn has a run do its work. Where its planner died in the middle of its beginning, run.created is delivered again, and a
// run without a plan is stopped: it is too young for the planner to plan it again.
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
