package checks

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	copied := func(t *testing.T, root string) tree {
		t.Helper()
		got, err := copyTree(t.Context(), root, "run/r1")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	t.Run("PLUS-10 the digest follows what is in the files, what runs and where links lead, and nothing else", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		at := filepath.Join(root, "run", "r1")
		write(t, filepath.Join(at, "sub", "a.txt"), "a", 0o644)
		if err := os.Symlink("sub/a.txt", filepath.Join(at, "link")); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{copied(t, root).digest: true}
		if err := os.Chtimes(filepath.Join(at, "sub", "a.txt"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(at, ".git", "config"), "[core]\n\tfsmonitor = touch cheat\n", 0o644)
		again := copied(t, root)
		if !seen[again.digest] {
			t.Error("a time or a directory of git changed the digest")
		}
		if _, err := os.Stat(filepath.Join(root, again.dir, ".git")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the settings of git are checked too: %v", err)
		}
		if b, err := os.ReadFile(filepath.Join(root, again.dir, "link")); err != nil || string(b) != "a" {
			t.Errorf("%q, %v", b, err)
		}
		for what, change := range map[string]func() error{
			"content": func() error { return os.WriteFile(filepath.Join(at, "sub", "a.txt"), []byte("b"), 0o644) },
			"mode":    func() error { return os.Chmod(filepath.Join(at, "sub", "a.txt"), 0o755) },
			"link": func() error {
				return errors.Join(os.Remove(filepath.Join(at, "link")), os.Symlink("sub", filepath.Join(at, "link")))
			},
			"name": func() error { return os.Rename(filepath.Join(at, "sub", "a.txt"), filepath.Join(at, "sub", "b.txt")) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if d := copied(t, root).digest; seen[d] {
				t.Errorf("another %s has the same digest", what)
			} else {
				seen[d] = true
			}
		}
	})
	t.Run("PLUS-10 files that the harness writes during checks are no content, and those of its names further down are", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		at := filepath.Join(root, "run", "r1")
		write(t, filepath.Join(at, "sub", ".harness", "mine.txt"), "a", 0o644)
		before := copied(t, root)
		write(t, filepath.Join(at, ".harness", "tasks.json"), "{}", 0o644)
		write(t, filepath.Join(at, ".session.meta"), "{}", 0o644)
		after := copied(t, root)
		if before.digest != after.digest {
			t.Error("a file of the harness changed the digest")
		}
		for name, want := range map[string]bool{".harness": false, ".session.meta": false, "sub/.harness/mine.txt": true} {
			if _, err := os.Stat(filepath.Join(root, after.dir, name)); (err == nil) != want {
				t.Errorf("%s in the copy: %v", name, err)
			}
		}
	})
	t.Run("PLUS-10 links that lead out are left out, and named", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		at := filepath.Join(root, "run", "r1")
		write(t, filepath.Join(at, "a", "b", "x"), "x", 0o644)
		for name, to := range map[string]string{"abs": "/etc/passwd", "up": "../r2", "far": "a/b/up/../../../x", "a/b/in": "../../a"} {
			if err := os.Symlink(to, filepath.Join(at, name)); err != nil {
				t.Fatal(err)
			}
		}
		got := copied(t, root)
		for name, want := range map[string]bool{"abs": false, "up": false, "far": false, "a/b/in": true} {
			if _, err := os.Lstat(filepath.Join(root, got.dir, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
			if strings.Contains(got.note, `"`+name+`"`) == want {
				t.Errorf("%s: the note is %q", name, got.note)
			}
		}
	})
	t.Run("PLUS-10 a copy goes when its check is over, and one that a lost toolrunner left goes later", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		write(t, filepath.Join(root, "run", "r1", "x"), "x", 0o644)
		one, two := copied(t, root), copied(t, root)
		dropTree(root, one.dir, time.Now())
		if _, err := os.Stat(filepath.Join(root, one.dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(filepath.Join(root, two.dir)); err != nil {
			t.Errorf("the copy of another check: %v", err)
		}
		dropTree(root, "", time.Now().Add(2*staleAfter))
		if _, err := os.Stat(filepath.Join(root, two.dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}
