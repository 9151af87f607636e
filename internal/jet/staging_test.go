package jet_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
)

// staged starts a server on a folder with a station whose batches are gathered in memory, and says where.
func staged(t *testing.T, dir string) (s *natsserver.Server, j kernel.Journal, c *jet.Conn, room string) {
	t.Helper()
	s = jettest.Server(t, func(cfg *natsserver.Config) { cfg.StoreDir = dir })
	c = jettest.Connect(t, s, jet.Config{})
	j = jettest.Station(t, c, "s1", jet.ApplyOptions{}).Journal()
	c.GroupAppends(jet.GroupInMemory)
	n, err := s.StageInMemory()
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Skip("NOT TRIED: this machine has no folder in memory that a server could stage in")
	}
	at := filepath.Join(dir, "jetstream", "$G", "streams", "LOG_s1", "batches")
	if room, err = os.Readlink(at); err != nil {
		t.Fatalf("where the server stages there is no link: %v", err)
	}
	return s, j, c, room
}

func TestStageInMemory(t *testing.T) {
	t.Parallel()
	t.Run("EVT-15 batches that are gathered in memory are stored as others are, and survive a restart", func(t *testing.T) {
		t.Parallel()
		const many = 200
		dir := t.TempDir()
		s, j, c, room := staged(t, dir)
		if n, err := s.StageInMemory(); err != nil || n != 1 {
			t.Errorf("a second time: %d logs (%v), want 1 and no error", n, err)
		}
		for i, ack := range atOnce(t, j, firstEvents(many, "r")) {
			if ack.Outcome != kernel.Stored {
				t.Fatalf("append %d: %s (%v), want stored", i, ack.Outcome, ack.Err)
			}
		}
		if c.Grouped() == 0 {
			t.Error("no append was sent in a batch, want most of them")
		}
		c.Close()
		s.Shutdown()
		if _, err := os.Stat(room); !os.IsNotExist(err) {
			t.Errorf("the folder in memory is left behind by a server that was stopped: %v", err)
		}
		_, j, c, again := staged(t, dir)
		if again != room {
			t.Errorf("the next start stages in %s, want %s as before: a crash would leave one behind each time", again, room)
		}
		for _, e := range firstEvents(many, "r") {
			if last, ok, err := j.Last(within(t), e.ID); err != nil || !ok || string(last.Bytes) != string(e.Bytes) {
				t.Fatalf("%s after a restart: %q, there %t (%v)", e.ID, last.Bytes, ok, err)
			}
		}
		for i, ack := range atOnce(t, j, firstEvents(many, "s")) {
			if ack.Outcome != kernel.Stored {
				t.Fatalf("append %d after a restart: %s (%v), want stored", i, ack.Outcome, ack.Err)
			}
		}
		if c.Grouped() == 0 {
			t.Error("after a restart no append was sent in a batch")
		}
	})
	t.Run("SAFE-4 where nothing can be staged every append is sent alone and none is lost", func(t *testing.T) {
		t.Parallel()
		_, j, c, room := staged(t, t.TempDir())
		if err := os.RemoveAll(room); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(room, nil, 0o600); err != nil { // no folder can be made in a file
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(room) })
		entries := firstEvents(100, "r")
		acks := atOnce(t, j, entries)
		for i, ack := range acks {
			if ack.Outcome != kernel.Stored {
				t.Errorf("append %d: %s (%v), want stored", i, ack.Outcome, ack.Err)
			}
		}
		if c.Grouped() != 0 {
			t.Errorf("%d appends were stored by batches: the server stages elsewhere, and the link is of no use", c.Grouped())
		}
		for _, e := range entries {
			if evs, _, err := j.Read(within(t), e.ID, 0); err != nil || len(evs) != 1 {
				t.Errorf("run %s has %d events (%v), want 1", e.ID, len(evs), err)
			}
		}
	})
	t.Run("SAFE-6 a folder in memory that others may enter is not used", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s, _, c, room := staged(t, dir)
		c.Close()
		s.Shutdown()
		if err := os.Mkdir(room, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(room) })
		if err := os.Chmod(room, 0o777); err != nil {
			t.Fatal(err)
		}
		s = jettest.Server(t, func(cfg *natsserver.Config) { cfg.StoreDir = dir })
		if n, err := s.StageInMemory(); err != nil || n != 0 {
			t.Errorf("%d logs are staged in a folder open to all (%v), want none", n, err)
		}
	})
	t.Run("SAFE-4 EVT-15 a store as it was in the middle of batches, without what was in memory, has all that was acknowledged", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		_, j, _, room := staged(t, dir)
		for round := range 4 {
			copied := filepath.Join(t.TempDir(), "copy")
			before := firstEvents(100, fmt.Sprintf("a%d", round))
			for _, ack := range atOnce(t, j, before) {
				if ack.Outcome != kernel.Stored {
					t.Fatalf("%s (%v), want stored", ack.Outcome, ack.Err)
				}
			}
			var under sync.WaitGroup
			under.Go(func() { atOnce(t, j, firstEvents(400, fmt.Sprintf("b%d", round))) })
			err := os.CopyFS(copied, linkless{os.DirFS(dir)})
			under.Wait()
			if err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(copied, "jetstream", "$G", "streams", "LOG_s1", "batches")
			if err := os.Symlink(room+"-gone", at); err != nil { // the machine went down: what was in memory is not there
				t.Fatal(err)
			}
			s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.StoreDir = copied })
			there := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{}).Journal()
			for _, e := range before {
				if last, ok, err := there.Last(within(t), e.ID); err != nil || !ok || string(last.Bytes) != string(e.Bytes) {
					t.Fatalf("%s: %q, there %t (%v); it was acknowledged", e.ID, last.Bytes, ok, err)
				}
			}
			for i, ack := range atOnce(t, there, firstEvents(100, "c")) {
				if ack.Outcome != kernel.Stored {
					t.Errorf("append %d after that: %s (%v), want stored", i, ack.Outcome, ack.Err)
				}
			}
		}
	})
}

// linkless is a folder without its links and without files that go while it is read.
type linkless struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (l linkless) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(l.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool {
		_, gone := e.Info()
		return e.Type()&fs.ModeSymlink != 0 || strings.HasSuffix(e.Name(), ".tmp") || gone != nil
	}), err
}
