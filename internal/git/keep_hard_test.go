package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

func TestKeepHard(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	t.Run("WS-3 a tree whose files come, go and change kind while it is read is one that changes, and nothing else", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		for i := range 300 {
			put(t, filepath.Join(ws, fmt.Sprintf("d%d", i%10), fmt.Sprintf("f%d", i)), "text")
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := 0; ctx.Err() == nil; n++ {
				at := filepath.Join(ws, fmt.Sprintf("d%d", n%10), fmt.Sprintf("f%d", n%300))
				_ = os.RemoveAll(at) // what fails here is made again in the next round
				switch n % 5 {
				case 0:
					_ = os.Mkdir(at, 0o755)
				case 1:
					_ = os.Symlink("/etc/hostname", at)
				default:
					_ = os.WriteFile(at, bytes.Repeat([]byte("x"), n%4096), 0o644)
				}
				if n%7 == 0 {
					dir := filepath.Join(ws, fmt.Sprintf("t%d", n%3))
					_ = os.Mkdir(dir, 0o755)
					_ = os.WriteFile(filepath.Join(dir, "temp"), nil, 0o644)
					_ = os.RemoveAll(dir)
				}
			}
		}()
		defer func() { stop(); <-done }()
		k := keeper(t, g, ws)
		parent, took, changed, tries := "", 0, 0, 12
		if slow {
			tries = 80
		}
		for range tries {
			s, p, err := k.Snapshot(t.Context(), parent)
			switch {
			case errors.Is(err, git.ErrUnderway):
				changed++
				continue
			case err != nil:
				t.Fatal(err)
			}
			took++
			parent = s.ID
			if p != nil {
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if took+changed != tries || changed == 0 {
			t.Errorf("%d snapshots, %d times it changed: the race did not run", took, changed)
		}
	})
	t.Run("WS-3 SAFE-15 a tree that is kept can be restored, also where the list of its files is longer than what is read of git", func(t *testing.T) {
		t.Parallel()
		small := newGit(t, func(c *git.Config) { c.Limits.Output = 4 << 10 })
		ws, heir := t.TempDir(), filepath.Join(t.TempDir(), "tree")
		for i := range 200 {
			put(t, filepath.Join(ws, strings.Repeat("long", 10), fmt.Sprintf("f%d", i)), fmt.Sprint(i))
		}
		s, pack := snap(t, keeper(t, small, ws), "")
		if err := os.Mkdir(heir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := keeper(t, small, heir).Restore(t.Context(), s.ID, bytes.NewReader(pack)); err != nil {
			t.Fatal(err)
		}
		if again, _ := snap(t, keeper(t, g, heir), ""); again.ID != s.ID {
			t.Errorf("restored %s, want %s", again.ID, s.ID)
		}
	})
	t.Run("WS-3 a chain without one of its parts restores nothing, and the tree stays as it was", func(t *testing.T) {
		t.Parallel()
		ws, heir := t.TempDir(), filepath.Join(t.TempDir(), "tree")
		k := keeper(t, g, ws)
		var packs [][]byte
		last := ""
		for n := range 3 {
			put(t, filepath.Join(ws, fmt.Sprintf("f%d", n)), strings.Repeat(fmt.Sprint(n), 2000))
			s, p := snap(t, k, last)
			packs, last = append(packs, p), s.ID
		}
		for lost := range packs {
			if err := os.RemoveAll(heir); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(heir, "mine"), "as it was")
			var some []io.Reader
			for n, p := range packs {
				if n != lost {
					some = append(some, bytes.NewReader(p))
				}
			}
			if err := keeper(t, g, heir).Restore(t.Context(), last, some...); !errors.Is(err, git.ErrDamaged) {
				t.Errorf("without pack %d: got %v, want ErrDamaged", lost, err)
			}
			if all, err := os.ReadDir(heir); err != nil || len(all) != 1 {
				t.Errorf("without pack %d: %v %v", lost, all, err)
			}
		}
	})
}
