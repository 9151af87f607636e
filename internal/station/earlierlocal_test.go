package station_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/storecheck"
)

// TestEarlierLocalStore upgrades a station whose fallback is a file of an earlier version.
func TestEarlierLocalStore(t *testing.T) {
	t.Parallel()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	up := func(dir string) error {
		s, err := station.Up(within(t), station.Config{StoreDir: dir, Station: "test", Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base})
		if err == nil {
			err = s.Close(context.Background())
		}
		return err
	}
	// upgraded is a store as an earlier version left it, with that among its spare files.
	upgraded := func(t *testing.T, spare ...string) string {
		dir := filepath.Join(t.TempDir(), "store")
		if err := up(dir); err != nil {
			t.Fatal(err)
		}
		m, _, err := storecheck.Load(dir)
		if err != nil || m == nil || !m.Clean || len(m.Spare) != 1 {
			t.Fatalf("marks %+v, %v", m, err)
		}
		delete(m.Files, m.Spare[0])
		err = os.Remove(filepath.Join(dir, m.Spare[0]))
		m.Spare = spare
		old := os.WriteFile(filepath.Join(dir, "fallback.db"), []byte("SQLite format 3\x00"+strings.Repeat("\x00", 4080)), 0o600)
		if err := errors.Join(err, m.Save(dir), old); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Run("PERS-4 a fallback of an earlier version that held nothing is passed over", func(t *testing.T) {
		t.Parallel()
		dir := upgraded(t, "fallback.db")
		if err := errors.Join(up(dir), up(dir)); err != nil {
			t.Error(err)
		}
	})
	t.Run("PERS-4 one that may hold events stops the station until it was converted", func(t *testing.T) {
		t.Parallel()
		dir := upgraded(t)
		if err := up(dir); !errors.Is(err, localstore.ErrEarlier) || !strings.Contains(err.Error(), "make local-store STORE="+dir) {
			t.Errorf("got %v", err)
		}
		if err := os.Remove(filepath.Join(dir, "fallback.db")); err != nil {
			t.Fatal(err)
		}
		if err := up(dir); err != nil {
			t.Errorf("it was moved away: %v", err)
		}
	})
	t.Run("PERS-4 SAFE-2 a damaged one of a station that was killed is reported", func(t *testing.T) {
		t.Parallel()
		dir := upgraded(t, "fallback.db")
		m, _, err := storecheck.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		m.Clean = false
		if err := errors.Join(m.Save(dir), os.WriteFile(filepath.Join(dir, "fallback.bolt"), []byte(strings.Repeat("no store ", 9999)), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := up(dir); !errors.Is(err, localstore.ErrDamaged) || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("got %v", err)
		}
	})
}
