package jet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
)

// storedAll appends and fails where one of the events is not in the log afterwards.
func storedAll(t *testing.T, j kernel.Journal, entries []kernel.Entry) {
	t.Helper()
	for i, ack := range atOnce(t, j, entries) {
		if ack.Outcome != kernel.Stored {
			t.Errorf("append %d: %s (%v), want stored", i, ack.Outcome, ack.Err)
		}
	}
	for _, e := range entries {
		if last, ok, err := j.Last(within(t), e.ID); err != nil || !ok || string(last.Bytes) != string(e.Bytes) {
			t.Fatalf("%s: %q, there %t (%v)", e.ID, last.Bytes, ok, err)
		}
	}
}

func TestStagingFolder(t *testing.T) {
	t.Parallel()
	t.Run("EVT-15 after the machine was started again the link leads nowhere, and the next start makes its folder anew", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s, j, c, room := staged(t, dir)
		before := firstEvents(100, "a")
		storedAll(t, j, before)
		c.Close()
		s.Shutdown()
		at := filepath.Join(dir, "jetstream", "$G", "streams", "LOG_s1", "batches")
		if err := os.Symlink(room, at); err != nil { // a crash leaves the link, and what is in memory goes with the machine
			t.Fatal(err)
		}
		_, j, c, again := staged(t, dir)
		if again != room {
			t.Errorf("it stages in %s, want %s", again, room)
		}
		storedAll(t, j, firstEvents(100, "b"))
		if c.Grouped() == 0 {
			t.Error("no append was sent in a batch")
		}
		for _, e := range before {
			if _, ok, err := j.Last(within(t), e.ID); err != nil || !ok {
				t.Errorf("%s is there %t (%v), want what was acknowledged", e.ID, ok, err)
			}
		}
	})
	t.Run("SAFE-4 where the folder in memory is full every append is sent alone and none is lost", func(t *testing.T) {
		t.Parallel()
		_, j, c, room := staged(t, t.TempDir())
		if err := os.RemoveAll(room); err != nil {
			t.Fatal(err)
		}
		small := filepath.Join(t.TempDir(), "small")
		if err := os.Mkdir(small, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
			t.Skipf("NOT TRIED: a small folder in memory cannot be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
		if err := os.Symlink(small, room); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(room) })
		if err := os.WriteFile(filepath.Join(small, "full"), make([]byte, 60<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		entries := firstEvents(200, "r")
		for i := range entries {
			entries[i].Bytes = fmt.Appendf(nil, `{"n":%d,"x":%q}`, i, strings.Repeat("x", 4<<10))
		}
		storedAll(t, j, entries)
		if c.Grouped() != 0 {
			t.Errorf("%d appends were stored by batches: the server does not stage in the folder that the link leads to", c.Grouped())
		}
	})
	t.Run("EVT-15 a folder that the server has filled itself is left alone, and batches are gathered on disk", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		at := filepath.Join(dir, "jetstream", "$G", "streams", "LOG_s1", "batches", "of-another-version")
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.StoreDir = dir })
		c := jettest.Connect(t, s, jet.Config{})
		j := jettest.Station(t, c, "s1", jet.ApplyOptions{}).Journal()
		c.GroupAppends(jet.GroupOnDisk)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if n, err := s.StageInMemory(); err == nil || n != 0 {
			t.Errorf("%d logs are staged in memory (%v), want none and an error", n, err)
		}
		storedAll(t, j, firstEvents(200, "r"))
		if c.Grouped() == 0 {
			t.Error("no append was sent in a batch")
		}
		if _, err := os.Stat(at); err != nil {
			t.Errorf("what the server keeps there is gone: %v", err)
		}
	})
}
