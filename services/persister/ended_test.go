package persister_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/persister"
)

func TestEnded(t *testing.T) {
	t.Parallel()
	t.Run("ART-9 PERS-15 the end of a run is acknowledged only when it is noted for its workflow, and nothing else is noted", func(t *testing.T) {
		t.Parallel()
		st, err := mem.New("test", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		b := runtest.New("main", "r")
		b.Append(runtest.Created(), runtest.Started())
		b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
		put(t, st, b, b.Events())
		ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Persister, Journal: st.Journal(), Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		away := errors.New("the index is away")
		noted, fail := 0, away
		kv := st.KV(topology.StateBucket)
		ending := make(chan struct{})
		close(ending) // nothing is gathered
		role, err := persister.New(persister.Config{Ledger: ledger, Journal: st.Journal(), KV: kv, Blobs: st.Blobs(), Ending: ending,
			Snapshots: &snapshot.Store{KV: kv, Blobs: st.Blobs()}, Log: zerolog.Nop(),
			Ended: func(_ context.Context, s run.State) error {
				if noted++; s.HarnessID != "r" || !s.Status.Ended() {
					t.Errorf("noted %s, which is %s", s.HarnessID, s.Status)
				}
				return fail
			}})
		if err != nil {
			t.Fatal(err)
		}
		receive := func(i int) error {
			rec := st.Log("r")[i]
			s, err := ledger.Receive(t.Context(), "r", rec)
			if err != nil {
				t.Fatal(err)
			}
			return role.Event(t.Context(), runlog.ReceivedEvent{Run: "r", Kind: rec.Kind, Sequence: uint64(i) + 1, Seq: rec.Seq, State: s, Deliveries: 1, Stored: rec.Bytes})
		}
		if err := receive(2); !errors.Is(err, away) || noted != 1 {
			t.Errorf("got %v after %d, want that the index is away", err, noted)
		}
		fail = nil
		if err := receive(2); err != nil || noted != 2 {
			t.Errorf("delivered again: %v, noted %d times", err, noted)
		}
		if err := receive(2); err != nil || noted != 2 {
			t.Errorf("delivered once more: %v, noted %d times", err, noted)
		}
	})
}
