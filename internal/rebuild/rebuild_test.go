package rebuild_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
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

func TestAll(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]ed25519.PrivateKey{"without a key": nil, "with a signing key": signer} {
		t.Run("PERS-21 DEPL-8 "+name+" what is right is left as it is", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, key)
			before := w.rows()
			if len(views(before)) < 10 {
				t.Fatalf("%d rows: %q", len(before), views(before))
			}
			rep := w.rebuild()
			if rep.Index[rebuild.Same] != 7 || rep.Index[rebuild.Made]+rep.Index[rebuild.Corrected] != 0 || rep.Runs != 7 || len(rep.Faults) > 0 {
				t.Errorf("%+v", rep)
			}
			w.judge("as it was", before)
			again := w.rows()
			if rep := w.rebuild(); rep.Changed() > 0 || !maps.Equal(again, w.rows()) {
				t.Errorf("a second time: %+v", rep)
			}
		})
		t.Run("PERS-21 DEPL-8 "+name+" any row that is deleted is made again", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, key)
			before := w.rows()
			for _, row := range views(before) {
				w.remove(row)
				if rep := w.rebuild(); len(rep.Faults) > 0 {
					t.Errorf("%s: %+v", row, rep.Faults)
				}
				w.judge("without "+row, before)
			}
		})
		t.Run("PERS-21 DEPL-8 "+name+" all rows that are deleted are made again, with the archives", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, key)
			before := w.rows()
			w.remove(views(before)...)
			rep := w.rebuild()
			if rep.Index[rebuild.Made] != 7 || rep.Archives != 2 || rep.Snapshots[rebuild.Made] < 3 {
				t.Errorf("%+v", rep)
			}
			w.judge("without any", before)
			var info run.Info
			if err := json.Unmarshal([]byte(w.rows()["run.long"]), &info); err != nil || info.Archive == nil {
				t.Fatal(err, info.Archive)
			}
			if b, err := w.st.Blobs().Get(t.Context(), *info.Archive); err != nil || !bytes.Equal(b, w.lines("long")) {
				t.Errorf("the archive: %d bytes, %v", len(b), err)
			}
		})
		t.Run("PERS-21 DEPL-8 "+name+" a wrong row is made right", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, key)
			before := w.rows()
			ahead := strings.Replace(w.unsigned(before["run.begun"]), `"sequence":5`, `"sequence":500`, 1)
			state := w.runs["waiting"]
			state.Tokens.Input = 1 << 40
			forged, err := (&snapshot.Store{}).Pack(t.Context(), state, w.st.Log("waiting")[4].Seq)
			if err != nil {
				t.Fatal(err)
			}
			flipped := []byte(before["snap.long"])
			flipped[len(flipped)-9] ^= 1
			for what, wrong := range map[string]map[string]string{
				"rubbish":                     {"run.begun": "\x00rubbish", "snap.paused": "\x00rubbish"},
				"of another run":              {"run.begun": before["run.paused"], "snap.paused": before["snap.waiting"]},
				"empty":                       {"run.long": "", "snap.long": "", "run.failed": "{}"},
				"ahead of the log":            {"run.begun": ahead},
				"with another status":         {"run.failed": strings.Replace(w.unsigned(before["run.failed"]), `"failed"`, `"completed"`, 1)},
				"with a bit that is turned":   {"snap.long": string(flipped)},
				"with a state that never was": {"snap.waiting": string(forged)},
			} {
				for key, value := range wrong {
					if value == before[key] {
						t.Fatalf("%s: %s is not wrong", what, key)
					}
					w.put(key, value)
				}
				if rep := w.rebuild(); rep.Index[rebuild.Corrected]+rep.Snapshots[rebuild.Corrected] != len(wrong) {
					t.Errorf("%s: %+v", what, rep)
				}
				w.judge("a row "+what, before)
			}
		})
	}
	t.Run("PERS-21 rows of runs that the log does not have are removed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		before := w.rows()
		w.put("run.ghost", strings.ReplaceAll(before["run.begun"], "begun", "ghost"))
		w.put("snap.ghost", before["snap.paused"])
		if rep := w.rebuild(); rep.Index[rebuild.Removed] != 1 || rep.Snapshots[rebuild.Removed] != 1 {
			t.Errorf("%+v", rep)
		}
		w.judge("with a ghost", before)
	})
	t.Run("PERS-21 one run alone is rebuilt where it is named, and one that is not there is an error", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.remove("run.begun", "run.paused")
		if rep, err := rebuild.All(t.Context(), w.config(), "begun"); err != nil || rep.Runs != 1 || rep.Index[rebuild.Made] != 1 {
			t.Errorf("%+v, %v", rep, err)
		}
		if _, ok := w.rows()["run.paused"]; ok {
			t.Error("another run was rebuilt")
		}
		if _, err := rebuild.All(t.Context(), w.config(), "nobody"); !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	t.Run("PERS-21 SAFE-3 a log that does not reach its anchor is named, and its rows stay as they are", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, signer)
		cut := run.InfoOf(w.runs["waiting"])
		cut.Anchor = resigned(w.runs["waiting"], 12)
		b, err := json.Marshal(cut)
		if err != nil {
			t.Fatal(err)
		}
		w.put("run.waiting", string(b))
		w.remove("run.begun", "snap.waiting")
		rep := w.rebuild()
		if len(rep.Faults) != 1 || rep.Faults[0].Run != "waiting" || !strings.Contains(rep.Faults[0].Why, "cut off") {
			t.Errorf("%+v", rep.Faults)
		}
		if rows := w.rows(); rows["run.waiting"] != string(b) || rows["snap.waiting"] != "" || rows["run.begun"] == "" {
			t.Error("the rows of the run were written, or those of another were not")
		}
	})
	t.Run("PERS-21 SAFE-3 an anchor that no key of the station made is no anchor", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, signer)
		before := w.rows()
		info := run.InfoOf(w.runs["waiting"])
		other := run.AnchorOf(run.State{Sequence: 70, HarnessID: "waiting"}, 9, time.Now(), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, 32)))
		info.Anchor = &other
		b, _ := json.Marshal(info)
		w.put("run.waiting", string(b))
		if rep := w.rebuild(); len(rep.Faults) > 0 {
			t.Errorf("%+v", rep.Faults)
		}
		w.judge("with a stranger's anchor", before)
	})
	t.Run("PERS-21 SAFE-2 a log that does not fold is named, and the other runs are rebuilt", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		before := w.rows()
		rec := w.st.Log("paused")[2]
		w.st.Damage(rec.Seq, bytes.Replace(rec.Bytes, []byte("do a"), []byte("do b"), 1))
		w.remove("run.begun")
		rep := w.rebuild()
		if len(rep.Faults) != 1 || rep.Faults[0].Run != "paused" || !strings.Contains(rep.Faults[0].Why, "does not fold") {
			t.Errorf("%+v", rep.Faults)
		}
		after := w.rows()
		for key := range before {
			if after[key] != before[key] {
				t.Errorf("%s is not what it was", key)
			}
		}
	})
}

// resigned is an anchor of a later event than the run has.
func resigned(s run.State, sequence uint64) *run.Anchor {
	s.Sequence = sequence
	a := run.AnchorOf(s, 99, time.Now(), signer)
	return &a
}

// broken is a shelf that ends after so many writes, or does something before one.
type broken struct {
	kernel.KV
	left   int
	before func(key string)
}

var errBroken = errors.New("the connection is gone")

func (b *broken) Swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if b.before != nil {
		b.before(key)
	}
	if b.left--; b.left < 0 {
		return 0, errBroken
	}
	return b.KV.Swap(ctx, key, value, revision)
}

func (b *broken) Delete(ctx context.Context, key string) error {
	if b.left--; b.left < 0 {
		return errBroken
	}
	return b.KV.Delete(ctx, key)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	t.Run("PERS-21 interrupted at any write it leaves whole rows, and is finished by another", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		before := w.rows()
		for writes := 0; ; writes++ {
			w.remove(views(before)...)
			w.put("run.ghost", before["run.begun"])
			cfg := w.config()
			cfg.State = &broken{KV: w.kv, left: writes}
			_, err := rebuild.All(t.Context(), cfg)
			if err == nil {
				if writes < 10 {
					t.Errorf("it made %d writes", writes)
				}
				break
			}
			if !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			for key, value := range w.rows() {
				if strings.HasPrefix(key, "run.") && key != "run.ghost" && value != before[key] {
					t.Fatalf("after %d writes %s is %s", writes, key, value)
				}
			}
			w.rebuild()
			w.judge(fmt.Sprintf("after %d writes", writes), before)
		}
	})
	t.Run("PERS-21 a canceled rebuild ends between two runs", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		before := w.rows()
		w.remove(views(before)...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg := w.config()
		cfg.Progress = func(done, total int) {
			if total != 7 {
				t.Errorf("got %d of %d", done, total)
			}
			if done == 3 {
				cancel()
			}
		}
		if rep, err := rebuild.All(ctx, cfg); !errors.Is(err, context.Canceled) || rep.Runs != 3 {
			t.Errorf("%v, %+v", err, rep)
		}
		w.rebuild()
		w.judge("after it was canceled", before)
	})
}

func TestBeside(t *testing.T) {
	t.Parallel()
	t.Run("PERS-21 a row that a persister writes meanwhile is not replaced by an older one", func(t *testing.T) {
		t.Parallel()
		for _, kind := range []string{"run.", "snap."} {
			w := newWorld(t, nil)
			w.remove(kind + "paused")
			cfg, once := w.config(), false
			cfg.State = &broken{KV: w.kv, left: 1 << 20, before: func(key string) {
				if key == kind+"paused" && !once {
					once = true
					w.say("paused", runtest.Resumed())
				}
			}}
			rep, err := rebuild.All(t.Context(), cfg)
			if err != nil || !once {
				t.Fatal(err, once)
			}
			var info run.Info
			if err := json.Unmarshal([]byte(w.rows()["run.paused"]), &info); err != nil || info.Sequence != 7 || info.Status != events.Running {
				t.Errorf("%s: the row shows event %d, %s (%v)", kind, info.Sequence, info.Status, err)
			}
			w.judgeSnapshot(kind, "paused", w.rows())
			if len(rep.Faults) > 0 {
				t.Errorf("%+v", rep.Faults)
			}
		}
	})
	t.Run("PERS-21 rows that others write all the time are an error and no endless work", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		w.remove("run.begun")
		cfg, n := w.config(), 0
		cfg.State = &broken{KV: w.kv, left: 1 << 20, before: func(key string) {
			if n++; key == "run.begun" {
				w.put(key, fmt.Sprint(n))
			}
		}}
		if _, err := rebuild.All(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "all the time") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("PERS-21 what is not rebuilt is named: every bucket of a station but the views", func(t *testing.T) {
		t.Parallel()
		named := ""
		for _, k := range rebuild.NotRebuilt() {
			if k.Why == "" {
				t.Errorf("%s: no reason", k.What)
			}
			named += k.What + "\n"
		}
		for _, st := range topology.Streams("main", topology.Limits{}) {
			bucket := strings.TrimPrefix(strings.TrimPrefix(st.Name, "KV_"), "OBJ_")
			if bucket != st.Name && !strings.Contains(named, bucket) {
				t.Errorf("bucket %s is neither rebuilt nor named", bucket)
			}
		}
	})
}
