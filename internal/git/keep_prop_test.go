package git_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/git"
)

// TestRandomTrees edits a tree at random, with a snapshot after each batch of edits. Restored from its packs, each one
// is the tree as it was then, and its id is that of a whole snapshot of the same tree from elsewhere.
//
// A check starts a dozen gits: make test takes a sixth of them, and make robust (the part git) all.
func TestRandomTrees(t *testing.T) {
	defer fewer(t)()
	g := newGit(t)
	ids := map[string]string{} // by picture, over all trees
	t.Run("restored is what was kept", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			base, err := os.MkdirTemp(t.TempDir(), "r")
			if err != nil {
				rt.Fatal(err)
			}
			ws := filepath.Join(base, "ws")
			if err := os.Mkdir(ws, 0o755); err != nil {
				rt.Fatal(err)
			}
			k, err := g.Keep(git.KeepConfig{Tree: ws, Store: filepath.Join(base, "store")})
			if err != nil {
				rt.Fatal(err)
			}
			var packs [][]byte
			last := ""
			for range rapid.IntRange(1, 2).Draw(rt, "snapshots") {
				for range rapid.IntRange(0, 8).Draw(rt, "edits") {
					edit(rt, ws)
				}
				s, p, err := k.Snapshot(t.Context(), last)
				if err != nil {
					rt.Fatal(err)
				}
				if s.Parent != last {
					rt.Fatalf("built on %q, want %q", s.Parent, last)
				}
				if p != nil {
					b, err := io.ReadAll(p)
					if err != nil || p.Close() != nil {
						rt.Fatal(err)
					}
					packs = append(packs, b)
				}
				last = s.ID
			}
			want := picture(t, ws)
			if id, ok := ids[want]; ok && id != last {
				rt.Fatalf("equal trees have the ids %s and %s:\n%s", id, last, want)
			}
			for tree, id := range ids {
				if id == last && tree != want {
					rt.Fatalf("other trees have the same id %s:\n%s\nand\n%s", id, tree, want)
				}
			}
			ids[want] = last
			heir := filepath.Join(base, "heir")
			hk, err := g.Keep(git.KeepConfig{Tree: heir, Store: filepath.Join(base, "store2")})
			if err != nil {
				rt.Fatal(err)
			}
			if err := hk.Restore(t.Context(), last, readers(packs...)...); err != nil {
				rt.Fatal(err)
			}
			if got := picture(t, heir); got != want {
				rt.Fatalf("got\n%s\nwant\n%s", got, want)
			}
		})
	})
}

// fewer has rapid make a sixth of its checks until it is undone, but not in slow tests and not of a number that was asked
// for. It is for tests that are not parallel: those that are wait for them.
func fewer(t *testing.T) (undo func()) {
	t.Helper()
	const name, share = "rapid.checks", 6
	asked, before := slow, flag.Lookup(name).Value.String()
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == name })
	checks, err := strconv.Atoi(before)
	if asked || err != nil {
		return func() {}
	}
	set := func(to string) {
		if err := flag.Set(name, to); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(checks / share))
	return func() { set(before) }
}

// edit makes one change below dir: names clash and files become directories and links as chance has it.
func edit(rt *rapid.T, dir string) {
	name := rapid.SampledFrom([]string{"a", "b", ".git", "%", "-", "x\\y", "new\nline", "ä", "=a"})
	path := dir
	for i := range rapid.IntRange(1, 3).Draw(rt, "depth") {
		if i > 0 {
			if info, err := os.Lstat(path); err == nil && !info.IsDir() {
				if err := os.Remove(path); err != nil {
					rt.Fatal(err)
				}
			}
			if err := os.MkdirAll(path, 0o755); err != nil {
				rt.Fatal(err)
			}
		}
		path = filepath.Join(path, name.Draw(rt, fmt.Sprint("name", i)))
	}
	if info, err := os.Lstat(path); err == nil && rapid.Bool().Draw(rt, "append") && info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			rt.Fatal(err)
		}
		_, err = f.WriteString("more")
		if err != nil || f.Close() != nil {
			rt.Fatal(err)
		}
		return
	}
	if err := os.RemoveAll(path); err != nil {
		rt.Fatal(err)
	}
	var err error
	switch rapid.IntRange(0, 5).Draw(rt, "kind") {
	case 0: // it stays away
	case 1:
		err = os.MkdirAll(path, 0o755)
	case 2:
		err = os.Symlink(rapid.SampledFrom([]string{"a", "..", "/etc/passwd", "no\nwhere"}).Draw(rt, "target"), path)
	case 3:
		err = os.WriteFile(path, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "bytes"), 0o755)
	default:
		err = os.WriteFile(path, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "bytes"), 0o644)
	}
	if err != nil {
		rt.Fatal(err)
	}
}
