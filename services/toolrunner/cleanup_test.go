package toolrunner

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
)

func TestWorkKept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"run/plain", "run/repo/.git"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	rescue := func(whole bool) func(context.Context, string, string) (bool, error) {
		return func(context.Context, string, string) (bool, error) { return whole, nil }
	}
	for name, c := range map[string]struct {
		path   string
		rescue func(context.Context, string, string) (bool, error)
		want   bool
	}{
		"files alone":                                 {"run/plain", nil, true},
		"a directory that went":                       {"run/none", nil, true},
		"a repository where nothing keeps its work":   {"run/repo", nil, false},
		"a repository whose work cannot all be kept":  {"run/repo", rescue(false), false},
		"a repository whose work was kept beforehand": {"run/repo", rescue(true), true},
	} {
		t.Run("WS-5 GIT-10 whether a workspace may go: "+name, func(t *testing.T) {
			t.Parallel()
			r := &Role{cfg: Config{Sandboxes: opener(t, root), Rescue: c.rescue}}
			if got, err := r.workKept(t.Context(), c.path); err != nil || got != c.want {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// opener opens sandboxes below a root.
func opener(t *testing.T, root string) *pool.Opener {
	t.Helper()
	o, err := pool.NewOpener(pool.Config{Root: root, Default: sandbox.Host, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: nil}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}
