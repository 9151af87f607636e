package rebuild_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

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
