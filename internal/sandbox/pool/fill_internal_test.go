//go:build slow

package pool

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
)

// mostOwn is what a workspace of one file may compile into its own cache: the standard library is many times larger.
const mostOwn = 8 << 20

func TestFillSharedCache(t *testing.T) {
	b := bwrap.New("", "")
	if err := b.Probe(t.Context()); err != nil {
		t.Fatalf("NOT TESTED: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	env, readOnly := goHere(t)
	shared := &Shared{Dir: filepath.Join(root, "shared"), Program: self}
	at, err := shared.place(env)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewOpener(Config{Root: filepath.Join(root, "work"), Cache: filepath.Join(root, "cache"), Default: sandbox.Bwrap, Env: env,
		ReadOnly: readOnly, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Bwrap: b}, Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	shared.filling.Store(at, true) // it is filled below
	t.Run("a fill that is broken off is read by no one, and the next one goes on", func(t *testing.T) {
		half, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := shared.Fill(half, at, b, env); err == nil {
			t.Skip("NOT TESTED: this machine fills a cache in 5 s")
		}
		if _, err := os.Stat(at); err == nil {
			t.Error("half a cache is in its place")
		}
		if _, err := os.Stat(at + ".part"); err != nil {
			t.Errorf("nothing is left to go on with: %v", err)
		}
	})
	if err := shared.Fill(t.Context(), at, b, env); err != nil {
		t.Fatal(err)
	}
	before := names(t, at)
	t.Run("two runs test their modules with the filled cache: none compiles the standard library, none changes it", func(t *testing.T) {
		for _, name := range []string{"run/first", "run/second"} {
			began := time.Now()
			if out, code := execIn(t, o, compiled(t, filepath.Join(root, "work"), name), "go test ./..."); code != 0 {
				t.Fatalf("%d %s", code, out)
			}
			if n := sizeOf(t, filepath.Join(root, "cache", name)); n == 0 || n > mostOwn {
				t.Errorf("%s has %d bytes in its own cache, want 1 to %d", name, n, mostOwn)
			} else {
				t.Logf("%s: %s, %d bytes of its own", name, time.Since(began).Round(time.Millisecond), n)
			}
		}
		if now := names(t, at); now != before {
			t.Errorf("the shared cache was changed:\n%s", now)
		}
	})
}

func sizeOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
