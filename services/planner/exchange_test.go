package planner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	random "math/rand/v2"
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
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/team"
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
	// boxes are the mailboxes by their IDs, as far as they were read, and reader reads the runs for look.
	boxes  map[string]readBox
	reader *runlog.Ledger
}

// readBox is a mailbox after the events up to a position of the log.
type readBox struct {
	state mailbox.State
	after uint64
}

// exchangeTimers are timers of planners that die.
type exchangeTimers struct{ x *exchange }

// Set implements kernel.Timers.
func (m exchangeTimers) Set(ctx context.Context, id, name string, at time.Time, _ uint64) error {
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
		now: time.Unix(1, 0).UTC()}, timers: map[string]time.Time{}, told: map[string]bool{}, sent: map[string]bool{}, shown: map[string]string{}, due: map[string]time.Time{}, cut: -1,
		boxes: map[string]readBox{}}
	x.reader = x.ledger(events.Planner)
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
	r, err := assemble(x.t, Config{Ledger: runs, Timers: mortalTimers{x.theater}}, assembly{made: resolve.Config{Agents: manned{roles: x.roles}},
		team: team.Config{Mail: &team.Mailboxes{Ledger: log, Rows: rows, Timers: exchangeTimers{x}, Now: clock}, Work: x.work(rows, clock)}})
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

// box reads one from its log, event by event, from where it was read before.
func (x *exchange) box(address string) mailbox.State {
	x.t.Helper()
	_, id, _ := events.ParseAddress(address)
	s, after := x.boxes[id].state, x.boxes[id].after
	for more := true; more; {
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
	x.boxes[id] = readBox{s, after}
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
	at := map[string]string{}
	for _, id := range x.st.Runs() {
		if x.told[id] {
			continue
		}
		s, err := x.reader.Fresh(x.t.Context(), id)
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

// works has the gatekeeper and the executor go on with a run: its step is permitted, it is given mail, and where
// answers is set its turn ends, which ends the step.
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
