package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// pinned takes a directory out of the way of what is closed in it: a read-only .git/hooks protects nothing where .git
// can be moved. A backend may refuse to open such a sandbox; it may not let a command through.
func pinned(t *testing.T, b sandbox.Backend) {
	ws := t.TempDir()
	for _, dir := range []string{".git/hooks", "a/b/c"} {
		must(t, os.MkdirAll(filepath.Join(ws, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(ws, "a/b/c/f"), []byte("kept"), 0o644))
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "pin", Workspace: ws, Network: true,
		ReadOnly: []string{ws + "/.git/hooks", ws + "/a/b/c"}})
	if errors.Is(err, sandbox.ErrNotEnforced) {
		t.Logf("refused: %v", err)
		return
	}
	must(t, err)
	defer func() { must(t, sb.Destroy(context.Background())) }()
	p := workdir{sandbox: sb, workspace: ws}
	for _, script := range []string{
		"mv .git away && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
		"mv .git/hooks .git/old && mkdir .git/hooks && echo evil > .git/hooks/pre-commit",
		"rm -rf .git && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
		"echo evil > .git/hooks/pre-commit",
		"mv a elsewhere && mkdir -p a/b/c", "mv a/b a/x && mkdir -p a/b/c", "echo evil > a/b/c/f", "chmod 777 a/b/c",
	} {
		t.Run("SBX-14 a read-only path cannot be moved away: "+script, func(t *testing.T) {
			if out, errs, exit := p.sh(t, script); exit.Code == 0 {
				t.Errorf("it went through: %q, %q", out, errs)
			}
		})
	}
	must(t, os.Symlink(".git/hooks", filepath.Join(ws, "way")))
	must(t, os.Symlink("a/b/c/f", filepath.Join(ws, "name")))
	must(t, os.WriteFile(filepath.Join(ws, "plain"), []byte("x"), 0o644))
	for name, change := range map[string]func() error{
		"write":                    func() error { return sb.WriteFile(".git/hooks/pre-commit", []byte("evil")) },
		"write over":               func() error { return sb.WriteFile("a/b/c/f", []byte("evil")) },
		"write by another name":    func() error { return sb.WriteFile("a/b/../b/c/f", []byte("evil")) },
		"write through a link":     func() error { return sb.WriteFile("way/pre-commit", []byte("evil")) },
		"write to a link's target": func() error { return sb.WriteFile("name", []byte("evil")) },
		"write into a new folder":  func() error { return sb.WriteFile("a/b/c/d/e", []byte("evil")) },
		"remove":                   func() error { return sb.Remove("a/b/c/f") },
		"rename into it":           func() error { return sb.Rename("plain", "way/new") },
		"rename out of it":         func() error { return sb.Rename("a/b/c/f", "b") },
	} {
		t.Run("SBX-14 a file tool cannot change a read-only path: "+name, func(t *testing.T) {
			if err := change(); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("got %v, want ErrPermission", err)
			}
		})
	}
	if got, err := os.ReadFile(filepath.Join(ws, "a/b/c/f")); err != nil || string(got) != "kept" {
		t.Errorf("a/b/c/f is %q, %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Join(ws, "a/b/c")); err != nil || len(left) != 1 {
		t.Errorf("a/b/c has %v, %v", left, err)
	}
	t.Run("SBX-14 what is beside it can be written", func(t *testing.T) {
		if out, errs, exit := p.sh(t, "echo x > .git/config && echo x > a/b/f && mv a/b/f a/g && rm a/g"); exit.Code != 0 {
			t.Errorf("got %q, %q", out, errs)
		}
	})
	if _, err := os.Stat(filepath.Join(ws, ".git/hooks/pre-commit")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a hook is there: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(ws, "a/b/c/f")); string(data) != "kept" {
		t.Errorf("the read-only file: got %q, %v", data, err)
	}
}
