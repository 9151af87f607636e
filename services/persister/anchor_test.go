package persister_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/persister"
)

// hear lets a new persister hear the last event of a run and returns the row that it writes.
// signing signs with a key, where there is one.
func signing(key ed25519.PrivateKey) persister.Signer {
	if key == nil {
		return nil
	}
	return persister.SignWith(key)
}

func receive(t *testing.T, st *mem.Station, key ed25519.PrivateKey, runID string) run.Info {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	kv := st.KV(topology.StateBucket)
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Persister, Journal: st.Journal(), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	role, err := persister.New(persister.Config{Ledger: ledger, Journal: st.Journal(), KV: kv, Blobs: st.Blobs(), Sign: signing(key),
		Snapshots: &snapshot.Store{KV: kv, Blobs: st.Blobs()}, Log: zerolog.Nop(), Settle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	log := st.Log(runID)
	last := log[len(log)-1]
	s, err := ledger.Receive(ctx, runID, last)
	if err != nil {
		t.Fatal(err)
	}
	if err := role.Event(ctx, runlog.ReceivedEvent{Run: runID, Kind: last.Kind, Sequence: s.Sequence, Seq: last.Seq, State: s, Deliveries: 1}); err != nil {
		t.Fatal(err)
	}
	b, err := kv.Get(ctx, persister.InfoKey(runID))
	if err != nil {
		t.Fatal(err)
	}
	var info run.Info
	if err := json.Unmarshal(b, &info); err != nil {
		t.Fatal(err)
	}
	return info
}

func put(t *testing.T, st *mem.Station, b *runtest.Builder, evs [][]byte) {
	t.Helper()
	for _, stored := range evs {
		f, err := events.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := f.Kind()
		var head uint64
		if log := st.Log(f.Run); len(log) > 0 {
			head = log[len(log)-1].Seq
		}
		if ack := st.Journal().Append(t.Context(), kernel.Entry{ID: f.Run, Kind: kind, Head: head, Bytes: stored}); ack.Outcome != kernel.Stored {
			t.Fatalf("%s %v", ack.Outcome, ack.Err)
		}
	}
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	b := runtest.New("test", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.GateAt("g", "a", ""))
	station := func(t *testing.T) *mem.Station {
		st, err := mem.New("test", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	t.Run("SAFE-3 the row of a run has its signed head, and grows with the log", func(t *testing.T) {
		t.Parallel()
		st := station(t)
		put(t, st, b, b.Events()[:3])
		if i := receive(t, st, key, "r"); i.Anchor == nil || i.Anchor.Sequence != 3 || i.Held != "" || i.Anchor.Verify(key.Public().(ed25519.PublicKey)) != nil {
			t.Fatalf("%+v", i)
		}
		put(t, st, b, b.Events()[3:])
		if i := receive(t, st, key, "r"); i.Anchor == nil || i.Anchor.Sequence != 5 || i.Anchor.Hash != b.State().Hash || i.Held != "" {
			t.Errorf("%+v", i)
		}
		plain := station(t)
		put(t, plain, b, b.Events())
		if i := receive(t, plain, nil, "r"); i.Anchor != nil {
			t.Errorf("signed without a key: %+v", i.Anchor)
		}
	})
	for name, lost := range map[string]func() [][]byte{
		"cut off": func() [][]byte { return b.Events()[:3] },
		"written again": func() [][]byte {
			other := runtest.New("test", "r")
			other.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("b")), runtest.Ready("b"), runtest.GateAt("g", "b", ""))
			return other.Events()
		},
	} {
		t.Run("SAFE-3 SAFE-2 a log that was "+name+" is not signed again: the old head stays and the run is held", func(t *testing.T) {
			t.Parallel()
			whole, st := station(t), station(t)
			put(t, whole, b, b.Events())
			row := receive(t, whole, key, "r")
			stored, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			if err := st.KV(topology.StateBucket).Put(t.Context(), persister.InfoKey("r"), stored); err != nil {
				t.Fatal(err)
			}
			put(t, st, b, lost())
			i := receive(t, st, key, "r")
			if i.Anchor == nil || *i.Anchor != *row.Anchor || !strings.Contains(i.Held, "event 5") && !strings.Contains(i.Held, "event 3") {
				t.Errorf("anchor %+v, held %q", i.Anchor, i.Held)
			}
		})
	}
}
