package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/sandbox/local"
)

const secret = "the secret outside"

// trap is a workspace full of links, most of which lead outside, beside a file that must stay as it is.
type trap struct{ base, workspace, outside string }

func newTrap(t testing.TB) trap {
	t.Helper()
	base := t.TempDir()
	tr := trap{base, filepath.Join(base, "ws"), filepath.Join(base, "out")}
	for _, dir := range []string{tr.workspace, tr.outside, filepath.Join(tr.workspace, "d/e")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tr.reset(t)
	for name, to := range map[string]string{
		"up": "..", "out": "../out", "abs": tr.outside, "f": "../out/secret", "absf": filepath.Join(tr.outside, "secret"),
		"new": "../out/new", "loop": "loop", "in": "d", "d/back": "..", "d/e/far": "../../../out", "self": ".", "ws": "../ws",
	} {
		if err := os.Symlink(to, filepath.Join(tr.workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func (tr trap) reset(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(tr.outside, "secret"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sprung returns what is wrong outside of the workspace, or nothing.
func (tr trap) sprung() string {
	var wrong []string
	want := map[string]bool{".": true, "out": true, "out/secret": true}
	err := filepath.WalkDir(tr.base, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(tr.base, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		if name == "ws" {
			return fs.SkipDir
		}
		if !want[name] {
			wrong = append(wrong, "made "+name)
		}
		return nil
	})
	if data, readErr := os.ReadFile(filepath.Join(tr.outside, "secret")); readErr != nil || string(data) != secret {
		wrong = append(wrong, "changed the secret")
	}
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return strings.Join(wrong, ", ")
}

// hostile draws paths of parts that lead up, out, round and nowhere.
func hostile(base string) *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{
		"..", ".", "", "...", "up", "out", "abs", "f", "absf", "new", "loop", "in", "d", "e", "back", "far", "self", "ws", "secret",
		"fresh", "a b", "\u202e", "\xff", "-rf", "~", "$HOME", "*", "\n", "out/secret", "..\\..", "%2e%2e", "\u2024\u2024", "\x00", strings.Repeat("n", 255), strings.Repeat("n", 256),
	})
	return rapid.Custom(func(t *rapid.T) string {
		path := strings.Join(rapid.SliceOfN(part, 1, 8).Draw(t, "parts"), "/")
		return rapid.SampledFrom([]string{"", "", "", "/", base + "/", base + "/ws/", base + "/out/"}).Draw(t, "root") + path
	})
}

func TestPathsProperty(t *testing.T) {
	t.Parallel()
	t.Run("WS-12 SAFE-12 no path reads or writes outside of the workspace", func(t *testing.T) {
		tr := newTrap(t)
		files, err := local.OpenFiles(tr.workspace)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = files.Close() }()
		rapid.Check(t, func(rt *rapid.T) {
			path := hostile(tr.base).Draw(rt, "path")
			use(rt, files, path)
			if wrong := tr.sprung(); wrong != "" {
				rt.Fatalf("%q: %s", path, wrong)
			}
		})
	})
	t.Run("what is written is read back", func(t *testing.T) {
		files, err := local.OpenFiles(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = files.Close() }()
		rapid.Check(t, func(rt *rapid.T) {
			path := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,3}`), 1, 4).Draw(rt, "path"), "/") + ".x"
			data := rapid.SliceOf(rapid.Byte()).Draw(rt, "data")
			if err := files.WriteFile(path, data); err != nil {
				rt.Fatal(err)
			}
			if got, err := files.ReadFile(path); err != nil || string(got) != string(data) {
				rt.Fatalf("%q: got %q, %v, want %q", path, got, err, data)
			}
		})
	})
}

type reporter interface {
	Fatalf(format string, args ...any)
}

// use tries everything that a path can be used for.
func use(t reporter, files *local.Files, path string) {
	if data, err := files.ReadFile(path); err == nil && string(data) == secret {
		t.Fatalf("%q reads the secret", path)
	}
	_ = files.WriteFile(path, []byte("planted"))
	if data, err := files.ReadFile(path); err == nil && string(data) == secret {
		t.Fatalf("%q reads the secret after a write", path)
	}
	if info, err := files.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(secret)) {
		t.Fatalf("%q tells of the secret", path)
	}
	_ = files.Dir(path)
	view := files.FS()
	if data, err := fs.ReadFile(view, path); err == nil && (string(data) == secret || !fs.ValidPath(path)) {
		t.Fatalf("%q through FS reads %q", path, data)
	}
	if list, err := fs.ReadDir(view, path); err == nil {
		for _, d := range list {
			if d.Name() == "secret" && !d.IsDir() {
				if info, err := d.Info(); err == nil && info.Size() == int64(len(secret)) {
					t.Fatalf("%q through FS lists the secret", path)
				}
			}
		}
	}
}

func FuzzPaths(f *testing.F) {
	for _, path := range []string{"../out/secret", "up/out/secret", "abs/secret", "f", "d/back/up/out/secret", "new", "/etc/passwd", "d//../..//out", "ws/../out/secret", "a\x00b"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		tr := newTrap(t)
		files, err := local.OpenFiles(tr.workspace)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = files.Close() }()
		use(t, files, path)
		if wrong := tr.sprung(); wrong != "" {
			t.Fatalf("%q: %s", path, wrong)
		}
	})
}
