package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

// TestLacks looks for refs that are there in each form, and for some that are not.
func TestLacks(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	url, _ := bare(t)
	r := clone(t, g, url)
	main := must[git.Head](t)(r.Head(t.Context())).ID
	raw(t, r.Dir(), "branch", "packed/one")
	raw(t, r.Dir(), "tag", "-a", "-m", "a tag", "noted")
	raw(t, r.Dir(), "pack-refs", "--all")
	raw(t, r.Dir(), "branch", "loose/one")
	raw(t, r.Dir(), "update-ref", "refs/notes/other", main)
	for _, name := range []string{"packed/one", "loose/one", "refs/heads/packed/one", "refs/heads/loose/one", "refs/tags/noted",
		"noted", "main", "refs/remotes/origin/main", "refs/notes/other"} {
		t.Run("GIT-2 found: "+name, func(t *testing.T) {
			if id, err := r.Resolve(t.Context(), name); err != nil || id != main {
				t.Errorf("got %q, %v, want %s", id, err, main)
			}
		})
	}
	for _, name := range []string{"packed", "loose", "packed/on", "packed/one/more", "loose/one/more", "refs/heads/none", "none",
		"refs/tags/none", "refs/published/main", "refs/notes/none"} {
		t.Run("GIT-2 not found: "+name, func(t *testing.T) {
			if id, err := r.Resolve(t.Context(), name); !errors.Is(err, git.ErrNotFound) {
				t.Errorf("got %q, %v", id, err)
			}
		})
	}
	t.Run("WS-3 in a repository that is refused nothing is looked for", func(t *testing.T) {
		if err := os.Symlink(t.TempDir(), filepath.Join(r.Dir(), ".git/refs/heads/link")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Resolve(t.Context(), "none"); !errors.Is(err, git.ErrHostile) {
			t.Errorf("got %v", err)
		}
	})
}
