package sandboxtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// examMove removes and renames files, and tries to do so outside.
func examMove(t *testing.T, b sandbox.Backend) {
	p := open(t, b)
	for _, path := range []string{"a/x.sh", "a/y", "z"} {
		must(t, p.sandbox.WriteFile(path, []byte("text")))
	}
	must(t, os.Chmod(filepath.Join(p.workspace, "a/x.sh"), 0o750))
	must(t, p.sandbox.Rename("a/x.sh", "new/deep/x.sh"))
	if info, err := p.sandbox.Stat("new/deep/x.sh"); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("renamed: got %v, %v, want its mode kept", info, err)
	}
	if err := p.sandbox.Rename("a/y", "z"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("rename to what exists: got %v", err)
	}
	for _, path := range []string{"a", "none"} {
		if err := p.sandbox.Rename(path, "q"); err == nil {
			t.Errorf("rename %q: no error", path)
		}
		if err := p.sandbox.Remove(path); err == nil {
			t.Errorf("remove %q: no error", path)
		}
	}
	must(t, p.sandbox.Remove("a/y"))
	if _, err := p.sandbox.Stat("a/y"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: got %v", err)
	}
	must(t, os.Symlink(p.outside, filepath.Join(p.workspace, "link")))
	for _, path := range []string{"../outside/secret", "link/secret", p.secret} {
		if err := p.sandbox.Remove(path); !errors.Is(err, sandbox.ErrOutside) {
			t.Errorf("GUARD-12 remove %q: got %v, want ErrOutside", path, err)
		}
		if err := p.sandbox.Rename(path, "stolen"); !errors.Is(err, sandbox.ErrOutside) {
			t.Errorf("GUARD-12 rename %q: got %v, want ErrOutside", path, err)
		}
		if err := p.sandbox.Rename("z", path+"2"); !errors.Is(err, sandbox.ErrOutside) {
			t.Errorf("GUARD-12 rename to %q: got %v, want ErrOutside", path+"2", err)
		}
	}
	p.untouched(t)
}
