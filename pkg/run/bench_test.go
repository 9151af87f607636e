package run_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// long returns a builder of a run in whose step a that many turns with one call each are done.
func long(turns int) *runtest.Builder {
	b := running()
	for range turns {
		b.Append(turnEvents(b)...)
	}
	return b
}

// turnFacts are the four events of the next turn: asked, allowed, started, finished.
func turnEvents(b *runtest.Builder) []events.Payload {
	s := b.State()
	n := s.Turns().Len() + 1
	asked := runtest.Asked(n, 1, "bash", `{"command":"`+strings.Repeat("go test ./... ", 10)+`"}`)
	ref := runtest.Ref("a", asked.ID, "bash")
	return []events.Payload{runtest.Turn(n, "a", strings.Repeat("I think. ", 20), asked), runtest.CallYes(ref, "once"),
		runtest.CallBegun(ref, 1), runtest.CallDone(ref, s.Sequence+3, strings.Repeat("ok  	package 0.01s\n", 50))}
}

// step is a state after that many turns and the stored events of the next one.
func step(turns int) (run.State, [][]byte) {
	b := long(turns)
	s := b.State()
	return s, b.Append(turnEvents(b)...)
}

// BenchmarkStep is the state work of one orchestrated turn: four events decoded, checked and folded. It must not depend
// on how long the run is.
func BenchmarkStep(b *testing.B) {
	for _, turns := range []int{10, 100, 1000, 2000} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			s, evs := step(turns)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := run.Fold(s, evs...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFold is the loading of a whole run of 2,000 turns without a snapshot.
func BenchmarkFold(b *testing.B) {
	evs := long(2000).Events()
	size := 0
	for _, f := range evs {
		size += len(f)
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := run.Fold(run.State{}, evs...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(evs))*float64(b.N)/b.Elapsed().Seconds(), "facts/s")
}

// BenchmarkApply is one event of each kind.
func BenchmarkApply(b *testing.B) {
	for _, w := range events.Registry() {
		b.Run(string(w.Kind), func(b *testing.B) {
			s, stored := whereLegal(b, w.Kind)
			b.ReportAllocs()
			b.SetBytes(int64(len(stored)))
			for b.Loop() {
				if _, err := s.Apply(stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// place is a state with an event that fits it.
type place struct {
	state  run.State
	stored []byte
}

// places has one of each kind that random walks come to. They take what is rare, where it may come, half of the time.
var places = sync.OnceValue(func() map[events.Kind]place {
	found, rnd := map[events.Kind]place{}, rand.New(rand.NewPCG(8, 2))
	taken := map[events.Kind]int{}
	// It begins the log of a run that was deleted, so no walk comes to it.
	pruned := runtest.New("default", "run-1").Bad(runtest.Pruned(7, events.Completed), func(f *events.Event) {
		f.Sequence, f.PrevHash = 8, run.HashOf(nil)
	})
	found[events.RunPruned] = place{run.State{}, pruned}
	for walk := 0; walk < 5000 && len(found) < len(events.Registry()); walk++ {
		b := runtest.New("demo", "r")
		for range 60 {
			moves := runtest.Moves(b.State())
			for _, p := range moves {
				if _, ok := found[p.Kind()]; !ok {
					found[p.Kind()] = place{b.State(), b.Bad(p, func(*events.Event) {})}
				}
			}
			if len(moves) == 0 {
				break
			}
			next := moves[rnd.IntN(len(moves))]
			if rnd.IntN(2) == 0 {
				next = slices.MinFunc(moves, func(a, b events.Payload) int { return taken[a.Kind()] - taken[b.Kind()] })
			}
			taken[next.Kind()]++
			b.Append(next)
		}
	}
	return found
})

// whereLegal returns a state that an event of the kind fits, and the event.
func whereLegal(t testing.TB, k events.Kind) (run.State, []byte) {
	t.Helper()
	p, ok := places()[k]
	if !ok {
		t.Fatalf("%s has no place in a random history: no drawn payload of it fits, so pkg/run/runtest needs a move for it", k)
	}
	return p.state, p.stored
}

// TestMovesAreComplete sees to it that the random walks of all property tests come to every kind.
func TestMovesAreComplete(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 every kind has a place in a random history", func(t *testing.T) {
		t.Parallel()
		for _, w := range events.Registry() {
			s, stored := whereLegal(t, w.Kind)
			if _, err := s.Apply(stored); err != nil {
				t.Errorf("%s: %v", w.Kind, err)
			}
		}
	})
}

// TestDrawn draws event types of which the moves are made by hand, as those are that have none.
func TestDrawn(t *testing.T) {
	t.Parallel()
	for kind, evs := range map[events.Kind][]events.Payload{
		events.RunAdjusted:        {runtest.Created()},
		events.CheckpointFallback: {runtest.Created()},
		events.StepReady:          {runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"))},
		events.StepAllowed:        {runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a")},
		events.GateRejected: {runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"),
			runtest.GateAt("g", "a", "")},
		events.CallStarted: {runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "x", runtest.Asked(1, 1, "bash", `{}`)), runtest.CallYes(bash, "once")},
		events.CallFinished: {runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "x", runtest.Asked(1, 1, "bash", `{}`)), runtest.CallYes(bash, "once"), runtest.CallBegun(bash, 1)},
	} {
		t.Run("EVT-1 "+string(kind)+" is drawn where it fits, and nowhere else", func(t *testing.T) {
			t.Parallel()
			w, _ := events.Lookup(kind)
			b := runtest.New("demo", "r")
			if got := runtest.Drawn(b.State(), w); len(got) > 0 {
				t.Errorf("before the run exists: %d", len(got))
			}
			b.Append(evs...)
			got := runtest.Drawn(b.State(), w)
			if len(got) == 0 {
				t.Fatal("none is drawn")
			}
			for _, p := range got {
				if _, err := b.State().Apply(b.Bad(p, func(*events.Event) {})); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestFlat is not parallel: it counts what is allocated. 1994 = 10 + 31 x 64, so that both lists end in an equally full
// chunk.
func TestFlat(t *testing.T) {
	t.Run("EVT-1 LIFE-17a the state work of a turn does not grow with the run", func(t *testing.T) {
		cost := func(turns int) uint64 {
			s, evs := step(turns)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 200 {
				if _, err := run.Fold(s, evs...); err != nil {
					t.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / 200
		}
		short, long := cost(10), cost(1994)
		if long > short+short/5 {
			t.Errorf("a turn allocates %d bytes after 10 turns and %d after 1994, want the same within a fifth", short, long)
		}
	})
	t.Run("PERF-1 the state work of a turn takes less than 50 ms, also late in a long run", func(t *testing.T) {
		s, evs := step(1994)
		began := time.Now()
		const times = 100
		for range times {
			if _, err := run.Fold(s, evs...); err != nil {
				t.Fatal(err)
			}
		}
		if each := time.Since(began) / times; each > 50*time.Millisecond {
			t.Errorf("%s for the events of one turn, want at most 50ms", each)
		}
	})
	t.Run("PERF-2 what is stored of a turn does not grow with the run", func(t *testing.T) {
		size := func(turns int) (n int) {
			_, evs := step(turns)
			for _, f := range evs {
				n += len(f)
			}
			return n
		}
		if short, long := size(10), size(1994); long > short+short/20 {
			t.Errorf("%d bytes are stored for a turn after 10 turns and %d after 1994", short, long)
		}
	})
}
