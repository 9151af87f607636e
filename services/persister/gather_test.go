package persister_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/persister"
)

// TestGatherMost: events that are gathered hold the workers of the role. Where they are many the rows are written before
// their time is over, so that the role follows the log however many events come in a second.
func TestGatherMost(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-16 PERF-2 where many events are gathered rows are written before their time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, gatherMost)
	})
}

// patient is a persister that gathers for an hour.
func patient(t *testing.T) (*mem.Station, *runlog.Ledger, *persister.Role) {
	t.Helper()
	st, err := mem.New("test", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kv := st.KV(topology.StateBucket)
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Persister, Journal: st.Journal(), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	role, err := persister.New(persister.Config{Ledger: ledger, Journal: st.Journal(), KV: kv, Blobs: st.Blobs(), Settle: time.Hour,
		Snapshots: &snapshot.Store{KV: kv, Blobs: st.Blobs()}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return st, ledger, role
}

// TestAfterSteps: the state after a step is stored at once where few runs change, and soon where many do.
func TestAfterSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		others int
		least  time.Duration
	}{{others: 0}, {others: 7}, {others: 40, least: 40 * 16 * time.Millisecond}} {
		t.Run(fmt.Sprintf("PERS-6 the state after a step is stored in its time beside %d runs that change", c.others), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, ledger, role := patient(t)
				var handlers sync.WaitGroup
				receive := func(id string, n int) {
					rec := st.Log(id)[n]
					s, err := ledger.Receive(t.Context(), id, rec)
					if err != nil {
						t.Fatal(err)
					}
					handlers.Go(func() {
						if err := role.Event(t.Context(), runlog.ReceivedEvent{Run: id, Kind: rec.Kind, Sequence: uint64(n) + 1, Seq: rec.Seq, State: s,
							Step: "s0", Deliveries: 1, Stored: rec.Bytes}); err != nil {
							t.Error(err)
						}
					})
				}
				for i := range c.others {
					b := steps(fmt.Sprintf("other%d", i), 2, 4)
					put(t, st, b, b.Events()[:4]) // up to step.ready, which no one looks for at once
					receive(fmt.Sprintf("other%d", i), 3)
				}
				synctest.Wait()
				b := steps("r", 2, 4)
				put(t, st, b, b.Events()[:7])
				if k := st.Log("r")[6].Kind; k != events.StepFinished {
					t.Fatal(k)
				}
				begin := time.Now()
				receive("r", 6)
				kv := st.KV(topology.StateBucket)
				for time.Since(begin) < time.Minute {
					synctest.Wait()
					if _, err := kv.Get(t.Context(), persister.InfoKey("r")); err == nil {
						break
					}
					<-time.After(time.Millisecond) // of the bubble
				}
				if took := time.Since(begin); took < c.least || took > c.least+100*time.Millisecond {
					t.Errorf("got it stored after %s, want %s and a moment", took, c.least)
				}
				handlers.Wait()
			})
		})
	}
}

func gatherMost(t *testing.T) {
	const runs = 4
	st, ledger, role := patient(t)
	kv := st.KV(topology.StateBucket)
	var ordinary []runlog.ReceivedEvent // that no one looks for at once
	for i := range runs {
		id := fmt.Sprintf("r%d", i)
		b := steps(id, 120, 4)
		put(t, st, b, b.Events())
		for n, rec := range st.Log(id) {
			if rec.Kind == events.StepReady || rec.Kind == events.StepAllowed {
				s, err := ledger.Receive(t.Context(), id, rec)
				if err != nil {
					t.Fatal(err)
				}
				ordinary = append(ordinary, runlog.ReceivedEvent{Run: id, Kind: rec.Kind, Sequence: uint64(n) + 1, Seq: rec.Seq, State: s,
					Deliveries: 1, Stored: rec.Bytes})
			}
		}
	}
	workers := topology.SubscriptionsOf(events.Persister).Workers
	if len(ordinary) >= workers {
		t.Fatalf("got %d events, want fewer than the %d workers, which they must not hold", len(ordinary), workers)
	}
	var handlers sync.WaitGroup
	for _, h := range ordinary {
		handlers.Go(func() {
			if err := role.Event(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	rows := 0
	for i := range runs {
		if _, err := kv.Get(t.Context(), persister.InfoKey(fmt.Sprintf("r%d", i))); err == nil {
			rows++
		}
	}
	if rows < runs/2 {
		t.Errorf("got %d rows of %d runs after %d events, want those of the runs that had the most", rows, runs, len(ordinary))
	}
	begin := time.Now()
	handlers.Wait() // the last ones are gathered for an hour of the bubble
	if took := time.Since(begin); took > time.Hour {
		t.Errorf("got the last event written after %s, want at most an hour", took)
	}
}
