package janitor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
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
			j := New(Config{Root: root, Rescue: c.rescue})
			if got, err := j.workSaved(t.Context(), c.path, c.path); err != nil || got != c.want {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}
