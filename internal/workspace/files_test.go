package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	put := func(t *testing.T, at time.Time, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			for ; filepath.Base(name) != "run"; name = filepath.Dir(name) {
				if err := os.Chtimes(name, at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	uses := func(t *testing.T, root string) workspace.Workspaces {
		t.Helper()
		w := workspace.Workspaces{Uses: workspace.NewUses(root)}
		leave, err := w.Uses.Enter(t.Context(), "run/r-1", "r-1")
		if err != nil {
			t.Fatal(err)
		}
		leave()
		return w
	}
	ask := func(t *testing.T, w workspace.Workspaces, root string) events.FilesAnswer {
		t.Helper()
		a, err := w.Files(t.Context(), root, events.FilesQuestion{Run: "r-1", Workspace: "run/r-1", Since: began})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	t.Run("PLUS-13 files that are as old as the event are not named, younger ones and removals are", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		w, dir := uses(t, root), filepath.Join(root, "run", "r-1")
		put(t, began, filepath.Join(dir, "a"), filepath.Join(dir, "sub", "b"), filepath.Join(dir, "sub", "c"))
		put(t, began, filepath.Join(dir, ".harness", "result.json"), filepath.Join(dir, ".git", "index"))
		if a := ask(t, w, root); a.Files != events.FilesThere || len(a.Changed) > 0 || a.More {
			t.Errorf("unchanged: %+v", a)
		}
		later := began.Add(1)
		for _, name := range []string{".harness/result.json", ".git/index"} {
			if err := os.Chtimes(filepath.Join(dir, name), later, later); err != nil {
				t.Fatal(err)
			}
		}
		if a := ask(t, w, root); len(a.Changed) > 0 {
			t.Errorf("what services and git write for themselves: %+v", a)
		}
		if err := os.Chtimes(filepath.Join(dir, "a"), later, later); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "sub", "b")); err != nil {
			t.Fatal(err)
		}
		if a := ask(t, w, root); !slices.Equal(a.Changed, []string{"a", "sub/"}) || a.More {
			t.Errorf("changed: %+v", a)
		}
	})
	t.Run("PLUS-13 names are bounded, and that there are more is said", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		w, dir := uses(t, root), filepath.Join(root, "run", "r-1")
		for i := range events.MaxFilesNamed + 1 {
			put(t, began, filepath.Join(dir, string(rune('a'+i))))
		}
		for i := range events.MaxFilesNamed {
			name := filepath.Join(dir, string(rune('a'+i)))
			if err := os.Chtimes(name, began.Add(time.Second), began.Add(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if a := ask(t, w, root); len(a.Changed) != events.MaxFilesNamed || a.More {
			t.Errorf("at the limit: %+v", a)
		}
		last := filepath.Join(dir, string(rune('a'+events.MaxFilesNamed)))
		if err := os.Chtimes(last, began.Add(time.Second), began.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if a := ask(t, w, root); len(a.Changed) != events.MaxFilesNamed || !a.More {
			t.Errorf("one more: %+v", a)
		}
	})
	t.Run("PLUS-13 a workspace that was never made is told from one that was removed", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		w, dir := uses(t, root), filepath.Join(root, "run", "r-1")
		if a := ask(t, w, root); a.Files != events.FilesNone {
			t.Errorf("never made: %+v", a)
		}
		put(t, began, filepath.Join(dir, "a"))
		gone, err := w.Uses.Remove("run/r-1", func(workspace.Use) (bool, error) { return true, nil }, func() error { return os.RemoveAll(dir) })
		if err != nil || !gone {
			t.Fatal(gone, err)
		}
		if a := ask(t, w, root); a.Files != events.FilesGone {
			t.Errorf("removed: %+v", a)
		}
	})
	t.Run("PLUS-13 SAFE-6 nothing outside of the workspaces is looked at", func(t *testing.T) {
		t.Parallel()
		root, other := t.TempDir(), t.TempDir()
		w := uses(t, root)
		if err := os.WriteFile(filepath.Join(other, "secret"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(root, "run"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, filepath.Join(root, "run", "r-1")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"run/r-1", "../" + filepath.Base(other), "run/../..", "/etc", ""} {
			if a, err := w.Files(t.Context(), root, events.FilesQuestion{Run: "r-1", Workspace: name, Since: began}); err == nil || a.Files != "" || len(a.Changed) > 0 {
				t.Errorf("%q: %+v %v", name, a, err)
			}
		}
	})
}
