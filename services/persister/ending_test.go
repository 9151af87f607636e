package persister_test

import (
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/persister"
)

func TestEnding(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-13a a persister that is asked to end writes what it gathers at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st, err := mem.New("test", mem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			b := runtest.New("main", "r")
			b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
			put(t, st, b, b.Events())
			ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Persister, Journal: st.Journal(), Entropy: rand.Reader})
			if err != nil {
				t.Fatal(err)
			}
			ending, kv := make(chan struct{}), st.KV(topology.StateBucket)
			role, err := persister.New(persister.Config{Ledger: ledger, Journal: st.Journal(), KV: kv, Blobs: st.Blobs(), Settle: time.Hour, Ending: ending,
				Snapshots: &snapshot.Store{KV: kv, Blobs: st.Blobs()}, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			rec := st.Log("r")[3] // step.ready, which no one looks for at once
			s, err := ledger.Receive(t.Context(), "r", rec)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			written := make(chan error, 1)
			go func() {
				written <- role.Event(t.Context(), runlog.ReceivedEvent{Run: "r", Kind: rec.Kind, Sequence: 4, Seq: rec.Seq, State: s, Deliveries: 1, Stored: rec.Bytes})
			}()
			<-time.After(time.Minute) // of the bubble's clock
			synctest.Wait()
			if _, err := kv.Get(t.Context(), persister.InfoKey("r")); err == nil {
				t.Fatal("the row was written before the hour was over")
			}
			close(ending)
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took != time.Minute {
				t.Errorf("got it written after %s, want one minute", took)
			}
			if _, err := kv.Get(t.Context(), persister.InfoKey("r")); err != nil {
				t.Error(err)
			}
		})
	})
}
