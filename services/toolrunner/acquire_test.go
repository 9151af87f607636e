package toolrunner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/workspace"
)

func TestAcquire(t *testing.T) {
	t.Parallel()
	yes := func(workspace.Use) (bool, error) { return true, nil }
	t.Run("WS-5 a workspace does not go while a call has it", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		a, err := b.role.acquire.acquire(t.Context(), b.admitted())
		if err != nil || a.Broken != nil || a.Workspace != "run/"+runID || a.Path != "run/"+runID {
			t.Fatalf("got %+v, %v", a, err)
		}
		for _, want := range []bool{false, true} {
			if gone, err := b.role.cfg.Workspaces.Uses.Remove(a.Workspace, yes, func() error { return nil }); err != nil || gone != want {
				t.Errorf("gone %v, %v, want %v", gone, err, want)
			}
			if !want {
				a.Release()
			}
		}
	})
	t.Run("WS-3 one whose directory is spoiled is broken, which no other try would change", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		if err := os.WriteFile(filepath.Join(b.root, ".uses"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := b.role.acquire.acquire(t.Context(), b.admitted())
		if err != nil || a.Broken == nil {
			t.Errorf("broken %v, %v", a.Broken, err)
		}
		a.Release()
	})
	t.Run("a run of which nothing is known works nowhere", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		if a, err := b.role.acquire.acquire(t.Context(), admitted{}); err != nil || a.Path != "" {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}
