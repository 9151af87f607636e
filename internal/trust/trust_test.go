package trust_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/trust"
)

func put(t *testing.T, at, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read := func() trust.Part {
		t.Helper()
		p, err := trust.ReadAgents(dir)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	put(t, filepath.Join(dir, "notes.md"), "no agent")
	put(t, filepath.Join(dir, "deep", "x.prompt"), "too deep for an agent")
	if p := read(); !p.Empty() {
		t.Errorf("a folder without an agent contributes %v", p.Files)
	}
	put(t, filepath.Join(dir, "a.prompt"), "a")
	first := read()
	if len(first.Files) != 3 {
		t.Errorf("%v", first.Files)
	}
	t.Run("SAFE-6 the digest is of each name and each byte", func(t *testing.T) {
		seen := map[string]string{first.Digest(): "the first"}
		for i, change := range []func(){
			func() { put(t, filepath.Join(dir, "a.prompt"), "b") },
			func() { put(t, filepath.Join(dir, "a\nb.prompt"), "") },
			func() { put(t, filepath.Join(dir, "p", "role", "c.prompt"), "c") },
			func() {
				if err := os.Rename(filepath.Join(dir, "p"), filepath.Join(dir, "q")); err != nil {
					t.Fatal(err)
				}
			},
		} {
			change()
			if was, ok := seen[read().Digest()]; ok {
				t.Errorf("change %d has the digest of %s", i, was)
			}
			seen[read().Digest()] = fmt.Sprint("change ", i)
		}
		want := []string{"+ a\nb.prompt", "~ a.prompt", "+ q/role/c.prompt"}
		if got := read().Differences(first.Hashes()); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("SAFE-6 what is not a file of the folder is refused", func(t *testing.T) {
		for name, link := range map[string]func(at string) error{
			"a link that leaves it": func(at string) error { return os.Symlink("/etc/passwd", at) },
			"a link to a folder":    func(at string) error { return os.Symlink("deep", at) },
			"a link to nothing":     func(at string) error { return os.Symlink("none", at) },
		} {
			at := filepath.Join(dir, "odd")
			if err := link(at); err != nil {
				t.Fatal(err)
			}
			if p, err := trust.ReadAgents(dir); err == nil {
				t.Errorf("%s is read as %q", name, p.Files["odd"])
			}
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("a.prompt", filepath.Join(dir, "inside.prompt")); err != nil {
			t.Fatal(err)
		}
		if p := read(); string(p.Files["inside.prompt"]) != "b" {
			t.Errorf("a link to a file of the folder is %q", p.Files["inside.prompt"])
		}
	})
	t.Run("SAFE-6 a copy is by content and is made again where it is not as it should be", func(t *testing.T) {
		home := t.TempDir()
		p := read()
		at, err := p.Pin(home)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(at, "more.prompt"), "planted")
		put(t, filepath.Join(dir, "a.prompt"), "changed later")
		again, err := p.Pin(home)
		if err != nil || again != at {
			t.Fatalf("%s %v", again, err)
		}
		if got, err := trust.ReadAgents(at); err != nil || got.Digest() != p.Digest() {
			t.Errorf("the copy has %v, want %v (%v)", got.Hashes(), p.Hashes(), err)
		}
	})
	t.Run("SAFE-6 the limits hold", func(t *testing.T) {
		big := t.TempDir()
		put(t, filepath.Join(big, "a.prompt"), strings.Repeat("x", trust.MaxBytes))
		if _, err := trust.ReadAgents(big); err != nil {
			t.Error(err)
		}
		put(t, filepath.Join(big, "b.prompt"), "x")
		if _, err := trust.ReadAgents(big); !errors.Is(err, trust.ErrTooLarge) {
			t.Errorf("one byte more: %v", err)
		}
		many := t.TempDir()
		for i := range trust.MaxFiles {
			put(t, filepath.Join(many, fmt.Sprint(i, ".yaml")), "")
		}
		if _, err := trust.ReadScripts(many); err != nil {
			t.Error(err)
		}
		put(t, filepath.Join(many, "more.yaml"), "")
		if _, err := trust.ReadScripts(many); !errors.Is(err, trust.ErrTooLarge) {
			t.Errorf("one file more: %v", err)
		}
	})
}

// TestRecord sets the home of the process.
func TestRecord(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	r, err := trust.Open()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Run("SAFE-6 no acceptance is lost where many are made at once", func(t *testing.T) {
		const n = 8
		var group sync.WaitGroup
		for i := range n {
			at := filepath.Join(dir, fmt.Sprint(i), "config.yaml")
			put(t, at, "x")
			group.Go(func() {
				p, err := trust.File(trust.Settings, at, []byte("x"))
				if err == nil {
					err = r.Accept(time.Now(), []trust.Part{p}, func(trust.Part) []string { return nil })
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		all, err := r.All()
		if err != nil || len(all) != n {
			t.Errorf("%d are accepted, want %d (%v)", len(all), n, err)
		}
		removed, err := r.Revoke(filepath.Join(dir, "1"))
		if err != nil || len(removed) != 1 {
			t.Errorf("%q %v", removed, err)
		}
		if removed, err := r.Revoke(dir); err != nil || len(removed) != n-1 {
			t.Errorf("%q %v", removed, err)
		}
	})
	t.Run("SAFE-6 a record that is damaged, of another version or open to others is not believed", func(t *testing.T) {
		for name, change := range map[string]func() error{
			"damaged":       func() error { return os.WriteFile(r.Path(), []byte("{"), 0o600) },
			"of later":      func() error { return os.WriteFile(r.Path(), []byte(`{"version":2}`), 0o600) },
			"open to group": func() error { return os.Chmod(r.Path(), 0o620) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if all, err := r.All(); !errors.Is(err, trust.ErrRecord) {
				t.Errorf("%s: %v %v", name, all, err)
			}
		}
	})
	t.Run("SAFE-6 a store that was not made here has no mark that the record knows", func(t *testing.T) {
		store := filepath.Join(t.TempDir(), ".inspan")
		put(t, filepath.Join(store, "config.yaml"), "x")
		if _, there, err := trust.ReadStore(store); err != nil || there {
			t.Errorf("settings alone are a store: %v %v", there, err)
		}
		put(t, filepath.Join(store, "nats", "x"), "x")
		p, there, err := trust.ReadStore(store)
		if err != nil || !there {
			t.Fatalf("%v %v", there, err)
		}
		marked, err := trust.MarkStore(store)
		if err != nil || marked.Digest() == p.Digest() || marked.Path != p.Path {
			t.Errorf("%+v %+v %v", marked, p, err)
		}
	})
}
