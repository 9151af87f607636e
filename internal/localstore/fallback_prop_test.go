package localstore_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// TestAnyOutage lets a run go on while its log comes and goes in any way, acks are lost and the process dies, and, in
// half of the checks, another writer is there who should not be.
func TestAnyOutage(t *testing.T) {
	t.Parallel()
	t.Run("PERS-4 PERS-5 SAFE-4 whatever happens, an event that was said stands once in the log or in evidence, and both fold", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			dir, err := os.MkdirTemp("", "inspan-outage-")
			if err != nil {
				t.Fatal(err)
			}
			w := &fallen{t: t, home: newHome(t), path: filepath.Join(dir, "f.bolt")}
			defer func() {
				_ = w.local.Close()
				_ = os.RemoveAll(dir)
			}()
			w.restart()
			begin(w)
			said, unsure, strangers := 5, 0, rapid.Bool().Draw(t, "another writer")
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"say", "say", "say", "say", "away", "back", "lost ack", "dies", "settle", "stranger"}).Draw(t, "step") {
				case "say":
					if s, ok := w.known(); ok {
						if moves := moves(s); len(moves) == 0 {
							continue
						} else if w.try("r", rapid.SampledFrom(moves).Draw(t, "move")) == nil {
							said++
						} else {
							unsure++
						}
					}
				case "away":
					w.home.set(true, -1)
				case "back":
					w.home.set(false, -1)
				case "lost ack":
					w.home.set(false, rapid.IntRange(0, 3).Draw(t, "appends until then"))
				case "dies":
					w.restart()
				case "settle":
					_ = w.f.Settle(t.Context()) // where it can
				case "stranger":
					if s := w.primary(); strangers {
						if moves := moves(s); len(moves) > 0 {
							w.foreign("r", rapid.SampledFrom(moves).Draw(t, "strange move"))
							said++
						}
					}
				}
			}
			w.home.set(false, -1)
			w.settle()
			w.account(t, said, unsure, strangers)
		})
	})
}

// moves are the legal ones, but for warnings: those are said by the fallback alone.
func moves(s run.State) []events.Payload {
	return slices.DeleteFunc(runtest.Moves(s), func(p events.Payload) bool { return p.Kind() == events.CheckpointFallback })
}

// known returns the state if it can be told at the moment.
func (w *fallen) known() (run.State, bool) {
	s, _, err := w.pens[events.Planner].State(w.ctx(), "r")
	return s, err == nil
}

// primary returns the state as the log has it.
func (w *fallen) primary() run.State {
	evs, _ := w.log("r")
	s, err := run.Fold(run.State{}, evs...)
	if err != nil {
		w.t.Fatalf("fold: %v", err)
	}
	return s
}

// account compares what was said with what is there after everything was settled.
func (w *fallen) account(t *rapid.T, said, unsure int, strangers bool) {
	log, kinds := w.log("r")
	have := map[string]int{}
	for _, b := range log {
		have[string(b)]++
	}
	_, evs := w.branches(localstore.BranchHome)
	for _, b := range evs {
		if have[string(b)] != 1 {
			t.Fatalf("an event of a branch that is home stands %d times in the log", have[string(b)])
		}
	}
	refused, _ := w.branches(localstore.BranchRefused)
	lost := 0
	for _, b := range refused {
		evidence, err := w.local.Evidence(w.ctx(), b.ID)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range evidence {
			if n := have[string(r.Bytes)]; n > 1 || (n == 1) != (i < b.Home) {
				t.Fatalf("event %d of a refused branch, %d of which are home, stands %d times in the log", i, b.Home, n)
			}
			if i >= b.Home && kindsOf(t, [][]byte{r.Bytes})[0] != events.CheckpointFallback {
				lost++
			}
		}
	}
	if len(refused) > 0 && !strangers {
		t.Fatalf("a branch was refused although no one else wrote: %+v", refused)
	}
	if total := len(log) - count(kinds, events.CheckpointFallback) + lost; total < said || total > said+unsure {
		t.Fatalf("%d events were said and perhaps %d more; the log and the evidence have %d", said, unsure, total)
	}
	if dead := w.home.Dead(); len(dead) != len(refused) {
		t.Fatalf("%d branches were refused, %d dead letters tell", len(refused), len(dead))
	}
	if s, ok := w.known(); !ok || int(s.Sequence) != len(log) {
		t.Fatalf("the roles know %d events, the log has %d", s.Sequence, len(log))
	}
}
