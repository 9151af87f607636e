package workdir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("SBX-14 WS-3 a directory is made below the root and opened", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		r, err := Open(root, "session/mine")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if info, err := os.Lstat(filepath.Join(root, "session/mine")); err != nil || !info.IsDir() {
			t.Errorf("got %v, %v", info, err)
		}
	})
	for name, plant := range map[string]func(root string) error{
		"a link in the place of the workspace": func(root string) error { return os.Symlink("../run/other", filepath.Join(root, "session/mine")) },
		"a link in the place of its parent": func(root string) error {
			return errors.Join(os.Remove(filepath.Join(root, "session")), os.Symlink("run", filepath.Join(root, "session")))
		},
		"a file in its place": func(root string) error { return os.WriteFile(filepath.Join(root, "session/mine"), nil, 0o600) },
	} {
		t.Run("SBX-14 WS-3 "+name+" is refused", func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, dir := range []string{"session", "run/other", "run/mine"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := plant(root); err != nil {
				t.Fatal(err)
			}
			if r, err := Open(root, "session/mine"); !errors.Is(err, ErrLinked) {
				t.Errorf("got %v, %v, want ErrLinked", r, err)
			}
		})
	}
	t.Run("SBX-14 WS-3 a directory that was replaced is noticed", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		p, err := Pin(root, "run/mine")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Still(); err != nil {
			t.Errorf("unchanged: %v", err)
		}
		if err := errors.Join(os.Rename(p.Path, p.Path+".old"), os.Mkdir(p.Path, 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := p.Still(); !errors.Is(err, ErrLinked) {
			t.Errorf("replaced: %v, want ErrLinked", err)
		}
	})
}
