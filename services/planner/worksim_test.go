package planner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	random "math/rand/v2"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/team"
)

// office is a theater whose planners have work items, which dispatchers want for their agents.
type office struct {
	*theater
	planners [2]*Role
	items    []string
	timers   map[string]time.Time
	told     map[string]bool
	assigned map[uint64]string
	// made happens once, after the next run was created and before its planner goes on.
	made func()
}

// officeRuns is the log of runs of planners that others overtake.
type officeRuns struct {
	mortalLog
	o *office
}

// Append implements kernel.Journal.
func (l officeRuns) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	ack := l.mortalLog.Append(ctx, e)
	if do := l.o.made; do != nil && e.Kind == events.RunCreated {
		l.o.made = nil
		do()
	}
	return ack
}

// officeTimers are timers of planners that die.
type officeTimers struct{ o *office }

// Set implements kernel.Timers.
func (m officeTimers) Set(ctx context.Context, id, name string, at time.Time, _ uint64) error {
	if ctx.Err() != nil || m.o.dies(func() {
		if name == expiryTimer {
			m.o.timers[id] = at
		}
	}) {
		return errCut
	}
	return nil
}

func newOffice(t *testing.T, seed uint64) *office {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{theater: &theater{t: t, seed: seed, rng: random.New(random.NewPCG(seed, 0x0ff1ce)), st: st, left: -1,
		now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}, timers: map[string]time.Time{}, told: map[string]bool{}, assigned: map[uint64]string{}}
	for i := range o.planners {
		o.planners[i] = o.planner()
	}
	return o
}

// planner is one that knows nothing.
func (o *office) planner() *Role {
	o.t.Helper()
	runs, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: officeRuns{mortalLog{o.st.JournalOf(events.Planner), o.theater}, o}, Entropy: rand.Reader})
	if err != nil {
		o.t.Fatal(err)
	}
	clock := func() time.Time { return o.now }
	rows := mortalRows{o.st.KV(topology.SessionBucket), o.theater}
	log, err := work.NewLedger(work.LedgerConfig{Station: "s1", By: events.Planner, Journal: mortalLog{o.st.JournalFor(events.WorkAggregate), o.theater},
		Snapshots: work.View().Snapshots(rows), Entropy: rand.Reader, Now: clock})
	if err != nil {
		o.t.Fatal(err)
	}
	r, err := assemble(o.t, Config{Ledger: runs, Timers: mortalTimers{o.theater}}, assembly{made: resolve.Config{Agents: anybody{}},
		team: team.Config{Work: &team.WorkItems{Ledger: log, Rows: rows, Timers: officeTimers{o}, Now: clock}}})
	if err != nil {
		o.t.Fatal(err)
	}
	return r
}

func (o *office) control(item string, c events.WorkControl) {
	b, err := json.Marshal(c)
	if err != nil {
		o.t.Fatal(err)
	}
	o.inputs++
	if c.Action == work.Assign {
		o.assigned[o.inputs] = item
	}
	o.waiting = append(o.waiting, delivered{what: "control", run: item, message: letter{events.WorkSubject("s1", item), string(b), o.inputs}})
}

// deliver has one of the planners handle a message; it stays where that one died or wants it again.
func (o *office) deliver(i int, trouble bool) {
	o.t.Helper()
	o.waiting[i].times++
	d := o.waiting[i]
	ctx, cancel := context.WithCancel(o.t.Context())
	defer cancel()
	o.kill, o.left, o.late = cancel, -1, false
	if trouble && o.rng.IntN(2) == 0 {
		o.left, o.late = o.rng.IntN(9), o.rng.IntN(2) == 0
	}
	at := o.rng.IntN(len(o.planners))
	err := o.handle(ctx, o.planners[at], d)
	if ctx.Err() != nil {
		o.planners[at] = o.planner()
		return
	}
	o.left = -1
	if _, refused := errors.AsType[*kernel.Refusal](err); err == nil || refused {
		o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
		return
	}
	if _, again := errors.AsType[*kernel.RetryAfter](err); !again {
		o.t.Fatalf("seed %d: %s: %v", o.seed, d.what, err)
	}
}

func (o *office) handle(ctx context.Context, r *Role, d delivered) error {
	switch d.what {
	case "due":
		return r.Assigner().Due(ctx, kernel.Due[work.State]{ID: d.run, Name: expiryTimer, Deliveries: 1})
	case "control":
		return r.Assigner().Input(ctx, d.message)
	case "stop":
		return r.Input(ctx, d.message)
	}
	s, err := r.cfg.Ledger.Fresh(ctx, d.run)
	if err != nil {
		return err
	}
	return r.Event(ctx, runlog.ReceivedEvent{Run: d.run, Kind: events.RunFailed, State: s, Deliveries: d.times})
}

// item reads one from its log, event by event.
func (o *office) item(id string) (s work.State, all []events.Payload) {
	o.t.Helper()
	for after, more := uint64(0), true; more; {
		var batch []kernel.Record
		var err error
		if batch, more, err = o.st.JournalFor(events.WorkAggregate).Read(o.t.Context(), id, after); err != nil {
			o.t.Fatal(err)
		}
		for _, r := range batch {
			f, p, err := events.ReadAs(r.Bytes, events.WorkAggregate, events.LookupWork)
			if err == nil {
				s, err = work.Aggregate().Apply(s, f, p, events.HashOf(r.Bytes))
			}
			if err != nil {
				o.t.Fatalf("seed %d: %v", o.seed, err)
			}
			all, after = append(all, p), r.Seq
		}
	}
	return s, all
}

// look holds that no item is worked on by two runs, or by one that does not hold it, and returns the runs that live.
func (o *office) look() (living []string) {
	o.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: o.st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		o.t.Fatal(err)
	}
	at := map[string]string{}
	for _, id := range o.st.Runs() {
		if o.told[id] {
			continue
		}
		s, _, err := l.State(o.t.Context(), id)
		if err != nil || s.Created.Work == nil {
			o.t.Fatalf("seed %d: run %s: %v, %+v", o.seed, id, err, s.Created)
		}
		item := s.Created.Work.Work
		switch {
		case s.Status.Ended():
			o.told[id] = true
			o.waiting = append(o.waiting, delivered{what: "ended", run: id})
			continue
		case s.Status != events.Created:
			if at[item] != "" {
				o.t.Fatalf("seed %d: runs %s and %s both work on item %s", o.seed, at[item], id, item)
			}
			at[item] = id
			if of, _ := o.item(item); !of.Holds(s.Created.Work.Epoch, id) || !of.Binding.Started {
				o.t.Fatalf("seed %d: run %s works on item %s, whose holder is %+v", o.seed, id, item, of.Binding)
			}
		}
		living = append(living, id)
	}
	for id, due := range o.timers {
		if !due.After(o.now) {
			delete(o.timers, id)
			o.waiting = append(o.waiting, delivered{what: "due", run: id})
		}
	}
	return living
}

func (o *office) settle() {
	o.t.Helper()
	for n := 0; ; n++ {
		if o.look(); len(o.waiting) == 0 {
			o.rows()
			return
		}
		if n > 2000 {
			o.t.Fatalf("seed %d: it does not come to rest: %+v", o.seed, o.waiting)
		}
		o.deliver(n%len(o.waiting), false)
	}
}

// rows holds that the rows show the logs, once all messages are acknowledged: no timer is needed for that.
func (o *office) rows() {
	o.t.Helper()
	for _, id := range o.items {
		s, _ := o.item(id)
		rowShows(o.theater, work.View(), id, s)
	}
}

// play has dispatchers want items in trouble, and then in peace.
func (o *office) play() {
	o.t.Helper()
	for i := range 3 {
		o.items = append(o.items, fmt.Sprintf("w%d", i))
		o.control(o.items[i], events.WorkControl{Action: work.Add, Spec: &events.WorkSpec{Title: "do " + o.items[i]}})
	}
	for range 120 {
		living, item := o.look(), o.items[o.rng.IntN(len(o.items))]
		agent := []string{"a", "b", "c"}[o.rng.IntN(3)]
		switch n := o.rng.IntN(16); {
		case n < 9 && len(o.waiting) > 0:
			o.deliver(o.rng.IntN(len(o.waiting)), true)
		case n < 12:
			o.control(item, events.WorkControl{Action: work.Assign, Dispatch: &events.WorkDispatch{Agent: agent}, Start: o.rng.IntN(3) > 0, By: agent})
		case n == 12:
			o.control(item, events.WorkControl{Action: []string{work.Unassign, work.Start, work.Start}[o.rng.IntN(3)]})
		case n == 13 && len(living) > 0:
			o.stop(living[o.rng.IntN(len(living))])
		case n == 14:
			o.now = o.now.Add(time.Duration(o.rng.IntN(12)) * time.Minute)
		case n == 15 && o.rng.IntN(8) == 0:
			o.control(item, events.WorkControl{Action: work.Close})
		}
	}
	o.settle()
	for living := o.look(); len(living) > 0; living = o.look() {
		for _, id := range living {
			o.stop(id)
		}
		o.settle()
	}
	o.now = o.now.Add(time.Hour)
	o.settle()
	o.judge()
}

// judge holds that no item is lost or stays bound, that each binding ended once, and that each has at most one run,
// which began only where the item was given to it.
func (o *office) judge() {
	o.t.Helper()
	runs := map[string]run.State{}
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: o.st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, id := range o.st.Runs() {
		if runs[id], _, err = l.State(o.t.Context(), id); err != nil {
			o.t.Fatal(err)
		}
	}
	known := map[string]bool{}
	for _, item := range o.items {
		s, all := o.item(item)
		if !s.Exists() || s.Binding != nil {
			o.t.Errorf("seed %d: item %s is %q, held by %+v", o.seed, item, s.Status, s.Binding)
		}
		bound, ended, epoch := 0, 0, 0
		for _, p := range all {
			switch d := p.(type) {
			case *events.WorkBoundData:
				if bound, epoch = bound+1, epoch+1; d.Epoch != epoch || o.assigned[d.Input] != item {
					o.t.Errorf("seed %d: item %s: %+v after binding %d", o.seed, item, d, epoch-1)
				}
				delete(o.assigned, d.Input)
				known[d.Run] = true
			case *events.WorkStartedData:
				if of := runs[d.Run]; of.Sequence == 0 || of.Created.Work.Epoch != d.Epoch {
					o.t.Errorf("seed %d: item %s was given to run %s, which is none", o.seed, item, d.Run)
				}
			case *events.WorkUnboundData:
				ended++
			case *events.WorkClosedData:
				if bound > ended {
					ended++
				}
			}
		}
		if bound != ended {
			o.t.Errorf("seed %d: item %s was bound %d times and freed %d times", o.seed, item, bound, ended)
		}
	}
	for id, s := range runs {
		if !known[id] || !s.Status.Ended() {
			o.t.Errorf("seed %d: run %s is of a binding: %v, %s", o.seed, id, known[id], s.Status)
		}
	}
}

func TestWorkInTrouble(t *testing.T) {
	t.Parallel()
	t.Run("WORK-3 WORK-7 PROP-21 planners that die at any operation leave no item with two holders, and lose none", func(t *testing.T) {
		t.Parallel()
		deaths, runs := 0, 0
		for seed := range uint64(20) {
			o := newOffice(t, seed)
			o.play()
			deaths, runs = deaths+o.deaths, runs+len(o.st.Runs())
		}
		if deaths < 60 || runs < 60 {
			t.Errorf("only %d deaths and %d runs", deaths, runs)
		}
		t.Logf("%d deaths, %d runs", deaths, runs)
	})
}

func TestWorkOvertaken(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string][]events.WorkControl{
		"another agent gets it": {{Action: work.Unassign}, {Action: work.Assign, Start: true, Dispatch: &events.WorkDispatch{Agent: "b"}}},
		"it is closed":          {{Action: work.Close}},
		"it is free":            {{Action: work.Unassign}},
	} {
		t.Run("WORK-3 WORK-5 PROP-21 between the creation of a run and its start "+name+": the run does not start", func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, 1)
			o.items = []string{"w"}
			o.control("w", events.WorkControl{Action: work.Add, Spec: &events.WorkSpec{Title: "x"}})
			o.deliver(0, false)
			first := o.planners[0].cfg.Names.Binding("w", 1)
			o.made = func() {
				for i, c := range meanwhile {
					b, err := json.Marshal(c)
					if err == nil {
						err = o.planners[1].Assigner().Input(t.Context(), letter{events.WorkSubject("s1", "w"), string(b), uint64(100 + i)})
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
			o.planners[1] = o.planner()
			b := `{"action":"assign","start":true,"dispatch":{"agent":"a"}}`
			if err := o.planners[0].Assigner().Input(t.Context(), letter{events.WorkSubject("s1", "w"), b, 50}); err != nil {
				t.Fatal(err)
			}
			s, err := o.planners[0].cfg.Ledger.Fresh(t.Context(), first)
			if err != nil || s.Status != events.Failed || s.Result.FinishReason != events.FinishCancelled {
				t.Errorf("the first run is %s, %v", s.Status, err)
			}
			living, want := o.look(), 0
			if of, _ := o.item("w"); of.Binding != nil {
				want = 1
				if of.Binding.Agent != "b" || len(living) > 0 && living[0] != of.Binding.Run {
					t.Errorf("runs %q live, the holder is %+v", living, of.Binding)
				}
			}
			if len(living) != want || (want == 1) != (len(meanwhile) == 2) {
				t.Errorf("%q live, want %d", living, want)
			}
		})
	}
}
