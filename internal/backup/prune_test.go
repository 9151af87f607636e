package backup_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// logOf fills the log of a station with whole runs, an event of each by turns.
func logOf(t *testing.T, st *jet.Station, runs map[string]*runtest.Builder) {
	t.Helper()
	var all []backup.Message
	for i := 0; ; i++ {
		some := false
		for _, id := range slices.Sorted(maps.Keys(runs)) {
			if evs := runs[id].Events(); i < len(evs) {
				_, p, err := events.Read(evs[i])
				if err != nil {
					t.Fatal(err)
				}
				all, some = append(all, backup.Message{Seq: uint64(len(all)) + 1, Data: evs[i],
					Subject: events.EventSubject("s1", events.RunAggregate, id, p.Kind())}), true
			}
		}
		if !some {
			break
		}
	}
	if err := st.AppendLog(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// began is a run that was started, as its first event says.
func began(id string, change func(*events.RunCreatedData)) *runtest.Builder {
	b := runtest.New("s1", id)
	c := runtest.Created()
	if change != nil {
		change(c)
	}
	b.Append(c, runtest.Started())
	return b
}

func endedAt(b *runtest.Builder, at time.Time) *runtest.Builder {
	b.AppendAt(at, runtest.Failed(b.State(), events.FinishStopped, "enough"))
	return b
}

func TestPrune(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	child := func(of, root string) func(*events.RunCreatedData) {
		return func(c *events.RunCreatedData) {
			c.ChildOf = &events.Lineage{Parent: of, Root: root, Depth: 1, Step: "step-1", Attempt: 1}
		}
	}
	st := place(t)
	ref := func(text string) *events.Ref {
		r, err := st.Blobs().Put(t.Context(), "text", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	begins := func(with *events.Ref) func(*events.RunCreatedData) {
		return func(c *events.RunCreatedData) { c.History = with }
	}
	both, gone, stays := ref("what both refer to"), ref("what only old ones refer to"), ref("what an open one refers to")
	for kind, text := range map[string]string{"archive": "an archive", "tree": "no one says whose"} {
		if _, err := st.Blobs().Put(t.Context(), kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"old", "new"} {
		if _, err := st.Artifacts().Put(t.Context(), id, []byte("made by "+id), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	old, today := now.Add(-48*time.Hour), now.Add(-time.Minute)
	runs := map[string]*runtest.Builder{
		"old":  endedAt(began("old", begins(gone)), old),
		"old2": endedAt(began("old2", begins(both)), old),
		"new":  endedAt(began("new", begins(both)), today),
		"open": began("open", func(c *events.RunCreatedData) { c.Earlier, c.History = []string{"made"}, stays }),
		"made": endedAt(began("made", nil), old), // an open run is given its files
		// a whole old tree, and one with a child that is not old
		"p1": endedAt(began("p1", nil), old), "c1": endedAt(began("c1", child("p1", "p1")), old.Add(-time.Hour)),
		"p2": endedAt(began("p2", nil), old), "c2": endedAt(began("c2", child("p2", "p2")), today),
		"g2": endedAt(began("g2", child("c2", "p2")), old),
	}
	logOf(t, st, runs)
	whole := filepath.Join(t.TempDir(), "whole")
	from, err := backup.Take(t.Context(), takeOf(st, whole))
	if err != nil {
		t.Fatal(err)
	}
	cfg := func(dir string) backup.PruneConfig {
		return backup.PruneConfig{Age: 24 * time.Hour,
			CopyConfig: backup.CopyConfig{From: whole, Dir: dir, Station: "s1", By: "anna", Version: "test"}}
	}
	left := []string{"old", "old2", "p1", "c1"}

	t.Run("PLUS-24b whole trees of old runs are left out, with what only they refer to", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "b")
		done, err := backup.Prune(t.Context(), cfg(dir))
		if err != nil || done.Left != len(left) || done.Of.Log != from.Log || done.Copy.Runs != from.Runs || done.Copy.Open != 1 {
			t.Fatalf("%+v %v", done, err)
		}
		m, err := backup.Check(t.Context(), dir, nil)
		if err != nil || m.Log != from.Log-2*uint64(len(left)) {
			t.Fatalf("%+v %v", m, err)
		}
		to := place(t)
		if err := backup.Fill(t.Context(), to, dir, m, nil); err != nil {
			t.Fatal(err)
		}
		for id, b := range runs {
			evs, _, err := to.Journal().Read(t.Context(), id, 0)
			if err != nil {
				t.Fatal(err)
			}
			a := audit.New(audit.Config{Run: id})
			for _, e := range evs {
				a.Event(t.Context(), e)
			}
			rep := a.End()
			was := b.State()
			want, sequence := len(b.Events()), was.Sequence
			if slices.Contains(left, id) {
				want, sequence = 1, was.Sequence+1
			}
			if len(evs) != want || !rep.Sound || rep.Events != sequence || rep.Status != was.Status {
				t.Errorf("%s: %d events, %+v", id, len(evs), rep)
			}
		}
		for sum, there := range map[string]bool{both.SHA256: true, gone.SHA256: false, stays.SHA256: true} {
			_, err := to.Blobs().Get(t.Context(), events.Ref{SHA256: sum})
			if errors.Is(err, kernel.ErrNotFound) == there {
				t.Errorf("%.8s: %v", sum, err)
			}
		}
		artifacts, err := to.Artifacts().Stored(t.Context())
		if err != nil || len(artifacts) != 1 || done.Copy.Objects != 4 { // both, stays, the tree, an artifact
			t.Errorf("%d artifacts, %d objects, %v", len(artifacts), done.Copy.Objects, err)
		}
	})
	t.Run("PLUS-24b interrupted at any time it is no backup and is made again", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "b")
		for at := 1; ; at++ {
			ctx, end := context.WithCancelCause(t.Context())
			n, cut := 0, cfg(dir)
			cut.Progress = func(string, uint64, uint64) {
				if n++; n == at {
					end(errCut)
				}
			}
			done, err := backup.Prune(ctx, cut)
			end(nil)
			if err == nil {
				if at < 20 || done.Left != len(left) {
					t.Errorf("%d steps, %+v", at, done)
				}
				break
			}
			if !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			if _, err := backup.Check(t.Context(), dir, nil); !errors.Is(err, backup.ErrNoBackup) {
				t.Fatalf("at %d: %v", at, err)
			}
		}
	})
	t.Run("PLUS-24b a log that is not in order is left as it is", func(t *testing.T) {
		bad := place(t)
		odd := endedAt(began("odd", nil), old)
		logOf(t, bad, map[string]*runtest.Builder{"fine": endedAt(began("fine", nil), old)})
		evs := odd.Events()
		var all []backup.Message
		for i, e := range [][]byte{evs[0], evs[2]} {
			_, p, err := events.Read(e)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, backup.Message{Seq: uint64(4 + i), Data: e, Subject: events.EventSubject("s1", events.RunAggregate, "odd", p.Kind())})
		}
		if err := bad.AppendLog(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := backup.Take(t.Context(), takeOf(bad, filepath.Join(dir, "whole"))); err != nil {
			t.Fatal(err)
		}
		c := cfg(filepath.Join(dir, "b"))
		c.From = filepath.Join(dir, "whole")
		if done, err := backup.Prune(t.Context(), c); err != nil || done.Left != 1 || done.Copy.Log != 3 {
			t.Errorf("%+v %v", done, err)
		}
		c.Station, c.Dir = "other", filepath.Join(dir, "c")
		if _, err := backup.Prune(t.Context(), c); !errors.Is(err, backup.ErrOtherStation) || !strings.Contains(err.Error(), "--station s1") {
			t.Error(err)
		}
	})
}
