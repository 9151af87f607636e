package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestCachedState(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 the writer's state is the fold of the bytes it stored, not of what it had in hand", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := runtest.New(station, "r")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
		seed(t, s, b)
		turn := runtest.Turn(1, "a", "bad \xff byte", runtest.Asked(1, 1, "bash", `{ "command" : "a <b >c && d" }`))
		turn.Raw = []byte(`[ {"text": "<b>"} ]`)
		w, err := newLedger(t, s, events.Executor).Write(t.Context(), "r", func(st run.State, _ time.Time) ([]events.Payload, error) {
			return []events.Payload{turn}, nil
		})
		if err != nil {
			t.Fatalf("write: %v", err)
		}
		equalStates(t, w.State, folded(t, s, "r"))
	})
	t.Run("EVT-1 a state is not changed through the payload it was made from", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		l := newLedger(t, s, events.Planner)
		created := runtest.Created()
		if _, err := l.Write(t.Context(), "r", func(run.State, time.Time) ([]events.Payload, error) {
			return []events.Payload{created}, nil
		}); err != nil {
			t.Fatalf("write: %v", err)
		}
		created.Agents["intruder"] = runtest.Agent("intruder")
		equalStates(t, mustState(t, l, "r"), folded(t, s, "r"))
	})
	t.Run("OBS-3 an event carries the identity of its run", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		created := runtest.Created()
		created.Session, created.WorkflowRun = "s-1", "wf-1"
		if _, err := newLedger(t, s, events.Planner).Write(t.Context(), "r", func(run.State, time.Time) ([]events.Payload, error) {
			return []events.Payload{created, runtest.Started()}, nil
		}); err != nil {
			t.Fatalf("write: %v", err)
		}
		want := events.Identity{Station: station, Run: "r", StationRun: "demo-r", WorkflowRun: "wf-1", Session: "s-1", AgentID: "worker", AgentName: "worker"}
		for i, r := range s.Log("r") {
			f, err := events.Decode(r.Bytes)
			if err != nil || f.Identity != want {
				t.Errorf("event %d: got %+v, %v; want %+v", i+1, f.Identity, err, want)
			}
		}
	})
	t.Run("LIFE-16 a cache of two serves fifty runs", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		l := newLedger(t, s, events.Planner, func(c *runlog.LedgerConfig) { c.Cache = 2 })
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				id := fmt.Sprintf("r%d", i%25) // two writers a run
				for range 3 {
					if _, err := l.Write(t.Context(), id, openRun); err != nil {
						t.Errorf("run %s: %v", id, err)
					}
				}
			})
		}
		wg.Wait()
		for i := range 25 {
			id := fmt.Sprintf("r%d", i)
			if len(s.Log(id)) != len(openKinds) {
				t.Errorf("run %s has %d events, want %d", id, len(s.Log(id)), len(openKinds))
			}
			equalStates(t, mustState(t, l, id), folded(t, s, id))
		}
	})
	t.Run("LIFE-9 a run that does not exist has the zero state", func(t *testing.T) {
		t.Parallel()
		got, head, err := newLedger(t, newStation(t), events.Planner).State(t.Context(), "none")
		if err != nil || head != 0 || got.Sequence != 0 {
			t.Errorf("got sequence %d at %d, %v", got.Sequence, head, err)
		}
	})
	t.Run("a ledger without what it needs is refused", func(t *testing.T) {
		t.Parallel()
		j, entropy := newStation(t).Journal(), rand.NewChaCha8([32]byte{})
		for name, cfg := range map[string]runlog.LedgerConfig{
			"station": {Station: "a.b", By: events.Planner, Journal: j, Entropy: entropy},
			"journal": {Station: station, By: events.Planner, Entropy: entropy},
			"entropy": {Station: station, By: events.Planner, Journal: j},
		} {
			if _, err := runlog.NewLedger(cfg); err == nil {
				t.Errorf("without a %s: got no error", name)
			}
		}
	})
}

func TestHear(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 events delivered in order are folded without a read", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := started("r", 2)
		seed(t, s, b)
		l := newLedger(t, s, events.Executor)
		for _, r := range s.Log("r") {
			if _, err := l.Receive(t.Context(), "r", r); err != nil {
				t.Fatalf("hear %d: %v", r.Seq, err)
			}
		}
		if got := l.Stats().Reads; got != 0 {
			t.Errorf("got %d reads, want none", got)
		}
		w, err := l.Write(t.Context(), "r", nothing)
		if err != nil {
			t.Fatalf("write: %v", err)
		}
		equalStates(t, w.State, b.State())
	})
	t.Run("EVT-15 an event delivered again changes nothing and reads nothing", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := started("r", 2)
		seed(t, s, b)
		l := newLedger(t, s, events.Executor)
		mustState(t, l, "r")
		reads := l.Stats().Reads
		for _, r := range s.Log("r") {
			got, err := l.Receive(t.Context(), "r", r)
			if err != nil {
				t.Fatalf("hear: %v", err)
			}
			equalStates(t, got, b.State())
		}
		if got := l.Stats().Reads; got != reads {
			t.Errorf("got %d reads, want none after the first %d", got, reads)
		}
	})
	t.Run("EVT-1 DEPL-2 a gap, or any order, is closed by reading", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 3))
		log := s.Log("r")
		for _, order := range [][]int{{4}, {0, 4}, {7, 2, 8}, {8, 7, 6, 5, 4, 3, 2, 1, 0}} {
			l := newLedger(t, s, events.Executor)
			for _, i := range order {
				got, err := l.Receive(t.Context(), "r", log[i])
				if err != nil {
					t.Fatalf("order %v: hear %d: %v", order, i, err)
				}
				if got.Sequence < uint64(i+1) {
					t.Errorf("order %v: after event %d the state is at %d", order, i+1, got.Sequence)
				}
			}
			equalStates(t, mustState(t, l, "r"), folded(t, s, "r"))
		}
	})
	t.Run("SAFE-4 a reader that is behind is read again until it shows the event", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 2))
		s.SetFaults(mem.Faults{Read: func(n uint64, _ string) (int, error) { return max(0, 5-int(n)), nil }})
		log := s.Log("r")
		got, err := newLedger(t, s, events.Executor).Receive(t.Context(), "r", log[len(log)-1])
		if err != nil {
			t.Fatalf("hear: %v", err)
		}
		equalStates(t, got, folded(t, s, "r"))
	})
	t.Run("SAFE-4 SAFE-2 a leader that does not know the event yet is asked again: the run is not held", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 2))
		behind := func(n uint64, _ string) (int, error) { return max(0, 4-int(n)), nil }
		s.SetFaults(mem.Faults{Read: behind, Last: behind})
		log := s.Log("r")
		got, err := newLedger(t, s, events.Executor).Receive(t.Context(), "r", log[len(log)-1])
		if err != nil {
			t.Fatalf("hear: %v", err)
		}
		equalStates(t, got, folded(t, s, "r"))
	})
	t.Run("SAFE-4 an event that never shows is an error that is tried again, not a damaged run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStation(t)
			seed(t, s, started("r", 2))
			stale := func(uint64, string) (int, error) { return 2, nil }
			s.SetFaults(mem.Faults{Read: stale, Last: stale})
			log := s.Log("r")
			l := newLedger(t, s, events.Executor)
			if _, err := l.Receive(t.Context(), "r", log[len(log)-1]); err == nil || errors.Is(err, kernel.ErrHeld) {
				t.Errorf("got %v, want an error that does not hold the run", err)
			}
			s.SetFaults(mem.Faults{})
			got, err := l.Receive(t.Context(), "r", log[len(log)-1])
			if err != nil {
				t.Fatalf("hear again: %v", err)
			}
			equalStates(t, got, folded(t, s, "r"))
		})
	})
}

// always has something to say.
func always(s run.State, _ time.Time) ([]events.Payload, error) {
	return []events.Payload{runtest.Checkpoint(s)}, nil
}

func TestHeld(t *testing.T) {
	t.Parallel()
	spoil := func(b *runtest.Builder, change func(*events.Event)) []byte {
		return b.Bad(runtest.CallBegun(runtest.Ref("a", "c1-1", "bash"), 1), change)
	}
	for name, bad := range map[string]func(b *runtest.Builder) []byte{
		"no JSON": func(*runtest.Builder) []byte { return []byte(`{"specversion":`) },
		"a gap":   func(b *runtest.Builder) []byte { return spoil(b, func(f *events.Event) { f.Sequence++ }) },
		"a wrong hash": func(b *runtest.Builder) []byte {
			return spoil(b, func(f *events.Event) { f.PrevHash = run.HashOf(nil) })
		},
		"another author": func(b *runtest.Builder) []byte {
			return spoil(b, func(f *events.Event) { f.Source = events.Source(station, events.Executor) })
		},
		"a new version": func(b *runtest.Builder) []byte {
			return spoil(b, func(f *events.Event) { f.Type = "dev.inspan.call.started.v2" })
		},
		"another run": func(b *runtest.Builder) []byte {
			return spoil(b, func(f *events.Event) { f.Run, f.Subject = "other", "other" })
		},
		"a repeated event": func(b *runtest.Builder) []byte { return b.Events()[len(b.Events())-1] },
	} {
		t.Run("SAFE-2 "+name+" holds the run, and nothing is written after it", func(t *testing.T) {
			t.Parallel()
			s := newStation(t)
			b := started("r", 1)
			seed(t, s, b)
			fresh, cached := newLedger(t, s, events.Persister), newLedger(t, s, events.Persister)
			mustState(t, cached, "r")
			put(t, s, "r", bad(b))
			log := s.Log("r")
			for who, l := range map[string]*runlog.Ledger{"a fresh ledger": fresh, "one that knew the run": cached} {
				for range 2 {
					if _, err := l.Write(t.Context(), "r", always); !errors.Is(err, kernel.ErrHeld) {
						t.Errorf("%s: write: got %v, want ErrHeld", who, err)
					}
					if st, _, err := l.State(t.Context(), "r"); !errors.Is(err, kernel.ErrHeld) || st.Sequence != 0 {
						t.Errorf("%s: state: got sequence %d, %v; want none and ErrHeld", who, st.Sequence, err)
					}
					for _, r := range []kernel.Record{log[len(log)-1], log[0], log[3]} {
						if _, err := l.Receive(t.Context(), "r", r); r.Seq == log[len(log)-1].Seq && !errors.Is(err, kernel.ErrHeld) {
							t.Errorf("%s: hear of the damaged event: got %v, want ErrHeld", who, err)
						}
						// An old event that comes again may be believed; a word after it may not be said.
						if w, err := l.Write(t.Context(), "r", always); len(w.Events) > 0 || !errors.Is(err, kernel.ErrHeld) {
							t.Errorf("%s: write after hearing %d: got %d events, %v; want none and ErrHeld", who, r.Seq, len(w.Events), err)
						}
					}
				}
			}
			if got := len(s.Log("r")); got != len(log) {
				t.Errorf("the log has %d events, want %d", got, len(log))
			}
			if _, err := newLedger(t, s, events.Planner).Write(t.Context(), "sound", openRun); err != nil {
				t.Errorf("another run of the station: %v", err)
			}
		})
	}
	t.Run("SAFE-2be an event changed in the middle holds the run", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		log := s.Log("r")
		s.Damage(log[2].Seq, append([]byte(" "), log[2].Bytes...))
		if _, err := newLedger(t, s, events.Toolrunner).Write(t.Context(), "r", begin("c1-1")); !errors.Is(err, kernel.ErrHeld) {
			t.Errorf("got %v, want ErrHeld", err)
		}
		if len(s.Log("r")) != len(log) {
			t.Error("something was written")
		}
	})
}

// shown is a store of one snapshot.
type shown func() (run.State, uint64, bool)

func (f shown) Latest(context.Context, string) (run.State, uint64, bool) { return f() }

func TestSnapshots(t *testing.T) {
	t.Parallel()
	const covered = 5 // events in the snapshot
	all := len(started("r", 3).Events())
	for _, c := range []struct {
		name string
		// spoil changes the right snapshot.
		spoil func(s *run.State, head *uint64)
		used  bool
	}{
		{"LIFE-10 a snapshot that agrees with the log shortens loading", func(*run.State, *uint64) {}, true},
		{"SAFE-2 a snapshot with another hash is ignored", func(s *run.State, _ *uint64) { s.Hash = run.HashOf([]byte("x")) }, false},
		{"SAFE-2 a snapshot that is newer than the log is ignored", func(_ *run.State, head *uint64) { *head += 1000 }, false},
		{"SAFE-2 a snapshot at the position of another event is ignored", func(_ *run.State, head *uint64) { *head -= 2 }, false},
		{"SAFE-2 a snapshot at position 0 is ignored", func(_ *run.State, head *uint64) { *head = 0 }, false},
		{"SAFE-2 a snapshot that does not fold on is ignored", func(s *run.State, _ *uint64) { s.Sequence += 3 }, false},
		{"SAFE-2 a snapshot of another run is ignored", func(s *run.State, _ *uint64) { s.HarnessID = "other" }, false},
		{"SAFE-2 an empty snapshot is ignored", func(s *run.State, _ *uint64) { *s = run.State{} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{covered, all} {
				examineSnapshot(t, n, c.spoil, c.used)
			}
		})
	}
	t.Run("SAFE-2 a snapshot does not hide damage behind it", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := started("r", 3)
		seed(t, s, b)
		log := s.Log("r")
		snap, err := run.Fold(run.State{}, b.Events()[:covered]...)
		if err != nil {
			t.Fatal(err)
		}
		s.Damage(log[len(log)-1].Seq, []byte("{}"))
		l := newLedger(t, s, events.Toolrunner, func(cfg *runlog.LedgerConfig) {
			cfg.Snapshots = shown(func() (run.State, uint64, bool) { return snap, log[covered-1].Seq, true })
		})
		if _, err := l.Write(t.Context(), "r", begin("c1-1")); !errors.Is(err, kernel.ErrHeld) {
			t.Errorf("got %v, want ErrHeld", err)
		}
	})
	t.Run("LIFE-10 without a snapshot everything is read", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := started("r", 3)
		seed(t, s, b)
		l := newLedger(t, s, events.Toolrunner, func(cfg *runlog.LedgerConfig) {
			cfg.Snapshots = shown(func() (run.State, uint64, bool) { return run.State{}, 0, false })
		})
		equalStates(t, mustState(t, l, "r"), b.State())
	})
}

// examineSnapshot loads a run over a snapshot of its first n events, spoiled or not.
func examineSnapshot(t *testing.T, n int, spoil func(*run.State, *uint64), used bool) {
	t.Helper()
	s := newStation(t)
	b := started("r", 3)
	seed(t, s, b)
	snap, err := run.Fold(run.State{}, b.Events()[:n]...)
	if err != nil {
		t.Fatal(err)
	}
	head := s.Log("r")[n-1].Seq
	spoil(&snap, &head)
	j := &spy{Journal: s.JournalOf(events.Toolrunner)}
	l := newLedger(t, s, events.Toolrunner, func(cfg *runlog.LedgerConfig) {
		cfg.Journal, cfg.Snapshots = j, shown(func() (run.State, uint64, bool) { return snap, head, true })
	})
	before := document(t, snap)
	equalStates(t, mustState(t, l, "r"), b.State())
	if got := document(t, snap); got != before {
		t.Error("the snapshot was changed by folding on")
	}
	if got := j.whole.Load() == 0; got != used {
		t.Errorf("snapshot of %d events: used is %v, want %v", n, got, used)
	}
	if w, err := l.Write(t.Context(), "r", begin("c1-1")); err != nil || len(w.Events) != 1 {
		t.Errorf("write: got %d events, %v", len(w.Events), err)
	}
	equalStates(t, mustState(t, l, "r"), folded(t, s, "r"))
}
