package recovery

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// stateOf is the state bucket, as the persister's user sees it.
func (p *place) stateOf() kernel.KV {
	p.t.Helper()
	conn, err := p.station.As(p.ctx(), events.Persister)
	if err != nil {
		p.t.Fatal(err)
	}
	st, err := conn.Station(p.name)
	if err != nil {
		p.t.Fatal(err)
	}
	return st.KV(topology.StateBucket)
}

// index are the rows of the index without their anchors, once both runs have one and it shows all that the log has.
func (p *place) index() map[string]run.Info {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		infos, err := p.c.Runs().List(p.ctx())
		if err != nil {
			p.t.Fatal(err)
		}
		all, behind := map[string]run.Info{}, ""
		for _, i := range infos {
			if i.Sequence != uint64(len(p.bytes(i.HarnessID))) || i.Status.Ended() && i.Archive == nil {
				behind = i.HarnessID
			}
			if i.Anchor == nil {
				p.t.Errorf("the row of %s is not signed", i.HarnessID)
			}
			i.Anchor = nil
			all[i.HarnessID] = i
		}
		if behind == "" && len(all) == 2 {
			return all
		}
		if time.Now().After(end) {
			p.t.Fatalf("the row of %s does not reach the end of its log", behind)
		}
	}
}

func same(t *testing.T, what string, got, want map[string]run.Info) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(want)) {
		g, _ := json.Marshal(got[id])
		w, _ := json.Marshal(want[id])
		if string(g) != string(w) {
			t.Errorf("%s: row of %s\n got %s\nwant %s", what, id, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: got %d rows, want %d", what, len(got), len(want))
	}
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.start(events.Task{ID: "done", Agent: "loud", Task: "shout"})
	p.await("gated", "waiting", waiting)
	p.await("done", "ended", ended)
	before := p.index()
	if len(before) != 2 || before["done"].Archive == nil || len(before["gated"].Gates) != 1 {
		t.Fatalf("%+v", before)
	}

	t.Run("PERS-21 DEPL-8 beside a living station rows that were deleted, garbled or made up are those of the log again", func(t *testing.T) {
		state := p.stateOf()
		if err := state.Delete(p.ctx(), "run.gated"); err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string]string{"run.done": "no row", "run.ghost": "{}", "snap.gated": "no snapshot"} {
			if err := state.Put(p.ctx(), key, []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := station.Views(p.ctx(), p.name, p.station.As)
		if err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(filepath.Join(p.dir, "store", "anchor.key"))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Sign, err = audit.ParsePrivate(strings.TrimSpace(string(key))); err != nil {
			t.Fatal(err)
		}
		rep, err := rebuild.All(p.ctx(), cfg)
		if err != nil || rep.Index[rebuild.Made] != 1 || rep.Index[rebuild.Corrected] != 1 || rep.Index[rebuild.Removed] != 1 || rep.Snapshots[rebuild.Corrected] != 1 {
			t.Errorf("%+v, %v", rep, err)
		}
		same(t, "beside a living station", p.index(), before)
	})
	t.Run("PERS-21 without the users of the station nothing is written, and the message says what to do", func(t *testing.T) {
		p.do(0, "rebuild") // there is nothing to write
		if err := p.stateOf().Delete(p.ctx(), "run.gated"); err != nil {
			t.Fatal(err)
		}
		if said := p.do(4, "rebuild"); !strings.Contains(said, "--users") || !strings.Contains(said, "--store") {
			t.Error(said)
		}
	})
	p.down()
	lose(t, filepath.Join(p.dir, "store"), "KV_"+topology.StateBucket)
	t.Run("PERS-21 DEPL-8 inspan rebuild makes the whole bucket again, says what it did and what it left", func(t *testing.T) {
		said := inspan(t, 0, "rebuild", "--station", "lab", "--store", filepath.Join(p.dir, "store"))
		for _, want := range []string{"2 runs", "index", "snapshots", "Not rebuilt:", "sessions", "harness-sessions, rows of sessions without a log: ", "workspaces", "harness-trees, published branches: ", "harness-config: "} {
			if !strings.Contains(said, want) {
				t.Errorf("it lacks %q\n%s", want, said)
			}
		}
		var rep rebuild.Report
		said = inspan(t, 0, "rebuild", "--json", "--station", "lab", "--store", filepath.Join(p.dir, "store"))
		if err := json.Unmarshal([]byte(said), &rep); err != nil || rep.Index[rebuild.Same] != 2 || rep.Changed() != 0 || len(rep.NotRebuilt) == 0 {
			t.Errorf("a second time: %+v, %v", rep, err)
		}
		inspan(t, 5, "rebuild", "nobody", "--station", "lab", "--store", filepath.Join(p.dir, "store"))
		inspan(t, 2, "rebuild", "no.id", "--station", "lab", "--store", filepath.Join(p.dir, "store"))
	})
	p.up()
	t.Run("PERS-21 DEPL-8 a station goes on with what was rebuilt", func(t *testing.T) {
		same(t, "after the bucket was lost", p.index(), before)
		p.approve(p.await("gated", "waiting", waiting))
		p.await("gated", "ended", ended)
		if i := p.index()["gated"]; i.Status != events.Completed || i.Archive == nil {
			t.Errorf("the row of the run that went on: %+v", i)
		}
		p.do(0, "audit", "--all")
	})
}

// lose removes a stream of a station that does not run.
func lose(t *testing.T, store, stream string) {
	t.Helper()
	lost := 0
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() != stream {
			return err
		}
		lost++
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return fs.SkipDir
	})
	if err != nil || lost != 1 {
		t.Fatalf("%d folders of %s, %v", lost, stream, err)
	}
}
