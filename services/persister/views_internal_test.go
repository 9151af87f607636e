package persister

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestViewsOfEndedRuns(t *testing.T) {
	t.Parallel()
	t.Run("PERF-2 nothing is kept of runs that have ended, with a store of snapshots or without one", func(t *testing.T) {
		t.Parallel()
		st, err := mem.New("test", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		kv := st.KV(topology.StateBucket)
		ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Persister, Journal: st.Journal(), Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(Config{Ledger: ledger, Journal: st.Journal(), KV: kv, Blobs: st.Blobs(), Sign: SignWith(key),
			Snapshots: &snapshot.Store{KV: kv, Blobs: st.Blobs()}, Log: zerolog.Nop(), Settle: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			id := fmt.Sprintf("r%d", i)
			created := runtest.Created()
			created.Options.EternalEngine = i%2 == 0 // without it there is no store for its snapshots
			b := runtest.New("test", id)
			b.Append(created, runtest.Started())
			head := uint64(0)
			receive := func(from int) {
				for n, rec := range b.Events()[from:] {
					f, err := events.Decode(rec)
					if err != nil {
						t.Fatal(err)
					}
					k, _ := f.Kind()
					ack := st.Journal().Append(t.Context(), kernel.Entry{ID: id, Kind: k, Head: head, Bytes: rec})
					if ack.Outcome != kernel.Stored {
						t.Fatalf("%s: %v", ack.Outcome, ack.Err)
					}
					head = ack.Seq
					stored := kernel.Record{Seq: ack.Seq, Kind: k, Bytes: rec}
					r.Republished(id, stored)
					s, err := ledger.Receive(t.Context(), id, stored)
					if err != nil {
						t.Fatal(err)
					}
					if err := r.Event(t.Context(), runlog.ReceivedEvent{Run: id, Kind: k, Sequence: uint64(from+n) + 1, Seq: ack.Seq, State: s, Deliveries: 1, Stored: rec}); err != nil {
						t.Fatal(err)
					}
				}
			}
			receive(0)
			if len(r.views) != 1 || r.recent.bytes == 0 {
				t.Fatalf("got %d views and %d bytes of a run that is under way, want one and some", len(r.views), r.recent.bytes)
			}
			b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
			receive(2)
			// An event whose handler was late.
			s, err := ledger.Receive(t.Context(), id, st.Log(id)[0])
			if err != nil {
				t.Fatal(err)
			}
			late := runlog.ReceivedEvent{Run: id, Kind: events.RunCreated, Sequence: 1, Seq: st.Log(id)[0].Seq, State: s, Deliveries: 1, Stored: st.Log(id)[0].Bytes}
			if err := r.Event(t.Context(), late); err != nil {
				t.Fatal(err)
			}
			if len(r.views)+len(r.books)+len(r.writing)+len(r.recent.runs)+r.recent.bytes > 0 {
				t.Fatalf("got %d views, %d books and %d events kept of runs that have ended, want none", len(r.views), len(r.books)+len(r.writing), len(r.recent.runs))
			}
		}
	})
	t.Run("PERF-2 what is known of runs that ended elsewhere is bounded", func(t *testing.T) {
		t.Parallel()
		r := &Role{views: map[string]view{}}
		for i := range 3 * maxViews {
			if r.note(fmt.Sprint(i), func(v *view) { v.trusted = true }); len(r.views) > maxViews {
				t.Fatalf("got %d, the limit is %d", len(r.views), maxViews)
			}
		}
		if !r.views[fmt.Sprint(3*maxViews-1)].trusted {
			t.Error("the newest was let go")
		}
	})
}
