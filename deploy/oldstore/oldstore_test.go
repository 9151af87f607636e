package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// heldFile names the file that the child of a test keeps open, as a program of before does.
const heldFile = "INSPAN_TEST_HELD"

func TestMain(m *testing.M) {
	path := os.Getenv(heldFile)
	if path == "" {
		m.Run() // its code becomes that of the program
		return
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=locking_mode(EXCLUSIVE)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = db.Exec("CREATE TABLE held(a)")
	}
	fmt.Println("held", err)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the test ends
}

// frozen returns a folder with what a program of before left: station.db of a station without NATS, and fallback.db as
// it was while its program ran, most of it in the write-ahead log.
func frozen(t *testing.T) string {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func opened(t *testing.T, path, station string) *localstore.Station {
	s, err := localstore.Open(t.Context(), localstore.Config{Path: path, Station: station})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// state folds a run, and so compares its hashes.
func state(t *testing.T, s *localstore.Station, id string) run.State {
	evs, more, err := s.Journal().Read(t.Context(), id, 0)
	if err != nil || more {
		t.Fatal(err, more)
	}
	var all [][]byte
	for _, r := range evs {
		all = append(all, r.Bytes)
	}
	folded, err := run.Fold(run.State{}, all...)
	if err != nil {
		t.Fatal(err)
	}
	return folded
}

func TestConvert(t *testing.T) {
	dir := frozen(t)
	var out bytes.Buffer
	if err := folder(dir, &out); err != nil {
		t.Fatal(err)
	}
	t.Run("PERS-17 a station without NATS has its runs, values and objects, and goes on", func(t *testing.T) {
		s := opened(t, filepath.Join(dir, "station.bolt"), "default")
		runs, err := s.Logged(t.Context())
		if want := []string{"gated", "s-1", "s-2", "seen"}; err != nil || !slices.Equal(runs, want) {
			t.Fatalf("runs %q, want %q, %v", runs, want, err)
		}
		for id, want := range map[string]events.Status{"gated": events.Running, "s-1": events.Completed, "s-2": events.Completed, "seen": events.Completed} {
			if is := state(t, s, id); is.Status != want {
				t.Errorf("run %s is %s, want %s", id, is.Status, want)
			}
			if _, revision, err := s.KV("harness-state").Load(t.Context(), "run."+id); err != nil || revision == 0 {
				t.Errorf("row of %s: revision %d, %v", id, revision, err)
			}
		}
		if sessions, _, err := s.JournalFor("session").Read(t.Context(), "desk", 0); err != nil || len(sessions) == 0 {
			t.Errorf("%d events of the session, %v", len(sessions), err)
		}
		last, _, err := s.Journal().Last(t.Context(), "gated")
		if err != nil {
			t.Fatal(err)
		}
		ack := s.Journal().Append(t.Context(), kernel.Entry{ID: "gated", Kind: events.RunPaused, Head: last.Seq, Bytes: []byte("{}")})
		if ack.Outcome != kernel.Stored || ack.Seq <= 39 { // the last position that the old store gave
			t.Errorf("the next event: %s at %d, %v", ack.Outcome, ack.Seq, ack.Err)
		}
	})
	t.Run("PERS-17 PERS-4 a fallback has its branches, and what was not yet received", func(t *testing.T) {
		s := opened(t, filepath.Join(dir, "fallback.bolt"), "exam")
		all, err := s.Branches(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var is []string
		for _, b := range all {
			is = append(is, fmt.Sprintf("%s %d of %d", b.Status, b.Home, b.Events))
		}
		if want := []string{"home 2 of 2", "refused 0 of 2", "open 0 of 5"}; !slices.Equal(is, want) {
			t.Errorf("branches %q, want %q", is, want)
		}
		if open, err := s.Branches(t.Context(), localstore.BranchOpen); err != nil || len(open) != 1 || open[0].ID != 3 {
			t.Errorf("open %+v, %v", open, err)
		}
		if evs, err := s.Evidence(t.Context(), 3); err != nil || len(evs) != 5 || evs[0].Kind != events.TurnFinished {
			t.Errorf("%d events, %v", len(evs), err)
		}
		data := []byte("much text")
		if got, err := s.Blobs().Get(t.Context(), events.Ref{SHA256: events.HashOf(data), Size: int64(len(data))}); err != nil || !bytes.Equal(got, data) {
			t.Errorf("object %q, %v", got, err)
		}
		if value, revision, err := s.KV("harness-state").Load(t.Context(), "snap.r"); err != nil || string(value) != `{"a":1}` || revision != 2 {
			t.Errorf("value %s at %d, %v", value, revision, err)
		}
		if dead, err := s.Dead(t.Context(), 0); err != nil || len(dead) != 1 || dead[0].By != events.Planner || dead[0].Letter.Seq != 7 {
			t.Errorf("dead letters %+v, %v", dead, err)
		}
		if n := s.Pending(events.Planner); n == 0 {
			t.Error("nothing waits for the planner")
		}
	})
	t.Run("PERS-17 the old files are as they were, and a second time changes nothing", func(t *testing.T) {
		out.Reset()
		if err := folder(dir, &out); err != nil || strings.Count(out.String(), "is there already") != 2 {
			t.Errorf("%s%v", out.String(), err)
		}
		for _, name := range []string{"station.db", "fallback.db", "fallback.db-wal"} {
			was, err := os.ReadFile(filepath.Join("testdata", name))
			is, err2 := os.ReadFile(filepath.Join(dir, name))
			if err != nil || err2 != nil || !bytes.Equal(is, was) {
				t.Errorf("%s was changed, %v, %v", name, err, err2)
			}
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".part-*")); err != nil || len(left) > 0 {
			t.Errorf("%q was left, %v", left, err)
		}
	})
}

// TestNotConverted looks at what must leave no new file.
func TestNotConverted(t *testing.T) {
	none := func(t *testing.T, dir string) {
		t.Helper()
		left, err := filepath.Glob(filepath.Join(dir, "*.bolt"))
		parts, err2 := filepath.Glob(filepath.Join(dir, ".part-*"))
		if err != nil || err2 != nil || len(left)+len(parts) > 0 {
			t.Errorf("there are %q, %q, %v, %v", left, parts, err, err2)
		}
	}
	t.Run("PERS-17 a damaged file is refused", func(t *testing.T) {
		dir := frozen(t)
		path := filepath.Join(dir, "station.db")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 4096; i < 4096+64; i++ {
			b[i] ^= 0xff
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := folder(dir, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
		none(t, dir)
	})
	t.Run("PERS-17 a file that an old program has open is refused", func(t *testing.T) {
		dir := frozen(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		child := exec.CommandContext(ctx, os.Args[0])
		child.Env = append(os.Environ(), heldFile+"="+filepath.Join(dir, "station.db"))
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err := errors.Join(err, child.Start()); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held <nil>\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := folder(dir, &bytes.Buffer{}); !errors.Is(err, localstore.ErrInUse) {
			t.Errorf("got %v, want %v", err, localstore.ErrInUse)
		}
		none(t, dir)
		if err := errors.Join(in.Close(), child.Wait()); err != nil {
			t.Error(err)
		}
	})
	t.Run("PERS-17 a folder without a store is no error, one that is not there is", func(t *testing.T) {
		var out bytes.Buffer
		if err := folder(t.TempDir(), &out); err != nil || !strings.Contains(out.String(), "no store of an earlier version") {
			t.Errorf("%s%v", out.String(), err)
		}
		if err := folder(filepath.Join(t.TempDir(), "none"), &out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}
