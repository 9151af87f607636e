package recovery

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

// TestRestoreCut ends restores in the middle. What is in the store then is a station without its last events: whoever
// worked on it would do again what they record.
func TestRestoreCut(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.await("gated", "waiting", waiting)
	dir := filepath.Join(t.TempDir(), "backup")
	p.do(0, "backup", dir)
	p.down()

	t.Run("PLUS-18b a backup that is refused leaves no store", func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "store")
		inspan(t, 2, "restore", dir, "--station", "other", "--store", store, "--new-keys")
		inspan(t, 2, "restore", dir, "--station", "lab", "--store", store)
		if _, err := os.Stat(store); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the store: %v", err)
		}
	})
	for _, at := range []string{"settings", "events", "runs audited"} {
		t.Run("PLUS-18b no service works on a restore that was cut at: "+at, func(t *testing.T) {
			q := newPlace(t, "lab")
			q.strange = true // the agents come from the backup
			store := filepath.Join(q.dir, "store")
			cutRestore(t, dir, store, at)
			_, err := rise(t.Context(), station.Config{Listen: "127.0.0.1:0", StoreDir: store, Station: "lab", Sandbox: "host", LazySync: true,
				Log: zerolog.Nop(), Base: base(t)})
			if !errors.Is(err, service.ErrRestoring) {
				t.Fatalf("a station on it: %v", err)
			}
			if out := inspan(t, 0, "restore", dir, "--station", "lab", "--store", store, "--new-keys"); !strings.Contains(out, "0 runs with faults") {
				t.Error(out)
			}
			q.up()
			q.do(0, "release", "--reason", "it is whole")
			q.do(0, "approve", "gated")
			q.await("gated", "ended", ended)
		})
	}
}

// cutRestore restores a backup and ends that at the first figure of something.
func cutRestore(t *testing.T, dir, store, at string) {
	t.Helper()
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	cfg := station.RestoreConfig{Dir: dir, NewKeys: true, By: "ada", Now: time.Now}
	m, err := station.CheckBackup(ctx, "lab", cfg)
	if err != nil {
		t.Fatal(err)
	}
	reached := false
	cfg.Progress = func(what string, _, _ uint64) {
		if what == at {
			reached = true
			cut()
		}
	}
	still, err := rise(t.Context(), station.Config{StoreDir: store, Station: "lab", Still: true, LazySync: true, Log: zerolog.Nop(), Base: base(t)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = station.Restore(ctx, "lab", still.As, m, cfg)
	if !reached || err == nil {
		t.Errorf("cut: %t, error: %v", reached, err)
	}
	if err := still.Close(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
}

func base(t *testing.T) service.Config {
	t.Helper()
	cfg, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	cfg.SandboxReaches = true // a sandbox is not what is tested
	return cfg
}
