//go:build slow

package git_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
)

// TestKeepLarge keeps and restores a tree of very many files, and one of a single very large file (make bench-trees).
func TestKeepLarge(t *testing.T) {
	for name, fill := range map[string]func(dir string) (files int, err error){
		"200,000 small files": func(dir string) (int, error) {
			for n := range 200_000 {
				at := filepath.Join(dir, fmt.Sprintf("d%04d", n/100))
				if n%100 == 0 {
					if err := os.Mkdir(at, 0o755); err != nil {
						return 0, err
					}
				}
				if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("f%06d", n)), fmt.Append(nil, n), 0o644); err != nil {
					return 0, err
				}
			}
			return 200_000, nil
		},
		"one file of 1 GiB": func(dir string) (int, error) {
			f, err := os.Create(filepath.Join(dir, "large"))
			if err != nil {
				return 0, err
			}
			_, err = io.CopyN(f, rand.NewChaCha8([32]byte{3}), 1<<30)
			return 1, errors.Join(err, f.Close())
		},
	} {
		t.Run("WS-3 "+name, func(t *testing.T) {
			g := newGit(t, func(c *git.Config) { c.Limits = git.Limits{} })
			ws, heir := t.TempDir(), filepath.Join(t.TempDir(), "tree")
			want, err := fill(ws)
			if err = errors.Join(err, os.Mkdir(heir, 0o755)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			s, p, err := keeper(t, g, ws).Snapshot(t.Context(), "")
			if err != nil || s.Files != want {
				t.Fatalf("%d files, %v", s.Files, err)
			}
			took := time.Since(began)
			began = time.Now()
			k := keeper(t, g, heir)
			if err := errors.Join(k.Restore(t.Context(), s.ID, p), p.Close()); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: snapshot %.1f s, a pack of %d bytes, restore %.1f s", name, took.Seconds(), p.Size, time.Since(began).Seconds())
			if again, _, err := k.Snapshot(t.Context(), s.ID); err != nil || again.ID != s.ID {
				t.Errorf("restored %.12s, want %.12s, %v", again.ID, s.ID, err)
			}
		})
	}
}
