package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestLaw1(t *testing.T) {
	t.Parallel()
	t.Run("law 1 EVT-15 a second look answers nothing", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		first, second := newLedger(t, s, events.Planner), newLedger(t, s, events.Planner)
		if w, err := first.Write(t.Context(), "r", openRun); err != nil || len(w.Events) != 4 {
			t.Fatalf("first look: got %d events, %v", len(w.Events), err)
		}
		for _, l := range []*runlog.Ledger{first, second, first} {
			w, err := l.Write(t.Context(), "r", openRun)
			if err != nil || len(w.Events) != 0 {
				t.Errorf("second look: got %d events, %v; want none", len(w.Events), err)
			}
			equalStates(t, w.State, folded(t, s, "r"))
		}
		if len(s.Log("r")) != 4 {
			t.Errorf("the log has %d events, want 4", len(s.Log("r")))
		}
	})
	t.Run("law 1 DEPL-2 who decided on an old state decides again on the newer one", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := started("r", 2)
		seed(t, s, b)
		quick, slow := newLedger(t, s, events.Toolrunner), newLedger(t, s, events.Toolrunner)
		mustState(t, slow, "r") // cached from now on
		if w, err := quick.Write(t.Context(), "r", begin("c1-1")); err != nil || len(w.Events) != 1 {
			t.Fatalf("quick: got %d events, %v", len(w.Events), err)
		}
		var asked []uint64
		w, err := slow.Write(t.Context(), "r", func(st run.State, now time.Time) ([]events.Payload, error) {
			asked = append(asked, st.Sequence)
			return begin("c1-1")(st, now)
		})
		n := b.State().Sequence
		if err != nil || len(w.Events) != 0 || !slices.Equal(asked, []uint64{n, n + 1}) {
			t.Errorf("got %d events, %v, decided on %v; want none, decided on %v", len(w.Events), err, asked, []uint64{n, n + 1})
		}
		if st := slow.Stats(); st.Conflicts != 1 || st.Appends != 0 {
			t.Errorf("the counters are %+v, want one conflict and no append", st)
		}
	})
	t.Run("SAFE-14 a log that is full does not refuse what an earlier try may have stored", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		faults := []mem.Fault{mem.LateRequest, mem.NoSpace}
		s.SetFaults(mem.Faults{Append: func(n uint64, _ kernel.Entry) mem.Fault { return faults[min(n, 2)-1] }})
		l := newLedger(t, s, events.Planner)
		_, err := l.Write(t.Context(), "r", func(run.State, time.Time) ([]events.Payload, error) {
			return []events.Payload{runtest.Created()}, nil
		})
		if !errors.Is(err, kernel.ErrUnsettled) || errors.Is(err, kernel.ErrFull) {
			t.Errorf("got %v, want to be told that no one knows", err)
		}
	})
	t.Run("law 1 who lost knows what won, although the leader is away and reads are stale", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		l := newLedger(t, s, events.Toolrunner)
		mustState(t, l, "r")
		if _, err := newLedger(t, s, events.Toolrunner).Write(t.Context(), "r", begin("c1-1")); err != nil {
			t.Fatal(err)
		}
		// Each time the loss is settled, and then neither the leader nor the reader shows the event that won.
		s.SetFaults(mem.Faults{
			Last: func(n uint64, _ string) (int, error) {
				if n%2 == 0 {
					return 0, errors.New("no leader")
				}
				return 0, nil
			},
			Read: func(n uint64, _ string) (int, error) { return int(1 - n%2), nil },
		})
		rounds := 0
		w, err := l.Write(t.Context(), "r", func(st run.State, now time.Time) ([]events.Payload, error) {
			rounds++
			return begin("c1-1")(st, now)
		})
		if err != nil || len(w.Events) != 0 || rounds != 2 {
			t.Errorf("got %d events, %v after %d rounds; want none after 2", len(w.Events), err, rounds)
		}
	})
	t.Run("law 1 what was written here is known here when the state is read anew behind a failed append, although the reader is behind", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 2))
		l := newLedger(t, s, events.Toolrunner)
		if w, err := l.Write(t.Context(), "r", begin("c1-1")); err != nil || len(w.Events) != 1 {
			t.Fatalf("write: got %d events, %v", len(w.Events), err)
		}
		s.SetFaults(mem.Faults{Append: func(uint64, kernel.Entry) mem.Fault { return mem.NoRight }, Read: func(n uint64, _ string) (int, error) { return max(0, 3-int(n)), nil }})
		if _, err := l.Write(t.Context(), "r", begin("c1-2")); err == nil {
			t.Fatal("it was stored")
		}
		equalStates(t, mustState(t, l, "r"), folded(t, s, "r"))
	})
	t.Run("law 1 services that share pages need not read what another of them wrote", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		pages := runlog.NewPages(8)
		shared := func(c *runlog.LedgerConfig) { c.Pages = pages }
		runner, executor := newLedger(t, s, events.Toolrunner, shared), newLedger(t, s, events.Executor, shared)
		if w, err := runner.Write(t.Context(), "r", begin("c1-1")); err != nil || len(w.Events) != 1 {
			t.Fatalf("write: got %d events, %v", len(w.Events), err)
		}
		w, err := executor.Write(t.Context(), "r", nothing)
		if err != nil || executor.Stats().Reads != 0 {
			t.Errorf("got %v after %d reads, want none", err, executor.Stats().Reads)
		}
		equalStates(t, w.State, folded(t, s, "r"))
		if _, err := executor.Write(t.Context(), "r", begin("c1-1")); err != nil {
			t.Errorf("a call that began already: %v", err)
		}
	})
	t.Run("LIFE-15 a fresh look shows what the leader has, although this ledger's state is old and its reads are stale", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		l := newLedger(t, s, events.Planner)
		mustState(t, l, "r")
		if _, err := newLedger(t, s, events.Toolrunner).Write(t.Context(), "r", begin("c1-1")); err != nil {
			t.Fatal(err)
		}
		s.SetFaults(mem.Faults{Read: func(n uint64, _ string) (int, error) { return max(0, 3-int(n)), nil }})
		got, err := l.Fresh(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		equalStates(t, got, folded(t, s, "r"))
	})
	t.Run("EVT-15 a lost answer is recognised although another event follows already", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		other := newLedger(t, s, events.Persister)
		j := &spy{Journal: s.Journal()}
		j.append = func(ctx context.Context, e kernel.Entry) kernel.Ack {
			s.Journal().Append(ctx, e)
			if _, err := other.Write(ctx, "r", func(st run.State, _ time.Time) ([]events.Payload, error) {
				if st.CheckpointCount > 0 {
					return nil, nil
				}
				return []events.Payload{runtest.Checkpoint(st)}, nil
			}); err != nil {
				t.Errorf("the other writer: %v", err)
			}
			return kernel.Ack{Outcome: kernel.Unknown, Err: errors.New("timeout")}
		}
		l := newLedger(t, s, events.Toolrunner, func(c *runlog.LedgerConfig) { c.Journal = j })
		w, err := l.Write(t.Context(), "r", begin("c1-1"))
		if _, ok := w.Wrote(events.CallStarted); err != nil || !ok {
			t.Errorf("got %q, %v; want call.started", kindsOf(w), err)
		}
		equalStates(t, mustState(t, l, "r"), folded(t, s, "r"))
		if got := folded(t, s, "r"); got.CheckpointCount != 1 || got.Open["c1-1"].Phase != run.CallStarted {
			t.Errorf("got %d checkpoints and phase %s", got.CheckpointCount, got.Open["c1-1"].Phase)
		}
	})
}

func TestLaw2(t *testing.T) {
	t.Parallel()
	errGone := errors.New("gone")
	for _, c := range []struct {
		name string
		// last is what becomes of the append during which the process goes.
		last mem.Fault
	}{
		{"law 2 SAFE-13 a crash before an append leaves a history that another completes", mem.LostRequest},
		{"law 2 EVT-11 a crash after an append, before its answer, too", mem.LostAck},
		{"law 2 a crash with an append under way, too", mem.LateRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for k := range openKinds {
				s := newStation(t)
				s.SetFaults(script(append(make([]mem.Fault, k), c.last)...))
				ctx, cancel := context.WithCancelCause(t.Context())
				j, n := &spy{Journal: s.Journal()}, 0
				j.append = func(ctx context.Context, e kernel.Entry) kernel.Ack {
					ack := s.Journal().Append(ctx, e)
					if n++; n == k+1 {
						cancel(errGone)
					}
					return ack
				}
				w, err := newLedger(t, s, events.Planner, func(c *runlog.LedgerConfig) { c.Journal = j }).Write(ctx, "r", openRun)
				if !errors.Is(err, errGone) || len(w.Events) != k {
					t.Fatalf("crash at append %d: got %v after %d events, want %v after %d", k+1, err, len(w.Events), errGone, k)
				}
				folded(t, s, "r")
				again, err := newLedger(t, s, events.Planner).Write(t.Context(), "r", openRun)
				s.Land()
				if err != nil {
					t.Fatalf("crash at append %d, then the other: %v", k+1, err)
				}
				equalStates(t, again.State, folded(t, s, "r"))
				if len(s.Log("r")) != len(openKinds) {
					t.Errorf("crash at append %d: the log has %d events, want %d", k+1, len(s.Log("r")), len(openKinds))
				}
			}
		})
	}
}

func TestLaw3(t *testing.T) {
	t.Parallel()
	faults := []mem.Fault{mem.LostAck, mem.None, mem.Busy, mem.LateRequest, mem.None, mem.LowConflict, mem.LostRequest}
	for name, f := range map[string]mem.Faults{
		"law 3 DEPL-2 of eight ledgers at one call exactly one wrote call.started": {},
		"law 3 DEPL-2 SAFE-4 also while appends are lost and reads are stale": {
			Append: func(n uint64, _ kernel.Entry) mem.Fault { return faults[n%uint64(len(faults))] },
			Read:   func(n uint64, _ string) (int, error) { return int(n % 3), nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const writers, calls = 8, 20
			s := newStation(t)
			seed(t, s, started("r", calls))
			s.SetFaults(f)
			ledgers := make([]*runlog.Ledger, writers)
			for i := range ledgers {
				ledgers[i] = newLedger(t, s, events.Toolrunner)
			}
			for n := range calls {
				call := fmt.Sprintf("c1-%d", n+1)
				wrote := make([]runlog.Written, writers)
				errs := make([]error, writers)
				start := make(chan struct{})
				var wg sync.WaitGroup
				for i, l := range ledgers {
					wg.Go(func() {
						<-start
						wrote[i], errs[i] = l.Write(t.Context(), "r", begin(call))
					})
				}
				close(start)
				wg.Wait()
				winners := 0
				for i := range ledgers {
					if errs[i] != nil {
						t.Fatalf("call %s, writer %d: %v", call, i, errs[i])
					}
					if said, ok := wrote[i].Wrote(events.CallStarted); ok {
						winners++
						if got := folded(t, s, "r").Open[call].Fence; got != said.Sequence {
							t.Errorf("call %s: the winner's event is number %d, the fence is %d", call, said.Sequence, got)
						}
					}
				}
				if winners != 1 {
					t.Fatalf("call %s: %d writers may act, want 1", call, winners)
				}
			}
		})
	}
	t.Run("law 3 concurrent writers of one ledger, or of ledgers that share pages, too", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, started("r", 1))
		pages := runlog.NewPages(1)
		ledgers := make([]*runlog.Ledger, 4)
		for i := range ledgers {
			ledgers[i] = newLedger(t, s, events.Toolrunner, func(c *runlog.LedgerConfig) { c.Pages = pages })
		}
		wrote := make([]int, 16)
		var wg sync.WaitGroup
		for i := range wrote {
			wg.Go(func() {
				w, err := ledgers[i%4].Write(t.Context(), "r", begin("c1-1"))
				if err != nil {
					t.Errorf("write: %v", err)
				}
				wrote[i] = len(w.Events)
			})
		}
		wg.Wait()
		slices.Sort(wrote)
		if wrote[len(wrote)-1] != 1 || wrote[len(wrote)-2] != 0 {
			t.Errorf("got %v, want one event by one writer", wrote)
		}
	})
}
