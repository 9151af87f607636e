package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

const treeOf = "session/demo"

// keep writes the record of a workspace into a station, with one pack of those parts.
func keep(t *testing.T, st *mem.Station, owner string, fence uint64, parts ...string) []events.Ref {
	t.Helper()
	var refs []events.Ref
	for _, p := range parts {
		ref, err := st.Blobs().Put(t.Context(), "tree", []byte(p))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	record(t, st, map[string]any{"workspace": treeOf, "owner": owner, "fence": fence, "snapshot": strings.Repeat("a", 64), "files": 3, "bytes": 70,
		"covers": "r/c1", "at": runtest.Start.Add(time.Duration(fence) * time.Second), "packs": []any{map[string]any{"snapshot": "x", "parts": refs}}})
	return refs
}

func record(t *testing.T, st *mem.Station, rec map[string]any) {
	t.Helper()
	b, err := json.Marshal(rec)
	if err == nil {
		err = st.KV(topology.TreeBucket).Put(t.Context(), events.TreeKey(treeOf), b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func workspaces(t *testing.T, st *mem.Station) *treelog.Log {
	t.Helper()
	log, err := treelog.New(treelog.Config{Station: st.Name(), By: events.Toolrunner, Journal: st.JournalFor(events.WorkspaceAggregate),
		Rows: st.KV(topology.TreeBucket), Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func whole(t *testing.T, st *mem.Station, dir string) *archive.Saver {
	t.Helper()
	s := saver(t, st, dir)
	s.Trees, s.Workspaces, s.Artifacts, s.MostBytes = st.KV(topology.TreeBucket), workspaces(t, st), st.Artifacts(), 1<<20
	return s
}

func wholePlace(t *testing.T, st *mem.Station, name string) *archive.Restorer {
	t.Helper()
	cfg := archive.RestorerConfig{Station: name, Journals: map[events.Service]kernel.Journal{}, Blobs: st.Blobs(), Timers: st.Timers(),
		Config: st.KV(topology.ConfigBucket), State: st.KV(topology.StateBucket), Trees: st.KV(topology.TreeBucket), Workspaces: workspaces(t, st),
		Artifacts: st.Artifacts(), Sessions: st.KV(topology.SessionBucket), Entropy: bytes.NewReader(bytes.Repeat([]byte("entropy"), 1<<16))}
	for _, by := range events.Services() {
		cfg.Journals[by] = st.JournalOf(by)
	}
	p, err := archive.NewRestorer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// brought is the record of the workspace at a place.
func brought(t *testing.T, st *mem.Station) (rec struct {
	Owner, Snapshot, Covers string
	Fence                   uint64
	Lost                    bool
}) {
	t.Helper()
	b, err := st.KV(topology.TreeBucket).Get(t.Context(), events.TreeKey(treeOf))
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func saved(t *testing.T, s *archive.Saver) archive.Manifest {
	t.Helper()
	m, err := s.Save(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 a workspace is brought with a higher fence and no owner, and its loss is told where it had one", func(t *testing.T) {
		t.Parallel()
		for owner, lost := range map[string]bool{"": false, "gone": true} {
			st, b := station(t), story()
			put(t, st, b.Events()...)
			parts := keep(t, st, owner, 4, "one", "two")
			s := whole(t, st, t.TempDir())
			m := saved(t, s)
			to := station(t)
			for n := range 2 {
				got, err := wholePlace(t, to, "demo").Bring(t.Context(), s.Dir, m, archive.How{By: "anna"})
				if err != nil || (n == 0) != (got.Files == archive.FilesBrought) || len(got.Left) != 0 {
					t.Fatalf("%v %+v", err, got)
				}
			}
			if rec := brought(t, to); rec.Owner != "" || rec.Fence != 5 || rec.Lost != lost || rec.Covers != "r/c1" {
				t.Errorf("%+v", rec)
			}
			for _, ref := range parts {
				if _, err := to.Blobs().Get(t.Context(), ref); err != nil {
					t.Error(err)
				}
			}
		}
	})
	t.Run("EVT-9 what is kept after the last event is saved at the next look, and parts that no record names go", func(t *testing.T) {
		t.Parallel()
		st, b, dir := station(t), story(), t.TempDir()
		put(t, st, b.Events()...)
		keep(t, st, "a", 1, "old")
		s := whole(t, st, dir)
		saved(t, s)
		keep(t, st, "", 2, "new")
		if m := saved(t, s); m.Extras.Snapshot == "" {
			t.Errorf("%+v", m.Extras)
		}
		tree, err := s.Dir.Tree(t.Context(), "demo", treeOf)
		if err != nil || !strings.Contains(string(tree.Record), `"fence":2`) {
			t.Errorf("%v %s", err, tree.Record)
		}
		if all, err := os.ReadDir(filepath.Join(dir, "trees", "demo", "session=demo")); err != nil || len(all) != 2 {
			t.Errorf("%d files, want the record and one part; %v", len(all), err)
		}
		before := files(t, dir)
		saved(t, s)
		if after := files(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Error("a look at nothing new changed files")
		}
		record(t, st, map[string]any{"workspace": treeOf, "fence": 3})
		if m := saved(t, s); m.Extras.Snapshot != "" || len(m.Extras.Left) != 1 {
			t.Errorf("%+v", m.Extras)
		}
		if _, err := s.Dir.Tree(t.Context(), "demo", treeOf); !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("what the station forgot is still there: %v", err)
		}
	})
	t.Run("EVT-9 a workspace at the limit is saved, one above it is named, and what is saved before counts as old", func(t *testing.T) {
		t.Parallel()
		st, b := station(t), story()
		put(t, st, b.Events()[:3]...)
		s := whole(t, st, t.TempDir())
		s.MostBytes = 10
		keep(t, st, "a", 1, "ten bytes.")
		if m := saved(t, s); m.Extras.Snapshot == "" {
			t.Fatalf("%+v", m.Extras)
		}
		put(t, st, b.Events()[3:]...)
		keep(t, st, "a", 2, "ten bytes.", "+")
		m := saved(t, s)
		if m.Extras.Snapshot != "" || len(m.Extras.Left) != 1 || !strings.Contains(m.Extras.Left[0].Why, "11 bytes, the limit is 10") {
			t.Errorf("%+v", m.Extras)
		}
		to := station(t)
		got, err := wholePlace(t, to, "demo").Bring(t.Context(), s.Dir, m, archive.How{By: "anna"})
		if err != nil || !got.Stale || got.Files != archive.FilesBrought || !brought(t, to).Lost {
			t.Errorf("%v %+v", err, got)
		}
	})
	t.Run("EVT-9 SAFE-3 a part that was changed, or is missing, brings nothing of the run", func(t *testing.T) {
		t.Parallel()
		for _, harm := range []func(string) error{os.Remove, func(at string) error { return os.WriteFile(at, []byte("oNe"), 0o600) }} {
			st, b, dir := station(t), story(), t.TempDir()
			put(t, st, b.Events()...)
			ref := keep(t, st, "", 1, "one")[0]
			s := whole(t, st, dir)
			m := saved(t, s)
			if err := harm(filepath.Join(dir, "trees", "demo", "session=demo", ref.SHA256)); err != nil {
				t.Fatal(err)
			}
			to := station(t)
			if _, err := wholePlace(t, to, "demo").Bring(t.Context(), s.Dir, m, archive.How{By: "anna"}); err == nil || len(to.Log("r")) != 0 {
				t.Errorf("%v, %d events", err, len(to.Log("r")))
			}
			if keys, err := to.KV(topology.TreeBucket).Keys(t.Context(), ""); err != nil || len(keys) != 0 {
				t.Errorf("%v %v", keys, err)
			}
		}
	})
	t.Run("EVT-9 a store that does not have a part is named, and the run is saved all the same", func(t *testing.T) {
		t.Parallel()
		st, b := station(t), story()
		put(t, st, b.Events()...)
		ref := keep(t, st, "", 1, "one")[0]
		st.DamageBlob(ref.SHA256, []byte("no"))
		if m := saved(t, whole(t, st, t.TempDir())); m.Sequence != 5 || m.Extras.Snapshot != "" || len(m.Extras.Left) != 1 {
			t.Errorf("%+v", m.Extras)
		}
	})
	t.Run("EVT-9 a record that stands gets back the objects that were lost", func(t *testing.T) {
		t.Parallel()
		st, b := station(t), story()
		put(t, st, b.Events()...)
		ref := keep(t, st, "", 1, "one")[0]
		s := whole(t, st, t.TempDir())
		m := saved(t, s)
		to := station(t)
		record(t, to, map[string]any{"workspace": treeOf, "fence": 9, "snapshot": "b", "packs": []any{map[string]any{"parts": []events.Ref{ref}}}})
		if got, err := wholePlace(t, to, "demo").Bring(t.Context(), s.Dir, m, archive.How{By: "anna"}); err != nil || got.Files != archive.FilesThere {
			t.Errorf("%v %+v", err, got)
		}
		if _, err := to.Blobs().Get(t.Context(), ref); err != nil || brought(t, to).Fence != 9 {
			t.Error(err)
		}
	})
}

func TestJoin(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 of several archives the longest log of an open run counts, and the newest workspace", func(t *testing.T) {
		t.Parallel()
		st, b := station(t), story()
		put(t, st, b.Events()[:3]...)
		keep(t, st, "a", 1, "old")
		short := whole(t, st, t.TempDir())
		saved(t, short)
		put(t, st, b.Events()[3:]...)
		keep(t, st, "a", 2, "new")
		long := whole(t, st, t.TempDir())
		saved(t, long)
		for _, both := range [][]archive.Source{{short.Dir, long.Dir}, {long.Dir, short.Dir}} {
			src := archive.Join(both...)
			all, err := src.Runs(t.Context())
			if err != nil || len(all) != 1 || all[0].Sequence != 5 {
				t.Fatalf("%v %+v", err, all)
			}
			to := station(t)
			if _, err := wholePlace(t, to, "demo").Bring(t.Context(), src, all[0], archive.How{By: "anna"}); err != nil {
				t.Error(err)
			}
			if rec := brought(t, to); rec.Fence != 3 {
				t.Errorf("fence %d", rec.Fence)
			}
		}
	})
	t.Run("EVT-9 SAFE-3 an object that one archive has damaged is taken from the other", func(t *testing.T) {
		t.Parallel()
		st, b, dir := station(t), story(), t.TempDir()
		put(t, st, b.Events()...)
		bad, good := whole(t, st, dir), whole(t, st, t.TempDir())
		m := saved(t, bad)
		saved(t, good)
		at := filepath.Join(dir, "objects", m.Segments[0].Ref.SHA256[:2], m.Segments[0].Ref.SHA256)
		if err := os.WriteFile(at, bytes.Repeat([]byte("x"), int(m.Segments[0].Ref.Size)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := wholePlace(t, station(t), "demo").Bring(t.Context(), archive.Join(bad.Dir, good.Dir), m, archive.How{By: "anna"}); err != nil {
			t.Error(err)
		}
	})
}

func TestArtifactsOfArchives(t *testing.T) {
	t.Parallel()
	st := station(t)
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"))
	ref, err := st.Artifacts().Put(t.Context(), "r", []byte("made"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	one := events.Artifact{ID: "a-1", Type: "file", Name: "x.md", Path: "x.md", Size: ref.Size, SHA256: ref.SHA256, ContentType: "text/plain", CreatedAt: runtest.Start,
		Key: "runs/r/output/x.md", Kept: events.StoredInBucket, TTLMS: time.Hour.Milliseconds(), Run: "r"}
	lost := one
	lost.ID, lost.Path, lost.Key, lost.SHA256 = "a-2", "y.md", "runs/r/output/y.md", strings.Repeat("0", 64)
	asked := runtest.Asked(1, 1, "write", "{}")
	of := runtest.Ref("a", asked.ID, "write")
	b.Append(runtest.Turn(1, "a", "", asked), runtest.CallYes(of, "once"), runtest.CallBegun(of, 1))
	made := runtest.Saved(b.State(), of, b.State().Sequence)
	made.Artifacts = []events.Artifact{one, lost}
	b.Append(made)
	put(t, st, b.Events()...)
	dir := t.TempDir()
	s := whole(t, st, dir)
	m := saved(t, s)
	t.Run("EVT-9 ART-8 artifacts are saved and brought with their time, and what the station did not have is named", func(t *testing.T) {
		if len(m.Extras.Artifacts) != 1 || len(m.Extras.Left) != 2 { // and the files
			t.Errorf("%+v", m.Extras)
		}
		to := station(t)
		got, err := wholePlace(t, to, "demo").Bring(t.Context(), s.Dir, m, archive.How{By: "anna"})
		if err != nil || got.Artifacts != 1 || got.MissingArtifacts != 1 {
			t.Fatalf("%v %+v", err, got)
		}
		all, err := to.Artifacts().Stored(t.Context())
		if err != nil || len(all) != 1 || all[0].Run != "r" || all[0].TTL != time.Hour {
			t.Errorf("%v %+v", err, all)
		}
	})
	t.Run("EVT-9 ART-8 an artifact goes out of the archive when its time is over, and not before", func(t *testing.T) {
		at := runtest.Start.Add(time.Minute)
		stop := func(m archive.Manifest, ended *time.Time, now time.Time) int {
			m.Extras.EndedAt = ended
			b, err := json.Marshal(m)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "runs", "demo", "r.json"), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.Dir.Expire(t.Context(), "demo", now)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := stop(m, nil, at.Add(9*time.Hour)); n != 0 {
			t.Errorf("%d of an open run went", n)
		}
		if n := stop(m, &at, at.Add(time.Hour-1)); n != 0 {
			t.Errorf("%d went too early", n)
		}
		if n := stop(m, &at, at.Add(time.Hour)); n != 1 {
			t.Errorf("%d went, want 1", n)
		}
		if _, err := s.Dir.Artifact(t.Context(), "demo", "r", ref); !errors.Is(err, kernel.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 SAFE-12 a bundle puts no files into a session that the station has of its own", func(t *testing.T) {
		t.Parallel()
		st, dir := station(t), t.TempDir()
		b := runtest.New("demo", "r")
		c := runtest.Created()
		c.Session, c.Workspace = "mine", "session/mine"
		b.Append(c, runtest.Started())
		put(t, st, b.Events()...)
		rec := map[string]any{"workspace": c.Workspace, "fence": 1, "snapshot": "s"}
		raw, err := json.Marshal(rec)
		if err == nil {
			err = st.KV(topology.TreeBucket).Put(t.Context(), events.TreeKey(c.Workspace), raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := whole(t, st, dir)
		m := saved(t, s)
		for _, own := range []bool{true, false} {
			to, err := mem.New("other", mem.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if own {
				if err := to.KV(topology.SessionBucket).Put(t.Context(), "session.mine", []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			got, err := wholePlace(t, to, "other").Bring(t.Context(), s.Dir, m, archive.How{By: "anna"})
			if err != nil {
				t.Fatal(err)
			}
			if keys, _ := to.KV(topology.TreeBucket).Keys(t.Context(), ""); (len(keys) == 0) != own || own != (got.Files == archive.FilesLeft) {
				t.Errorf("own %v: %v %+v", own, keys, got)
			}
		}
	})
	t.Run("EVT-9 SAFE-15 a bundle with a record that is too long to be read whole is refused before it is written", func(t *testing.T) {
		t.Parallel()
		for over, want := range map[int64]bool{0: false, 1: true} {
			var file bytes.Buffer
			z := gzip.NewWriter(&file)
			w := tar.NewWriter(z)
			size := int64(16<<20) + over
			for name, data := range map[string][]byte{"inspan-archive.json": []byte(`{"format": 1}`), "trees/demo/run=r/tree.json": bytes.Repeat([]byte(" "), int(size))} {
				if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o600}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(data); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(w.Close(), z.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Unpack(&file, t.TempDir()); errors.Is(err, archive.ErrBundle) != want {
				t.Errorf("%d bytes above the limit: %v", over, err)
			}
		}
	})
	t.Run("EVT-9 SAFE-12 a record that speaks of another workspace, or names what is no digest, is damage", func(t *testing.T) {
		t.Parallel()
		for _, rec := range []string{`{"workspace":"session/other","snapshot":"s"}`, `{"workspace":"session/demo","packs":[{"parts":[{"sha256":"../../../x","size":1}]}]}`, `{`, `[]`} {
			dir := t.TempDir()
			d, err := archive.Create(dir)
			if err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(dir, "trees", "demo", "session=demo")
			tree, _ := json.Marshal(map[string]any{"record": json.RawMessage(rec)})
			if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, "tree.json"), tree, 0o600)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Tree(context.Background(), "demo", treeOf); !errors.Is(err, archive.ErrDamaged) {
				t.Errorf("%s: %v", rec, err)
			}
			_ = d.Close()
		}
	})
}
