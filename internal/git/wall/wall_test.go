package wall_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/git/wall"
	"github.com/inspan/inspan/internal/sandbox/local"
)

// TestMain lets the test program be the helper that raises walls.
func TestMain(m *testing.M) {
	if code, asked := wall.Main(); asked {
		panic(code) // it did not become the program
	}
	m.Run()
}

// yard is a tree, a private directory and a place outside of both, with links from one to another.
func yard(t *testing.T) (dir string, o wall.Order) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"tree/deep/own", "private/at", "out"} {
		err = errors.Join(err, os.MkdirAll(at(name), 0o755))
	}
	for _, name := range []string{"tree/file", "tree/deep/own/file", "out/file"} {
		err = errors.Join(err, os.WriteFile(at(name), []byte(name+"\n"), 0o640))
	}
	for from, to := range map[string]string{"tree/out": "../out", "tree/inner": "deep", "tree/dangling": "/none", "private/tree": "../tree"} {
		err = errors.Join(err, os.Symlink(to, at(from)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, wall.Order{Trees: []string{at("tree")}, Private: []string{at("private")}, Pin: at("tree/deep"), At: at("private/at")}
}

func script(t *testing.T, w wall.Way, o wall.Order, dir, text string) (code int, said string, err error) {
	t.Helper()
	var b strings.Builder
	exit, err := w.Run(t.Context(), o, local.Process{Path: "/bin/sh", Args: []string{"/bin/sh", "-c", text}, Dir: dir,
		Env: local.FixedEnv(dir, dir), Stdout: &b, Stderr: &b, Marker: fmt.Sprintf("%s-%d", t.Name(), len(text))})
	return exit.Code, b.String(), err
}

func TestWays(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]wall.Way{"a thread": wall.Thread, "a helper in a user namespace": wall.Helper} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, o := yard(t)
			if code, said, err := script(t, w, o, dir, "exit 0"); err != nil || code != 0 {
				t.Skipf("NOT TESTED: walls by %s: %v %d %s", name, err, code, said)
			}
			for _, c := range []struct{ name, text, want string }{
				{"WS-12 no link of a tree is followed", "cat tree/out/file || cat tree/inner/own/file || echo x >tree/out/new || echo closed", "closed"},
				{"WS-12 what a tree has is read and written", "echo more >>tree/file && echo x >tree/deep/new && cat tree/file", "tree/file\nmore"},
				{"WS-12 a link is made, read, moved and removed", "ln -s /etc tree/new && readlink tree/new && mv tree/new tree/newer && rm tree/newer && readlink tree/dangling", "/etc\n/none"},
				{"WS-12 a link of ours leads into a tree", "cat private/tree/file && echo x >private/tree/new && cat tree/new", "tree/file\nx"},
				{"SBX-18 nothing else can be written", "echo x >out/new || echo x >new || true >out/file || rm out/file || mkdir /inspan-none || echo closed", "closed"},
				{"SBX-18 what is elsewhere is read", "cat out/file", "out/file"},
				{"SBX-18 what is pinned stays when its name goes elsewhere", "mv tree/deep tree/deeper && mkdir tree/deep && cat private/at/own/file && echo x >private/at/pinned && cat tree/deeper/pinned", "tree/deep/own/file\nx"},
				{"SBX-18 the program is who it was", "id -u; id -g; stat -c %u tree/file", fmt.Sprintf("%d\n%d\n%d", os.Geteuid(), os.Getegid(), os.Geteuid())},
			} {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					dir, o := yard(t)
					code, said, err := script(t, w, o, dir, "exec 2>/dev/null; "+c.text)
					if err != nil || code != 0 || strings.TrimSpace(said) != c.want {
						t.Errorf("got %q, %d, %v, want %q", said, code, err, c.want)
					}
					if text, err := os.ReadFile(filepath.Join(dir, "out/file")); err != nil || string(text) != "out/file\n" {
						t.Errorf("outside is %q, %v", text, err)
					}
				})
			}
			t.Run("WS-12 a tree whose own path has a link is refused", func(t *testing.T) {
				t.Parallel()
				dir, o := yard(t)
				o.Trees = []string{filepath.Join(dir, "private/tree")}
				o.Pin = ""
				code, said, err := script(t, w, o, dir, "exit 0")
				if !errors.Is(err, syscall.ELOOP) && !strings.Contains(said, syscall.ELOOP.Error()) {
					t.Errorf("got %d, %q, %v", code, said, err)
				}
			})
			t.Run("SBX-18 mounts of this program stay as they are", func(t *testing.T) {
				t.Parallel()
				dir, o := yard(t)
				before, err1 := os.ReadFile("/proc/self/mountinfo")
				if _, _, err := script(t, w, o, dir, "exit 0"); err != nil {
					t.Fatal(err)
				}
				after, err2 := os.ReadFile("/proc/self/mountinfo")
				if err := errors.Join(err1, err2); err != nil || strings.Contains(string(after), dir) || len(before) == 0 {
					t.Errorf("%v: walls are left: %s", err, after)
				}
			})
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	t.Run("SBX-18 what works is found by trying, and nothing is left of it", func(t *testing.T) {
		t.Parallel()
		temp := t.TempDir()
		w, err := wall.Find(t.Context(), temp)
		if (w == wall.None) != errors.Is(err, wall.ErrNone) {
			t.Errorf("got %d, %v", w, err)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	})
	t.Run("SBX-18 a place where nothing can be tried is said", func(t *testing.T) {
		t.Parallel()
		if w, err := wall.Find(t.Context(), filepath.Join(t.TempDir(), "none")); w != wall.None || !errors.Is(err, wall.ErrNone) {
			t.Errorf("got %d, %v", w, err)
		}
	})
}
