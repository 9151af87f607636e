package capture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestRestore(t *testing.T) {
	t.Parallel()
	made := func(t *testing.T) *desktop {
		d := newDesktop(t)
		d.begin()
		d.write("out/a.md", "a")
		d.write("b.json", "{}")
		d.look(nil)
		// Another machine: a folder of its own, and no lists.
		d.dir, d.cfg.Lists = t.TempDir(), filepath.Join(t.TempDir(), "lists")
		d.restart()
		return d
	}
	read := func(d *desktop, name string) string {
		b, err := os.ReadFile(filepath.Join(d.dir, name))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	t.Run("ART-9 another machine gets what earlier steps made, once", func(t *testing.T) {
		t.Parallel()
		d := made(t)
		if n, err := d.k.Restore(t.Context(), d.s, d.dir, nil); n != 2 || err != nil || read(d, "out/a.md") != "a" || read(d, "b.json") != "{}" {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := d.k.Restore(t.Context(), d.s, d.dir, nil); n != 0 || err != nil {
			t.Errorf("a second time: %d, %v", n, err)
		}
		d.begin()
		if l := d.look(nil); len(l.Artifacts) != 0 {
			t.Errorf("what was brought looks new: %s", paths(l))
		}
	})
	t.Run("ART-10 a machine that knows the run reads its own files, also where one was deleted", func(t *testing.T) {
		t.Parallel()
		d := made(t)
		d.begin()
		if n, err := d.k.Restore(t.Context(), d.s, d.dir, nil); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("ART-9 files beside those that are brought are left alone, and the longest name there can be is brought", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		long := strings.Repeat("n", 252) + ".md"
		d.write("a.md", "a")
		d.write(long, "long")
		d.look(nil)
		d.dir, d.cfg.Lists = t.TempDir(), filepath.Join(t.TempDir(), "lists")
		d.restart()
		d.write("a.md.part", "mine")
		if n, err := d.k.Restore(t.Context(), d.s, d.dir, nil); n != 2 || err != nil || read(d, long) != "long" || read(d, "a.md.part") != "mine" {
			t.Errorf("%d, %v, %q", n, err, read(d, "a.md.part"))
		}
		if all, err := os.ReadDir(d.dir); err != nil || len(all) != 3 {
			t.Errorf("%d files, %v", len(all), err)
		}
	})
	t.Run("ART-9 nothing is written over, outside, or through a link, and what expired is passed by", func(t *testing.T) {
		t.Parallel()
		d := made(t)
		d.write("b.json", "mine")
		outside := t.TempDir()
		if err := os.Symlink(outside, filepath.Join(d.dir, "out")); err != nil {
			t.Fatal(err)
		}
		evil := d.s.Artifacts.At(0)
		evil.Path, evil.Key = "../evil.md", "runs/r1/output/../evil.md"
		d.s.Artifacts = run.Append(d.s.Artifacts, evil)
		_, err := d.k.Restore(t.Context(), d.s, d.dir, nil)
		if left, _ := os.ReadDir(outside); err != nil || len(left) != 0 || read(d, "b.json") != "mine" {
			t.Errorf("%v, %v, %s", err, left, read(d, "b.json"))
		}
		if _, err := os.Stat(filepath.Join(d.dir, "..", "evil.md")); err == nil {
			t.Error("it left the workspace")
		}
		d = made(t)
		if err := d.store.Remove(t.Context(), "r1", artifact.Latest(d.s)[0].SHA256); err != nil {
			t.Fatal(err)
		}
		if n, err := d.k.Restore(t.Context(), d.s, d.dir, nil); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("ART-9 PLUS-1 a fork gets what it made itself, not what the run that it comes from had there", func(t *testing.T) {
		t.Parallel()
		for _, fork := range []string{"a-fork", "z-fork"} {
			d := newDesktop(t)
			d.begin()
			d.write("a.md", "of the origin")
			d.write("b.md", "of the origin")
			d.look(nil)
			d.s.HarnessID, d.dir, d.cfg.Lists = fork, t.TempDir(), filepath.Join(t.TempDir(), "lists")
			d.restart()
			if n, err := d.k.Restore(t.Context(), d.s, d.dir, nil); n != 2 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			if err := d.k.Begin(t.Context(), fork, d.dir); err != nil {
				t.Fatal(err)
			}
			d.write("a.md", "of the fork")
			d.look(nil)
			d.dir, d.cfg.Lists = t.TempDir(), filepath.Join(t.TempDir(), "lists") // another machine
			d.restart()
			if n, err := d.k.Restore(t.Context(), d.s, d.dir, nil); n != 2 || err != nil || read(d, "a.md") != "of the fork" || read(d, "b.md") != "of the origin" {
				t.Errorf("%s: %d, %v, %q", fork, n, err, read(d, "a.md"))
			}
		}
	})
	t.Run("ART-9 C34 no more than the limit of a run is brought", func(t *testing.T) {
		t.Parallel()
		d := made(t)
		if n, err := d.k.Restore(t.Context(), d.s, d.dir, &events.ArtifactRules{MaxRun: 2}); n != 1 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("ART-14 what is in the store is taken out of the workspace, what was changed since is left", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		for _, name := range []string{"a.md", "b.md", "c.go"} {
			d.write(name, name)
		}
		d.look(nil)
		d.write("b.md", "more")
		if n, err := d.k.Clean(d.s, d.dir); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		entries, err := os.ReadDir(d.dir)
		if err != nil || len(entries) != 2 || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "a.md" }) {
			t.Errorf("%v, %v", entries, err)
		}
	})
}
