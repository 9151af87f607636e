package planner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	random "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/schedules"
)

// theater is a station with one schedule and two planners that die at any operation. What is delivered stays until a
// planner lives through it.
type theater struct {
	t       *testing.T
	seed    uint64
	rng     *random.Rand
	st      *mem.Station
	now     time.Time
	roles   [2]*Role
	timer   time.Time
	waiting []delivered
	inputs  uint64
	deaths  int
	// left is how many operations the planner at work has before it dies, after the last one where late is set; none
	// where it is negative. kill ends the delivery.
	left int
	late bool
	kill context.CancelFunc
	// between happens once, before the operation that so many come before: another planner is faster.
	between func()
	ahead   int
}

// delivered is a message for planners: a timer, a control, or the end of a run.
type delivered struct {
	what    string
	message letter
	run     string
	// times it was delivered.
	times uint64
}

// What delivered is, as a message that was delivered so many times.
func (d delivered) Subject() string           { return d.message.Subject() }
func (d delivered) Data() []byte              { return d.message.Data() }
func (d delivered) Header(name string) string { return d.message.Header(name) }
func (d delivered) Seq() uint64               { return d.message.Seq() }
func (d delivered) Time() time.Time           { return d.message.Time() }
func (d delivered) Deliveries() uint64        { return max(d.times, 1) }
func (d delivered) Ack(context.Context) error { return nil }
func (d delivered) Nak(time.Duration) error   { return nil }
func (d delivered) Working() error            { return nil }

const theSchedule = "night"

func newTheater(t *testing.T, seed uint64) *theater {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &theater{t: t, seed: seed, rng: random.New(random.NewPCG(seed, 0x7ea7e)), st: st, now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), left: -1}
	for i := range w.roles {
		w.roles[i] = w.planner()
	}
	return w
}

// dies reports whether the planner dies at an operation, and carries it out unless it dies before.
func (w *theater) dies(do func()) bool {
	if overtake := w.between; overtake != nil {
		if w.ahead--; w.ahead < 0 {
			w.between = nil
			overtake()
		}
	}
	if w.left != 0 {
		w.left--
		do()
		return false
	}
	if w.late {
		do()
	}
	w.deaths++
	w.kill()
	return true
}

// mortalLog, mortalRows and mortalTimers are ports of planners that die.
type (
	mortalLog struct {
		kernel.Journal
		w *theater
	}
	mortalRows struct {
		kernel.KV
		w *theater
	}
	mortalTimers struct{ w *theater }
)

// Append implements kernel.Journal.
func (l mortalLog) Append(ctx context.Context, e kernel.Entry) (ack kernel.Ack) {
	if ctx.Err() != nil || l.w.dies(func() { ack = l.Journal.Append(ctx, e) }) {
		return kernel.Ack{Outcome: kernel.Transient, Err: errCut}
	}
	return ack
}

// Swap implements kernel.KV.
func (r mortalRows) Swap(ctx context.Context, key string, value []byte, revision uint64) (now uint64, err error) {
	if ctx.Err() != nil || r.w.dies(func() { now, err = r.KV.Swap(ctx, key, value, revision) }) {
		return 0, errCut
	}
	return now, err
}

// Set implements kernel.Timers.
func (m mortalTimers) Set(ctx context.Context, _, name string, at time.Time, _ uint64) error {
	if ctx.Err() != nil || m.w.dies(func() {
		if name == wakeTimer {
			m.w.timer = at
		}
	}) {
		return errCut
	}
	return nil
}

// planner is one that knows nothing.
func (w *theater) planner() *Role {
	w.t.Helper()
	runs, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: mortalLog{w.st.JournalOf(events.Planner), w}, Entropy: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	clock := func() time.Time { return w.now }
	rows := mortalRows{w.st.KV(topology.SessionBucket), w}
	log, err := schedule.NewLedger(schedule.LedgerConfig{Station: "s1", By: events.Planner, Journal: mortalLog{w.st.JournalFor(events.ScheduleAggregate), w},
		Snapshots: schedule.View().Snapshots(rows), Entropy: rand.Reader, Now: clock})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := assemble(w.t, Config{Ledger: runs, Timers: mortalTimers{w}}, assembly{made: resolve.Config{Agents: anybody{}},
		schedules: &schedules.Config{Ledger: log, Rows: rows, Timers: mortalTimers{w}, Now: clock}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// deliver has one of the planners handle a message; it stays where that one died or wants it again.
func (w *theater) deliver(i int, trouble bool) {
	w.t.Helper()
	w.waiting[i].times++
	d := w.waiting[i]
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.kill, w.left, w.late = cancel, -1, false
	if trouble && w.rng.IntN(2) == 0 {
		w.left, w.late = w.rng.IntN(9), w.rng.IntN(2) == 0
	}
	at := w.rng.IntN(len(w.roles))
	err := w.handle(ctx, w.roles[at], d)
	if ctx.Err() != nil {
		w.roles[at] = w.planner()
		return
	}
	w.left = -1
	if _, refused := errors.AsType[*kernel.Refusal](err); err == nil || refused {
		w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
		return
	}
	if _, again := errors.AsType[*kernel.RetryAfter](err); !again {
		w.t.Fatalf("seed %d: %s: %v", w.seed, d.what, err)
	}
}

func (w *theater) handle(ctx context.Context, r *Role, d delivered) error {
	switch d.what {
	case "due":
		return r.Scheduler().Due(ctx, kernel.Due[schedule.State]{ID: theSchedule, Name: wakeTimer, Deliveries: 1})
	case "control":
		return r.Scheduler().Input(ctx, d.message)
	case "stop":
		return r.Input(ctx, d.message)
	}
	s, err := r.cfg.Ledger.Fresh(ctx, d.run)
	if err != nil {
		return err
	}
	kind := events.RunFailed
	if !s.Status.Ended() {
		kind = events.RunCreated
	}
	return r.Event(ctx, runlog.ReceivedEvent{Run: d.run, Kind: kind, State: s, Deliveries: d.times})
}

// living are the runs that have not ended; the end of each of the others was delivered or waits.
func (w *theater) living(told map[string]bool) (all []string) {
	w.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: w.st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range w.st.Runs() {
		if told[id] {
			continue
		}
		s, _, err := l.State(w.t.Context(), id)
		if err != nil {
			w.t.Fatalf("seed %d: %v", w.seed, err)
		}
		switch {
		case !s.Status.Ended():
			all = append(all, id)
		default:
			told[id] = true
			w.waiting = append(w.waiting, delivered{what: "ended", run: id})
		}
	}
	return all
}

func (w *theater) control(action string, spec *events.ScheduleSpec) {
	b, err := json.Marshal(events.ScheduleControl{Action: action, Spec: spec})
	if err != nil {
		w.t.Fatal(err)
	}
	w.inputs++
	w.waiting = append(w.waiting, delivered{what: "control", message: letter{events.ScheduleSubject("s1", theSchedule), string(b), w.inputs}})
}

func (w *theater) stop(id string) {
	w.inputs++
	w.waiting = append(w.waiting, delivered{what: "stop", message: letter{events.ControlSubject("s1", id), `{"action":"stop"}`, w.inputs}, run: id})
}

func (w *theater) log() (s schedule.State, all []events.Payload) {
	w.t.Helper()
	for after, more := uint64(0), true; more; {
		var batch []kernel.Record
		var err error
		if batch, more, err = w.st.JournalFor(events.ScheduleAggregate).Read(w.t.Context(), theSchedule, after); err != nil {
			w.t.Fatal(err)
		}
		for _, r := range batch {
			f, p, err := events.ReadAs(r.Bytes, events.ScheduleAggregate, events.LookupSchedule)
			if err == nil {
				s, err = schedule.Aggregate().Apply(s, f, p, events.HashOf(r.Bytes))
			}
			if err != nil {
				w.t.Fatalf("seed %d: %v", w.seed, err)
			}
			all, after = append(all, p), r.Seq
		}
	}
	return s, all
}

// play is one night after the other, in trouble and then in peace.
func (w *theater) play(spec events.ScheduleSpec) (deaths, runs int) {
	w.t.Helper()
	one, told := spec.Overlap != events.OverlapAllow, map[string]bool{}
	w.control(schedule.Set, &spec)
	look := func() []string {
		w.t.Helper()
		all := w.living(told)
		if one && len(all) > 1 {
			w.t.Fatalf("seed %d, overlap %q: %d runs at once: %v", w.seed, spec.Overlap, len(all), all)
		}
		if !w.timer.IsZero() && !w.timer.After(w.now) {
			w.timer = time.Time{}
			w.waiting = append(w.waiting, delivered{what: "due"})
		}
		return all
	}
	for range 150 {
		all := look()
		switch n := w.rng.IntN(10); {
		case n < 6 && len(w.waiting) > 0:
			w.deliver(w.rng.IntN(len(w.waiting)), true)
		case n < 8:
			w.now = w.now.Add(time.Duration(w.rng.IntN(90)) * time.Minute)
		case n < 9 && len(all) > 0:
			w.stop(all[w.rng.IntN(len(all))])
		case n == 9 && w.rng.IntN(4) == 0:
			w.control([]string{schedule.Run, schedule.Pause, schedule.Resume}[w.rng.IntN(3)], nil)
		}
	}
	w.control(schedule.Resume, nil)
	w.settle(look)
	if s, _ := w.log(); spec.Overlap == events.OverlapReplace && len(s.Open) > 1 {
		w.t.Fatalf("seed %d: the run that is to be replaced was not stopped: %+v", w.seed, s.Open)
	}
	for all := look(); len(all) > 0; all = look() {
		for _, id := range all {
			w.stop(id)
		}
		w.settle(look)
	}
	w.judge()
	return w.deaths, len(w.st.Runs())
}

// rowShows holds that the row of an aggregate shows the last event of its log.
func rowShows[S any](w *theater, v kernel.View[S], id string, s S) {
	w.t.Helper()
	want := v.At(s).Sequence
	if want == 0 {
		return // it has no log
	}
	row, err := w.st.KV(topology.SessionBucket).Get(w.t.Context(), v.Key(id))
	shown, _, ok := v.Read(row)
	if got := v.At(shown).Sequence; err != nil || !ok || got != want {
		w.t.Fatalf("seed %d: the row of %s %s shows event %d of %d, %v", w.seed, v.Name, id, got, want, err)
	}
}

// settle delivers all that waits.
func (w *theater) settle(look func() []string) {
	w.t.Helper()
	for n := 0; ; n++ {
		if look(); len(w.waiting) == 0 {
			s, _ := w.log()
			rowShows(w, schedule.View(), theSchedule, s)
			return
		}
		if n > 2000 {
			w.t.Fatalf("seed %d: it does not come to rest: %+v", w.seed, w.waiting)
		}
		w.deliver(n%len(w.waiting), false)
	}
}

// judge holds that each time fired or was skipped, that each firing has one run or was refused, and no run is of none.
func (w *theater) judge() {
	w.t.Helper()
	s, all := w.log()
	if at, ok := schedule.Wake(s); len(s.Open) > 0 || ok && (!at.After(w.now) || !w.timer.Equal(at)) {
		w.t.Errorf("seed %d: open %+v, next %s, now %s, timer %s", w.seed, s.Open, at, w.now, w.timer)
	}
	ended := map[string]bool{}
	for _, p := range all {
		switch d := p.(type) {
		case *events.ScheduleEndedData:
			ended[d.Run] = true
		case *events.ScheduleRefusedData:
			w.t.Errorf("seed %d: %+v", w.seed, d)
		}
	}
	times, fired := map[time.Time]int{}, 0
	for _, p := range all {
		d, ok := p.(*events.ScheduleFiredData)
		if !ok {
			continue
		}
		if fired++; d.Number != fired || !ended[d.Run] || len(w.st.Log(d.Run)) == 0 {
			w.t.Errorf("seed %d: firing %d of %d: %+v", w.seed, d.Number, fired, d)
		}
		if d.Manual == nil {
			if times[d.At]++; times[d.At] > 1 {
				w.t.Errorf("seed %d: %s fired twice", w.seed, d.At)
			}
		}
	}
	for _, id := range w.st.Runs() {
		n := 0
		for _, r := range w.st.Log(id) {
			if f, err := events.Decode(r.Bytes); err == nil && strings.Contains(f.Type, "run.created") {
				n++
			}
		}
		if !ended[id] || n != 1 {
			w.t.Errorf("seed %d: run %s was created %d times, of a firing: %v", w.seed, id, n, ended[id])
		}
	}
}

func TestSchedulesInTrouble(t *testing.T) {
	t.Parallel()
	for _, overlap := range []events.OverlapPolicy{events.OverlapSkip, events.OverlapQueue, events.OverlapReplace, events.OverlapAllow} {
		t.Run(fmt.Sprintf("TRIG-5 SAFE-3 overlap %s: planners that die at any operation leave one run for each firing", overlap), func(t *testing.T) {
			t.Parallel()
			deaths, runs := 0, 0
			for seed := range uint64(12) {
				spec := events.ScheduleSpec{Every: "1h", Overlap: overlap, Task: events.ScheduledTask{Agent: "a", Task: "look"}}
				if seed%2 == 0 {
					spec.Jitter = "20m"
				}
				if seed%3 == 0 && (overlap == events.OverlapQueue || overlap == events.OverlapAllow) {
					spec.Missed = events.MissedAll
				}
				if seed%5 == 0 {
					spec.Mode, spec.Phases = events.ModeOvernight, []events.Phase{{Name: "one"}, {Name: "two"}}
				}
				d, n := newTheater(t, seed).play(spec)
				deaths, runs = deaths+d, runs+n
			}
			if deaths < 50 || runs < 50 {
				t.Errorf("only %d deaths and %d runs", deaths, runs)
			}
			t.Logf("%d deaths, %d runs", deaths, runs)
		})
	}
}

func TestFiringHalfBegun(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-5 SAFE-3 a planner that dies at any operation of a firing leaves a run that goes on with run.created", func(t *testing.T) {
		t.Parallel()
		halves := 0
		for left := range 24 {
			w := newTheater(t, 1)
			w.control(schedule.Set, &events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Agent: "a", Task: "look"}})
			w.deliver(0, false)
			w.now = w.now.Add(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			w.kill, w.left, w.late = cancel, left, true
			_ = w.handle(ctx, w.roles[0], delivered{what: "due"})
			cancel()
			w.left = -1
			for _, id := range w.st.Runs() {
				r := w.planner()
				s, err := r.cfg.Ledger.Fresh(t.Context(), id)
				if err != nil || s.Plan == nil {
					continue // others see to that
				}
				if s.Plan.Steps[0].Status == events.StepIsPending {
					halves++
				}
				if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: id, Kind: events.RunCreated, State: s, Deliveries: 2}); err != nil {
					t.Fatal(err)
				}
				if s, err = r.cfg.Ledger.Fresh(t.Context(), id); err != nil || s.Plan.Steps[0].Status == events.StepIsPending {
					t.Errorf("after %d operations the plan was made, and no step is ready: %v", left, err)
				}
			}
		}
		if halves == 0 {
			t.Error("no planner died between the plan and its first step")
		}
	})
}
