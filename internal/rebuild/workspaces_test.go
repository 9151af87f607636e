package rebuild_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
)

// woods is a station whose workspaces have logs and rows.
type woods struct {
	t    *testing.T
	st   *mem.Station
	rows kernel.KV
	log  *treelog.Log
	all  []string
}

// newWoods makes workspaces that were claimed, saved and released.
func newWoods(t *testing.T, n int) *woods {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &woods{t: t, st: st, rows: st.KV(topology.TreeBucket)}
	w.log, err = treelog.New(treelog.Config{Station: "s1", By: events.Toolrunner, Journal: st.JournalFor(events.WorkspaceAggregate), Rows: w.rows, Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		name := fmt.Sprint("session/s", i)
		w.all = append(w.all, name)
		w.says(name, &events.WorkspaceClaimedData{Workspace: name, Owner: "i1", Run: "r1", Fence: 1},
			&events.WorkspaceSnapshottedData{Fence: 1, Covers: "r1/c1", Taken: &events.WorkspaceSnapshot{Pack: events.WorkspacePack{Snapshot: "ab"}, Whole: true}},
			&events.WorkspaceReleasedData{Fence: 1, WorkspaceLearned: events.WorkspaceLearned{Ended: []string{"r1"}}})
	}
	return w
}

func (w *woods) says(name string, all ...events.Payload) {
	w.t.Helper()
	s, err := w.log.Known(w.t.Context(), name)
	for _, p := range all {
		if err == nil {
			s, err = w.log.Append(w.t.Context(), name, s.Sequence, p)
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *woods) row(name string) []byte {
	w.t.Helper()
	b, err := w.rows.Get(w.t.Context(), events.TreeKey(name))
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		w.t.Fatal(err)
	}
	return b
}

func (w *woods) put(name string, row []byte) {
	w.t.Helper()
	if err := w.rows.Put(w.t.Context(), events.TreeKey(name), row); err != nil {
		w.t.Fatal(err)
	}
}

func (w *woods) rebuild() rebuild.Report {
	w.t.Helper()
	var ids []string
	for _, name := range w.all {
		ids = append(ids, events.WorkspaceID(name))
	}
	rep, err := rebuild.All(w.t.Context(), rebuild.Config{Journal: w.st.Journal(), State: w.st.KV(topology.StateBucket), Blobs: w.st.Blobs(), Now: time.Now,
		Logged: func(context.Context) ([]string, error) { return nil, nil },
		Workspaces: rebuild.Rows{Journal: w.st.JournalFor(events.WorkspaceAggregate), Rows: w.rows,
			Logged: func(context.Context) ([]string, error) { return ids, nil }}})
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-8 PERS-21 any row of a workspace that is gone, damaged, old or of an older toolrunner is made again, byte for byte", func(t *testing.T) {
		t.Parallel()
		w := newWoods(t, 5)
		if err := w.rows.Put(t.Context(), "host.i1", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		var want [][]byte
		for _, name := range w.all {
			want = append(want, w.row(name))
		}
		var old events.Workspace
		if err := json.Unmarshal(want[2], &old); err != nil {
			t.Fatal(err)
		}
		old.Log.Sequence--
		old.Fence, old.Owner = 99, "i9"
		behind, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		old.Log = nil
		older, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.rows.Delete(t.Context(), events.TreeKey(w.all[0])); err != nil {
			t.Fatal(err)
		}
		w.put(w.all[1], []byte("{"))
		w.put(w.all[2], behind)
		w.put(w.all[3], older)
		rep := w.rebuild()
		if rep.Workspaces[rebuild.Made] != 1 || rep.Workspaces[rebuild.Corrected] != 3 || rep.Workspaces[rebuild.Same] != 1 || rep.Changed() != 4 || len(rep.Faults) > 0 {
			t.Errorf("%+v", rep)
		}
		for i, name := range w.all {
			if got := w.row(name); !bytes.Equal(got, want[i]) {
				t.Errorf("%s is %s, was %s", name, got, want[i])
			}
		}
		if rep = w.rebuild(); rep.Workspaces[rebuild.Same] != 5 || rep.Changed() != 0 {
			t.Errorf("again: %+v", rep)
		}
	})
	t.Run("PERS-21 the row of a workspace that is owned may be older than its log, and is made what the log says", func(t *testing.T) {
		t.Parallel()
		w := newWoods(t, 1)
		w.says(w.all[0], &events.WorkspaceClaimedData{Workspace: w.all[0], Owner: "i2", Run: "r2", Fence: 2}, &events.WorkspaceChangedData{Fence: 2, Call: "r2/c1"})
		if rep := w.rebuild(); rep.Workspaces[rebuild.Corrected] != 1 {
			t.Errorf("%+v", rep)
		}
		var got events.Workspace
		if err := json.Unmarshal(w.row(w.all[0]), &got); err != nil || got.Owner != "i2" || len(got.Unkept) != 1 || got.Log.Sequence != 5 {
			t.Errorf("%+v, %v", got, err)
		}
		w.says(w.all[0], &events.WorkspaceReleasedData{Fence: 2})
		if rep := w.rebuild(); rep.Workspaces[rebuild.Same] != 1 {
			t.Errorf("%+v", rep)
		}
	})
	t.Run("PERS-21 the row of a workspace that was not taken over yet stays, and one whose log is lost is named", func(t *testing.T) {
		t.Parallel()
		w := newWoods(t, 1)
		before := []byte(`{"workspace":"run/old","fence":3}`)
		w.put("run/old", before)
		lost := bytes.ReplaceAll(w.row(w.all[0]), []byte(w.all[0]), []byte("run/lost"))
		w.put("run/lost", lost)
		rep := w.rebuild()
		if rep.Workspaces[rebuild.None] != 1 || rep.Workspaces[rebuild.Same] != 1 || len(rep.Faults) != 1 || !strings.HasPrefix(rep.Faults[0].Run, "workspace.run_lost_") || !strings.Contains(rep.Faults[0].Why, "lost") {
			t.Errorf("%+v", rep)
		}
		if !bytes.Equal(w.row("run/old"), before) || !bytes.Equal(w.row("run/lost"), lost) {
			t.Errorf("%s, %s", w.row("run/old"), w.row("run/lost"))
		}
	})
}
