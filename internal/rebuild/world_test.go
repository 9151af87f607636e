package rebuild_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/persister"
)

// world is a station whose views a real persister wrote.
type world struct {
	t     *testing.T
	st    *mem.Station
	kv    kernel.KV
	key   ed25519.PrivateKey
	runs  map[string]run.State
	pages *runlog.Pages
}

var signer = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))

// newWorld has a run of each kind that views differ for.
func newWorld(t *testing.T, key ed25519.PrivateKey) *world {
	t.Helper()
	st, err := mem.New("test", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, st: st, kv: st.KV(topology.StateBucket), key: key, runs: map[string]run.State{}, pages: runlog.NewPages(0)}
	if key != nil {
		public := audit.FormatPublic(key)
		if err := w.kv.Put(t.Context(), audit.KeyPrefix+run.KeyID(key.Public().(ed25519.PublicKey)), []byte(public)); err != nil {
			t.Fatal(err)
		}
	}
	begin := []events.Payload{runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a")}
	unkept := runtest.Created()
	unkept.Options.EternalEngine = false
	direct := runtest.DirectCreated()
	w.say("begun", begin...)
	w.say("waiting", runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.GateAt("g", "a", ""))
	w.say("paused", append(slices.Clone(begin), runtest.Paused("lunch"))...)
	w.say("direct", direct)
	w.say("unkept", unkept, runtest.Started(), runtest.Paused("lunch"))
	w.say("failed", append(slices.Clone(begin), runtest.StepBad("a", "it broke"))...)
	w.then("failed", func(s run.State) events.Payload { return runtest.Failed(s, events.FinishStep, "it broke") })
	w.say("long", begin...)
	for n := range 65 {
		w.add("long", runtest.Turn(2*n+1, "a", "call", runtest.Asked(2*n+1, 1, "read", `{"path":"a"}`)))
		w.add("long", runtest.CallNo(runtest.Ref("a", fmt.Sprintf("c%d-1", 2*n+1), "read")), runtest.Turn(2*n+2, "a", "call", runtest.Asked(2*n+2, 1, "read", `{"path":"a"}`)))
		w.add("long", runtest.CallNo(runtest.Ref("a", fmt.Sprintf("c%d-1", 2*n+2), "read")))
	}
	w.say("long", runtest.Turn(131, "a", "done"), runtest.StepDone("a", "out"), runtest.PlanDone(1))
	w.then("long", func(s run.State) events.Payload { return runtest.Completed(s) })
	return w
}

func (w *world) then(id string, next func(run.State) events.Payload) { w.say(id, next(w.runs[id])) }

// say appends events to a run, and has a persister write the views.
func (w *world) say(id string, payloads ...events.Payload) {
	w.t.Helper()
	w.add(id, payloads...)
	w.persist(id)
}

// add appends events to a run.
func (w *world) add(id string, payloads ...events.Payload) {
	w.t.Helper()
	for _, p := range payloads {
		word, _ := events.Lookup(p.Kind())
		written, err := w.ledger(word.Author).Write(w.t.Context(), id, func(run.State, time.Time) ([]events.Payload, error) { return []events.Payload{p}, nil })
		if err != nil || len(written.Events) != 1 {
			w.t.Fatalf("run %s, %s: %v", id, p.Kind(), err)
		}
		w.runs[id] = written.State
	}
}

func (w *world) ledger(by events.Service) *runlog.Ledger {
	w.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: by, Journal: w.st.Journal(), Entropy: rand.Reader, Pages: w.pages})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// persist has a new persister hear the last event of a run, and the one that it then appends itself.
func (w *world) persist(id string) {
	w.t.Helper()
	for n := 0; n < len(w.st.Log(id)); {
		log := w.st.Log(id)
		n = len(log)
		w.receive(id, log[n-1])
	}
}

func (w *world) receive(id string, last kernel.Record) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	ledger := w.ledger(events.Persister)
	role, err := persister.New(persister.Config{Ledger: ledger, Journal: w.st.Journal(), KV: w.kv, Blobs: w.st.Blobs(), Sign: persister.SignWith(w.key),
		Snapshots: &snapshot.Store{KV: w.kv, Blobs: w.st.Blobs()}, Log: zerolog.Nop(), Settle: time.Microsecond})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := ledger.Receive(ctx, id, last)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := role.Event(ctx, runlog.ReceivedEvent{Run: id, Kind: last.Kind, Sequence: s.Sequence, Seq: last.Seq, Step: "a", State: s, Deliveries: 1}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) config() rebuild.Config {
	return rebuild.Config{Journal: w.st.JournalOf(events.Persister), State: w.kv, Blobs: w.st.Blobs(), Sign: w.key, Now: time.Now,
		Logged: func(context.Context) ([]string, error) { return w.st.Runs(), nil }}
}

func (w *world) rebuild() rebuild.Report {
	w.t.Helper()
	rep, err := rebuild.All(w.t.Context(), w.config())
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

// lines is the log of a run as a file.
func (w *world) lines(id string) []byte {
	var evs [][]byte
	for _, rec := range w.st.Log(id) {
		evs = append(evs, rec.Bytes)
	}
	return runtest.Lines(evs)
}

// rows are all rows of the state bucket.
func (w *world) rows() map[string]string {
	w.t.Helper()
	keys, err := w.kv.Keys(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]string{}
	for _, key := range keys {
		b, err := w.kv.Get(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		all[key] = string(b)
	}
	return all
}

func (w *world) put(key, value string) {
	w.t.Helper()
	if err := w.kv.Put(w.t.Context(), key, []byte(value)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		if err := w.kv.Delete(w.t.Context(), key); err != nil {
			w.t.Fatal(err)
		}
	}
}

// judge compares the views with what they were: index rows byte for byte, or but for when they were signed; snapshots
// by the state that a run is loaded with from there.
func (w *world) judge(what string, before map[string]string) {
	w.t.Helper()
	after := w.rows()
	for _, key := range slices.Sorted(maps.Keys(before)) {
		switch {
		case strings.HasPrefix(key, "run."):
			if got, want := w.unsigned(after[key]), w.unsigned(before[key]); got != want {
				w.t.Errorf("%s: %s\n got %s\nwant %s", what, key, got, want)
			}
		case strings.HasPrefix(key, "snap."):
			w.judgeSnapshot(what, strings.TrimPrefix(key, "snap."), after)
		default:
			if after[key] != before[key] {
				w.t.Errorf("%s: %s was changed", what, key)
			}
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok && !strings.HasPrefix(key, "snap.") {
			w.t.Errorf("%s: %s is new", what, key)
		}
	}
}

func (w *world) judgeSnapshot(what, id string, after map[string]string) {
	w.t.Helper()
	st := snapshot.Store{Blobs: w.st.Blobs()}
	s, head, err := st.Unpack(w.t.Context(), id, []byte(after["snap."+id]))
	if err != nil {
		w.t.Errorf("%s: %v", what, err)
		return
	}
	var whole run.State
	for _, rec := range w.st.Log(id) {
		next, err := runlog.Apply(id, whole, rec)
		if err != nil {
			w.t.Fatal(err)
		}
		if whole = next; rec.Seq <= head {
			continue
		}
		if s, err = runlog.Apply(id, s, rec); err != nil {
			w.t.Errorf("%s: the log does not go on from the snapshot of %s: %v", what, id, err)
			return
		}
	}
	got, _ := run.Codec{}.Encode(s)
	want, _ := run.Codec{}.Encode(whole)
	if !bytes.Equal(got, want) {
		w.t.Errorf("%s: run %s is loaded as\n%s\nwant\n%s", what, id, got, want)
	}
}

// unsigned is a row whose anchor is checked and taken out, where there is one that must be.
func (w *world) unsigned(row string) string {
	w.t.Helper()
	var info run.Info
	if err := json.Unmarshal([]byte(row), &info); err != nil || w.key == nil {
		return row
	}
	if info.Anchor == nil || info.Anchor.Sequence != info.Sequence || info.Anchor.Verify(w.key.Public().(ed25519.PublicKey)) != nil {
		w.t.Errorf("the row of %s is not signed: %+v", info.HarnessID, info.Anchor)
	}
	info.Anchor = nil
	b, _ := json.Marshal(info)
	return string(b)
}

func views(rows map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(rows)), func(key string) bool {
		return !strings.HasPrefix(key, "run.") && !strings.HasPrefix(key, "snap.")
	})
}
