package natsserver_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
)

func TestAilment(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 a server whose disk was full says that it cannot write, until it was started again", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := syscall.Mount("none", dir, "tmpfs", 0, "size=48m"); err != nil {
			t.Logf("NOT TESTED: a server on a full disk: mount a small one: %v", err)
			return
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.MaxStore, cfg.StoreDir = 3<<30, filepath.Join(dir, "js") })
		st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{})
		if s.HasRoom() {
			t.Error("48 MiB of a disk are room")
		}
		if err := s.Ailment(); err != nil {
			t.Fatalf("a new server: %v", err)
		}
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 32<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		full := false
		for n := byte(0); n < 20 && !full; n++ {
			_, err := st.Artifacts().Put(t.Context(), "r1", bytes.Repeat([]byte{'a' + n}, 2<<20), time.Hour)
			full = err != nil
		}
		if err := s.Ailment(); !full || err == nil {
			t.Fatalf("full %v, ailment %v", full, err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if err := s.Ailment(); err == nil {
			t.Error("it is well again by itself")
		}
		s.Shutdown()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if err := s.Ailment(); err != nil {
			t.Errorf("after a new start: %v", err)
		}
	})
}
