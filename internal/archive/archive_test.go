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

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func station(t *testing.T) *mem.Station {
	t.Helper()
	st, err := mem.New("demo", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// put appends events as they are.
func put(t *testing.T, st *mem.Station, evs ...[]byte) {
	t.Helper()
	for _, b := range evs {
		f, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := f.Kind()
		var head uint64
		if log := st.Log(f.Run); len(log) > 0 {
			head = log[len(log)-1].Seq
		}
		if ack := st.Journal().Append(t.Context(), kernel.Entry{ID: f.Run, Kind: kind, Head: head, Bytes: b}); ack.Outcome != kernel.Stored {
			t.Fatalf("%s %v", ack.Outcome, ack.Err)
		}
	}
}

func saver(t *testing.T, st *mem.Station, dir string) *archive.Saver {
	t.Helper()
	d, err := archive.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return &archive.Saver{Dir: d, Station: "demo", Journal: st.Journal(), Blobs: st.Blobs(), State: st.KV(topology.StateBucket), Config: st.KV(topology.ConfigBucket)}
}

func place(t *testing.T, st *mem.Station) *archive.Restorer {
	t.Helper()
	cfg := archive.RestorerConfig{Station: "demo", Journals: map[events.Service]kernel.Journal{}, Blobs: st.Blobs(), Timers: st.Timers(),
		Config: st.KV(topology.ConfigBucket), State: st.KV(topology.StateBucket), Entropy: rand.Reader}
	for _, by := range events.Services() {
		cfg.Journals[by] = st.JournalOf(by)
	}
	p, err := archive.NewRestorer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func story() *runtest.Builder {
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.GateAt("g", "a", ""))
	return b
}

func files(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	all := map[string]time.Time{}
	err := filepath.Walk(dir, func(p string, i os.FileInfo, err error) error {
		if err == nil && !i.IsDir() {
			all[strings.TrimPrefix(p, dir)] = i.ModTime()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSave(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 saves add what is new, many become one, and one that has nothing new changes nothing", func(t *testing.T) {
		t.Parallel()
		st, b, dir := station(t), story(), t.TempDir()
		s := saver(t, st, dir)
		for range 40 {
			b.Append(runtest.Checkpoint(b.State()))
		}
		for i, f := range b.Events() {
			put(t, st, f)
			m, err := s.Save(t.Context(), "r")
			if err != nil || m.Sequence != uint64(i)+1 || len(m.Segments) > 17 {
				t.Fatalf("%v: %d events in %d segments, want %d", err, m.Sequence, len(m.Segments), i+1)
			}
		}
		m, _, err := s.Dir.Manifest(t.Context(), "demo", "r")
		if err != nil {
			t.Fatal(err)
		}
		evs, err := archive.Events(t.Context(), s.Dir, m)
		if err != nil || !bytes.Equal(runtest.Lines(evs), runtest.Lines(b.Events())) || m.Head != b.State().Hash {
			t.Errorf("%v: %d events", err, len(evs))
		}
		before := files(t, dir)
		if _, err := s.Save(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		if after := files(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Error("a save of nothing new changed files")
		}
		if want := 3 + len(m.Segments); len(before) != want { // the mark, the lock, the manifest
			t.Errorf("%d files, want %d: what nothing names is dropped", len(before), want)
		}
	})
	t.Run("EVT-9 SAFE-3 a log that was cut off or written again is not put in the place of the one that is saved", func(t *testing.T) {
		t.Parallel()
		st, b, dir := station(t), story(), t.TempDir()
		put(t, st, b.Events()...)
		if _, err := saver(t, st, dir).Save(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		before := files(t, dir)
		other := runtest.New("demo", "r")
		other.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("z")), runtest.Ready("z"), runtest.GateAt("g", "z", ""), runtest.Checkpoint(other.State()))
		for name, evs := range map[string][][]byte{"cut off": b.Events()[:3], "written again": other.Events(), "gone": nil} {
			lost := station(t)
			put(t, lost, evs...)
			d, err := archive.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			s := &archive.Saver{Dir: d, Station: "demo", Journal: lost.Journal(), Blobs: lost.Blobs(), State: lost.KV("s"), Config: lost.KV("c")}
			if _, err := s.Save(t.Context(), "r"); !errors.Is(err, archive.ErrShorter) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if after := files(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Error("files were changed")
		}
	})
	t.Run("EVT-9 what a crash left half written is not read, and the save goes on", func(t *testing.T) {
		t.Parallel()
		st, b, dir := station(t), story(), t.TempDir()
		s := saver(t, st, dir)
		put(t, st, b.Events()[:3]...)
		if _, err := s.Save(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"runs/demo/.part-1", "objects/ab/.part-2"} {
			p := filepath.Join(dir, at)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte("{"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		put(t, st, b.Events()[3:]...)
		if m, err := s.Save(t.Context(), "r"); err != nil || m.Sequence != 5 {
			t.Errorf("%v %d", err, m.Sequence)
		}
		if all, err := s.Dir.Runs(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%d runs, %v", len(all), err)
		}
	})
	t.Run("EVT-9 one process writes to an archive", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		saver(t, station(t), dir)
		if _, err := archive.Create(dir); !errors.Is(err, archive.ErrLocked) {
			t.Errorf("got %v, want ErrLocked", err)
		}
	})
}

func TestKeeper(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 a keeper saves what it missed, what is touched, and at its end what is left", func(t *testing.T) {
		t.Parallel()
		st, b := station(t), story()
		s := saver(t, st, t.TempDir())
		put(t, st, b.Events()[:2]...)
		if err := st.KV(topology.StateBucket).Put(t.Context(), "run.r", []byte(`{"sequence":2}`)); err != nil {
			t.Fatal(err)
		}
		k, err := archive.NewKeeper(s, time.Hour, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		for m := (archive.Manifest{}); m.Sequence != 2; {
			if m, _, err = s.Dir.Manifest(t.Context(), "demo", "r"); err != nil || t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		put(t, st, b.Events()[2:]...)
		k.Touch("r")
		cancel()
		<-done
		if m, _, err := s.Dir.Manifest(t.Context(), "demo", "r"); err != nil || m.Sequence != 5 {
			t.Errorf("%v %d", err, m.Sequence)
		}
	})
}

func TestBring(t *testing.T) {
	t.Parallel()
	st, b := station(t), story()
	big := runtest.Turn(1, "a", "long")
	ref, err := st.Blobs().Put(t.Context(), "text", bytes.Repeat([]byte("x"), 5000))
	if err != nil {
		t.Fatal(err)
	}
	big.TextRef = &ref
	opened := b.State()
	b.Append(runtest.Yes(opened.Gate("g")), runtest.Allowed("a"), big)
	put(t, st, b.Events()...)
	dir := t.TempDir()
	s := saver(t, st, dir)
	m, err := s.Save(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("EVT-9 SAFE-6 a run is brought with its objects under the users of its authors, and again changes nothing", func(t *testing.T) {
		t.Parallel()
		to := station(t)
		for n := range 3 {
			got, err := place(t, to).Bring(t.Context(), s.Dir, m, archive.How{By: "anna"})
			if err != nil || got.Objects != 1 || (got.Copied > 0) != (n == 0) {
				t.Fatalf("%d: %v %+v", n, err, got)
			}
		}
		log := to.Log("r")
		if len(log) != len(b.Events())+1 || log[len(log)-1].Kind != events.RunMoved {
			t.Errorf("%d events", len(log))
		}
		if _, err := to.Blobs().Get(t.Context(), ref); err != nil {
			t.Error(err)
		}
	})
	t.Run("EVT-9 LIFE-11 the deadline of a run is a timer at its new place", func(t *testing.T) {
		t.Parallel()
		to := station(t)
		if _, err := place(t, to).Bring(t.Context(), s.Dir, m, archive.How{By: "anna"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		fired := ""
		err := to.Inbox().Listen(ctx, events.Planner, 1, func(ctx context.Context, msg kernel.Message) {
			if runID, family, id, ok := events.ParseDue(msg.Subject()); ok { // it was long ago, so it fires at once
				fired = runID + " " + family + " " + id
				cancel()
			}
			_ = msg.Ack(ctx)
		})
		if err != nil || fired != "r run deadline" {
			t.Errorf("%v, %q fired", err, fired)
		}
	})
	t.Run("EVT-9 SAFE-3 an archive whose anchor has another event, or that no one trusted signed, is not brought", func(t *testing.T) {
		t.Parallel()
		wrong := m
		a := run.Anchor{Station: "demo", Run: "r", Sequence: 3, Hash: run.HashOf(nil), At: runtest.Start}
		wrong.Anchor = &a
		to := station(t)
		if _, err := place(t, to).Bring(t.Context(), s.Dir, wrong, archive.How{}); !errors.Is(err, archive.ErrUnsound) || len(to.Log("r")) != 0 {
			t.Errorf("%v, %d events", err, len(to.Log("r")))
		}
	})
	t.Run("EVT-9 a bundle has one run, and comes back as it was", func(t *testing.T) {
		t.Parallel()
		var file bytes.Buffer
		if err := archive.Pack(t.Context(), &file, s.Dir); err != nil {
			t.Fatal(err)
		}
		d, err := archive.Unpack(&file, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Only(t.Context())
		if err != nil || got.Head != m.Head {
			t.Fatalf("%v %+v", err, got)
		}
		if _, err := place(t, station(t)).Bring(t.Context(), d, got, archive.How{By: "anna"}); err != nil {
			t.Error(err)
		}
	})
}

func TestHostileBundles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../evil", "/etc/passwd", "objects/../../x", "runs/demo/r.json/../../../x", "objects/ab/short", ".lock", "runs/a b/r.json",
		"trees/demo/../demo/tree.json", "trees/demo/session=x/tree.json/y", "artifacts/demo/r/short", "branches/demo/x.json"} {
		t.Run("SAFE-12 EVT-9 a bundle with "+strings.ReplaceAll(name, "/", "_")+" is refused and writes nothing", func(t *testing.T) {
			t.Parallel()
			var file bytes.Buffer
			z := gzip.NewWriter(&file)
			w := tar.NewWriter(z)
			if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Size: 2, Mode: 0o600}), func() error { _, err := w.Write([]byte("{}")); return err }(), w.Close(), z.Close()); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			into := filepath.Join(dir, "in")
			if _, err := archive.Unpack(&file, into); !errors.Is(err, archive.ErrBundle) {
				t.Errorf("%v", err)
			}
			if got := files(t, dir); len(got) != 0 {
				t.Errorf("files were written: %v", got)
			}
		})
	}
	t.Run("SAFE-12 what is no bundle is said so", func(t *testing.T) {
		t.Parallel()
		if _, err := archive.Unpack(strings.NewReader("hello"), t.TempDir()); !errors.Is(err, archive.ErrBundle) {
			t.Errorf("%v", err)
		}
	})
}

func TestBucket(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 a station whose log alone was lost gets its ended runs back from its own object store", func(t *testing.T) {
		t.Parallel()
		st := station(t)
		b := runtest.New("demo", "done")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")))
		b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
		ref, err := st.Blobs().Put(t.Context(), "archive", runtest.Lines(b.Events()))
		if err != nil {
			t.Fatal(err)
		}
		info := run.InfoOf(b.State())
		info.Archive = &ref
		row, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string][]byte{"run.done": row, "run.open": []byte(`{"harnessId":"open"}`), "run.bad": []byte("{")} {
			if err := st.KV(topology.StateBucket).Put(t.Context(), key, value); err != nil {
				t.Fatal(err)
			}
		}
		p := place(t, st)
		all, err := p.Bucket().Runs(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%d runs, %v", len(all), err)
		}
		got, err := p.Bring(t.Context(), p.Bucket(), all[0], archive.How{By: "anna"})
		if err != nil || got.Copied != 4 || len(st.Log("done")) != 4 {
			t.Errorf("%v %+v", err, got)
		}
	})
}
