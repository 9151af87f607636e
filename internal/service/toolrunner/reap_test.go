package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
)

// lines gathers what is logged.
type lines struct {
	mu   sync.Mutex
	said strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

func TestReaper(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("elsewhere no one can tell whose things are still owned, and nothing is reaped")
		return
	}
	base := t.TempDir()
	// A box of this living process tells how such names are made; the ones that are left have a start that no process
	// has.
	living, err := host.New(base).Open(t.Context(), sandbox.Config{ID: "living", Workspace: t.TempDir(), Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = living.Destroy(context.Background()) })
	own, err := filepath.Glob(filepath.Join(base, "inspan-box-*"))
	if err != nil || len(own) != 1 {
		t.Fatalf("got %v, %v, want the box of this process", own, err)
	}
	owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(own[0]), "inspan-box-"), "-")
	lost := func(name string) string {
		dir := filepath.Join(base, fmt.Sprintf("inspan-box-%s9-%s", owner, name))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	gone := func(dir string) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%s is still there", dir)
			}
		}
	}
	var log lines
	r := reaper{log: zerolog.New(&log), base: base, every: 5 * time.Millisecond}
	first := lost("first")
	ended := errors.New("ended")
	err = r.during(func(context.Context) error {
		t.Run("SBX-17 what was left is removed at the start", func(t *testing.T) { gone(first) })
		t.Run("SBX-17 what is left later is removed too", func(t *testing.T) { gone(lost("second")) })
		return ended
	})(t.Context())
	if !errors.Is(err, ended) {
		t.Errorf("got %v, want what the work returned", err)
	}
	t.Run("SBX-17 what a living toolrunner has is left alone", func(t *testing.T) {
		if _, err := os.Stat(own[0]); err != nil {
			t.Error(err)
		}
	})
	t.Run("what was removed is told", func(t *testing.T) {
		if said := log.String(); strings.Count(said, `"directories":1`) != 2 {
			t.Errorf("got %s, want two lines with one directory each", said)
		}
	})
}
