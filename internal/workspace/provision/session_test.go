package provision

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestSessionFiles(t *testing.T) {
	t.Parallel()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kv := st.KV(topology.SessionBucket)
	files := NewSessionFiles(dir, kv, st.Blobs())
	work := filepath.Join(dir, "session", "s")
	put := func(e events.Session) {
		t.Helper()
		b, err := json.Marshal(e)
		if err == nil {
			err = kv.Put(t.Context(), "session.s", b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(id string, fence uint64) run.State {
		return run.State{HarnessID: id, Created: &events.RunCreatedData{Session: "s", SessionFence: fence, Workspace: "session/s"}}
	}
	cleared := 0
	dress := func(s run.State) error {
		return files.Write(t.Context(), s, workdir.Dir{Workspace: "session/s", Path: "session/s"}, func(context.Context, events.Session) error {
			cleared++
			return os.RemoveAll(work)
		})
	}
	until := time.Unix(2e9, 0).UTC()
	if err := os.MkdirAll(filepath.Join(work, ".git", "info"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(dir, "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(work, metaFile)); err != nil {
		t.Fatal(err)
	}
	t.Run("SESS-18 the lock file names run, process and expiry, and goes with the run", func(t *testing.T) {
		put(events.Session{ID: "s", Fence: 1, Born: 1, Mode: events.Sequential, Holders: []events.Holder{{Run: "r1", Fence: 1, Until: until}}})
		if err := dress(at("r1", 1)); err != nil {
			t.Fatal(err)
		}
		var l lock
		b, err := os.ReadFile(filepath.Join(work, lockFile))
		if err == nil {
			err = json.Unmarshal(b, &l)
		}
		if err != nil || l.Run != "r1" || l.PID != os.Getpid() || !l.Until.Equal(until) || l.Fence != 1 {
			t.Errorf("%s, %v", b, err)
		}
		if b, err := os.ReadFile(filepath.Join(work, ".git", "info", "exclude")); err != nil || !strings.Contains(string(b), "/.session.lock\n") {
			t.Errorf("%q, %v", b, err)
		}
		files.Ended("r1")
		if _, err := os.Stat(filepath.Join(work, lockFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
	})
	t.Run("SESS-18 a link that somebody put in the place of a file is replaced, and not followed", func(t *testing.T) {
		if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
			t.Errorf("%q, %v", b, err)
		}
		if info, err := os.Lstat(filepath.Join(work, metaFile)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%v, %v", info, err)
		}
	})
	t.Run("SESS-1 the files of a session live on, and those of a deleted one are not the next one's", func(t *testing.T) {
		kept := filepath.Join(work, "kept.txt")
		if err := os.WriteFile(kept, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		put(events.Session{ID: "s", Fence: 2, Born: 1})
		if err := dress(at("r2", 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
		put(events.Session{ID: "s", Fence: 3, Born: 3})
		if err := dress(at("r3", 3)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) || cleared != 1 {
			t.Errorf("it is still there: %v, cleared %d times", err, cleared)
		}
	})
}
