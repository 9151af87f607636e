package wasm

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/experimental/sys"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/sandbox"
)

// TestPaths tries paths at random, of parts that lead up, out and around, by every operation that there is.
func TestPaths(t *testing.T) {
	t.Parallel()
	t.Run("SBX-18 GUARD-12 no path and no link leads out, by any operation", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(r *rapid.T) {
			base, err := os.MkdirTemp("", "paths-")
			must(r, err)
			defer func() { _ = os.RemoveAll(base) }()
			ws, outside := filepath.Join(base, "ws"), filepath.Join(base, "outside")
			must(r, os.MkdirAll(filepath.Join(ws, "d", "e"), 0o755))
			must(r, os.MkdirAll(filepath.Join(ws, "hidden", "d"), 0o755))
			must(r, os.Mkdir(outside, 0o755))
			for _, file := range []string{outside + "/f", ws + "/hidden/f", ws + "/hidden/d/f"} {
				must(r, os.WriteFile(file, []byte("secret"), 0o644))
			}
			must(r, os.WriteFile(ws+"/d/f", []byte("open"), 0o644))
			parts := rapid.SampledFrom([]string{"..", ".", "", "d", "e", "f", "l", "m", "ws", "outside", "hidden", "hidden/f", "hidden/d", "d/f", "outside/f", base, ws, outside, "workspace", "dev", "bin", "/"})
			draw := func(name string) string {
				p := strings.Join(rapid.SliceOfN(parts, 1, 4).Draw(r, name), "/")
				if rapid.Bool().Draw(r, name+" in the workspace") {
					p = ws + "/" + p
				}
				return cmp.Or(p, ".")
			}
			must(r, os.Symlink(draw("l"), ws+"/l"))
			must(r, os.Symlink(draw("m"), ws+"/d/m"))
			made, err := New(Config{Dirs: []string{filepath.Join(base, "programs")}}).Open(context.Background(), sandbox.Config{ID: "x", Workspace: ws, Denied: []string{ws + "/hidden"}})
			must(r, err)
			defer func() { _ = made.Destroy(context.Background()) }()
			f := &fsys{tree: made.(*guest).tree, end: func(error) {}}
			for range rapid.IntRange(1, 12).Draw(r, "steps") {
				operate(r, f, rapid.IntRange(0, 9).Draw(r, "operation"), draw("a"), draw("b"))
			}
			list, err := os.ReadDir(outside)
			data, rerr := os.ReadFile(outside + "/f")
			kept, kerr := os.ReadFile(ws + "/hidden/d/f")
			if err != nil || rerr != nil || kerr != nil || len(list) != 1 || string(data) != "secret" || string(kept) != "secret" {
				r.Fatalf("outside: %v, %v, %q, %v; hidden: %q, %v", list, err, data, rerr, kept, kerr)
			}
		})
	})
}

func operate(r *rapid.T, f *fsys, what int, a, b string) {
	a, b = strings.TrimPrefix(a, "/"), strings.TrimPrefix(b, "/")
	switch what {
	case 0, 1:
		x, errno := f.OpenFile(a, sys.O_RDONLY, 0)
		if errno != 0 {
			return
		}
		buf := make([]byte, 16)
		if n, _ := x.Read(buf); strings.Contains(string(buf[:n]), "secret") {
			r.Fatalf("%q shows the secret", a)
		}
		if names, errno := x.Readdir(-1); errno == 0 {
			for _, n := range names {
				if st, errno := f.Stat(a + "/" + n.Name); n.Name == "hidden" && errno != 0 {
					r.Fatalf("%q lists what is denied: %v", a, st)
				}
			}
		}
		x.Close()
	case 2:
		if x, errno := f.OpenFile(a, sys.O_RDWR|sys.O_CREAT|sys.O_TRUNC, 0); errno == 0 {
			_, _ = x.Write([]byte("planted"))
			x.Close()
		}
	case 3:
		f.Rename(a, b)
	case 4:
		f.Link(a, b)
	case 5:
		f.Symlink("/"+a, b)
	case 6:
		f.Unlink(a)
	case 7:
		f.Rmdir(a)
	case 8:
		f.Mkdir(a, 0o755)
		f.Chmod(a, 0o700)
	case 9:
		f.Utimens(a, 0, 0)
		if st, errno := f.Stat(a); errno == 0 && st.Mode.IsRegular() && st.Size == int64(len("secret")) {
			r.Fatalf("%q tells of the secret", a)
		}
	}
}

func must(r *rapid.T, err error) {
	if err != nil {
		r.Fatal(err)
	}
}
