package planner

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/planner/resolve"
)

// stands is a planner over a run with these events, at the time of the last one.
func stands(t *testing.T, payloads ...events.Payload) (*mem.Station, *mem.Hand, *runlog.Ledger, *Role) {
	t.Helper()
	b := runtest.New("s1", "r1")
	stored := b.Append(payloads...)
	clock := mem.NewHand(b.State().UpdatedAt)
	st, err := mem.New("s1", mem.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Seed(t, st.Journal(), stored...)
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: st.JournalOf(events.Planner), Entropy: rand.Reader, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	role, err := assemble(t, Config{Ledger: l, Timers: st.Timers()}, assembly{made: resolve.Config{Agents: none{}}})
	if err != nil {
		t.Fatal(err)
	}
	return st, clock, l, role
}

func TestOutage(t *testing.T) {
	t.Parallel()
	working := []events.Payload{runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a")}
	state := func(l *runlog.Ledger) run.State {
		s, err := l.Fresh(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("PLUS-13 a run is paused once for a provider that was given up, for its plan and for a turn, however often it is told", func(t *testing.T) {
		t.Parallel()
		for kind, told := range map[events.Kind][]events.Payload{
			events.TurnDeferred: append(slices.Clone(working), runtest.TurnWaits(1, "a", 1, runtest.Start, true)),
			events.PlanDeferred: {runtest.Created(), runtest.Started(), &events.PlanRequestedData{Event: "plan_requested", Try: 1}, runtest.PlanWaits(1, 1, runtest.Start, true)},
		} {
			_, _, l, role := stands(t, told...)
			at := state(l)
			for n := range uint64(3) {
				if err := role.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: kind, Sequence: at.Sequence, Step: "a", State: state(l), Deliveries: n + 1}); err != nil {
					t.Fatal(err)
				}
			}
			if s := state(l); s.Status != events.Paused || s.Sequence != at.Sequence+1 || s.PauseReason == "" {
				t.Errorf("%s: %s at %d: %q", kind, s.Status, s.Sequence, s.PauseReason)
			}
		}
	})
	t.Run("PLUS-13 LOOP-14 the timer of a deadline that fires while a provider is waited for sets the next one, and ends nothing", func(t *testing.T) {
		t.Parallel()
		waits := runtest.TurnWaits(1, "a", 1, runtest.Start, false)
		waits.NotBefore = runtest.Start.Add(24 * time.Hour)
		st, clock, l, role := stands(t, append(slices.Clone(working), waits)...)
		clock.Advance(time.Hour)
		if err := role.Due(t.Context(), "r1", "run", "deadline", state(l)); err != nil {
			t.Fatal(err)
		}
		if s := state(l); s.Status != events.Running || len(st.TimersSet()) != 1 {
			t.Fatalf("%s, timers %v", s.Status, st.TimersSet())
		}
		s := state(l)
		at, _ := lifecycle.Deadline(s)
		clock.Advance(at.Sub(clock.Now()))
		if err := role.Due(t.Context(), "r1", "run", "deadline", s); err != nil {
			t.Fatal(err)
		}
		if s := state(l); s.Status != events.Failed || s.Result.FinishReason != events.FinishTimeout {
			t.Errorf("at its deadline the run is %s", s.Status)
		}
	})
	t.Run("PLUS-13 LOOP-14 a paused run has no deadline; the resumed one has its timer again", func(t *testing.T) {
		t.Parallel()
		st, clock, l, role := stands(t, append(slices.Clone(working), runtest.PausedClock("lunch"))...)
		clock.Advance(100 * time.Hour)
		if err := role.Due(t.Context(), "r1", "run", "deadline", state(l)); err != nil {
			t.Fatal(err)
		}
		if s := state(l); s.Status != events.Paused || len(st.TimersSet()) != 0 {
			t.Fatalf("%s, timers %v", s.Status, st.TimersSet())
		}
		w, err := l.Write(t.Context(), "r1", func(s run.State, _ time.Time) ([]events.Payload, error) {
			return lifecycle.Resume(s, lifecycle.Wish{By: "anna", Input: 9})
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := role.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.RunResumed, Sequence: w.State.Sequence, State: w.State, Deliveries: 1}); err != nil {
			t.Fatal(err)
		}
		if s := state(l); s.Status != events.Running || len(st.TimersSet()) != 1 {
			t.Errorf("%s, timers %v", s.Status, st.TimersSet())
		}
	})
}
