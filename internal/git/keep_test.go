package git_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
)

// picture is a tree as text: what a snapshot promises to keep, and nothing else.
func picture(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			lines = append(lines, fmt.Sprintf("%q dir", rel))
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("%q -> %q", rel, target))
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("%q %v %x", rel, info.Mode()&0o111 != 0, sha256.Sum256(b)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func keeper(t testing.TB, g *git.Git, tree string, change ...func(*git.KeepConfig)) *git.Keeper {
	t.Helper()
	cfg := git.KeepConfig{Tree: tree, Store: filepath.Join(t.TempDir(), "store")}
	for _, f := range change {
		f(&cfg)
	}
	return must[*git.Keeper](t)(g.Keep(cfg))
}

// snap takes a snapshot and the bytes of its pack.
func snap(t testing.TB, k *git.Keeper, parent string) (git.Snapshot, []byte) {
	t.Helper()
	s, p, err := k.Snapshot(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	if p == nil {
		return s, nil
	}
	b, err := io.ReadAll(p)
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b); int64(len(b)) != p.Size || hex.EncodeToString(sum[:]) != p.SHA256 {
		t.Fatalf("the pack has %d bytes, its size is said to be %d", len(b), p.Size)
	}
	return s, b
}

func readers(packs ...[]byte) []io.Reader {
	var rs []io.Reader
	for _, p := range packs {
		rs = append(rs, bytes.NewReader(p))
	}
	return rs
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	url, _ := bare(t)

	t.Run("a repository in the middle of its work comes back with the next owner", func(t *testing.T) {
		t.Parallel()
		r := clone(t, g, url)
		ws := r.Dir()
		k := keeper(t, g, ws)
		one, pack1 := snap(t, k, "")
		raw(t, ws, "checkout", "-qb", "work")
		put(t, filepath.Join(ws, "staged"), "staged\n")
		raw(t, ws, "add", "staged")
		put(t, filepath.Join(ws, "staged"), "and changed again\n")
		put(t, filepath.Join(ws, "untracked"), "untracked\n")
		put(t, filepath.Join(ws, "a.txt"), "stashed\n")
		raw(t, ws, "stash", "push", "-q", "a.txt")
		put(t, filepath.Join(ws, "bin/tool"), "#!/bin/sh\n")
		if err := errors.Join(os.Chmod(filepath.Join(ws, "bin/tool"), 0o755), os.Symlink("/etc/hostname", filepath.Join(ws, "out")),
			os.Symlink("nowhere", filepath.Join(ws, "broken")), os.MkdirAll(filepath.Join(ws, "empty/deep"), 0o755)); err != nil {
			t.Fatal(err)
		}
		two, pack2 := snap(t, k, one.ID)
		if two.Parent != one.ID || two.ID == one.ID || len(pack2) >= len(pack1) {
			t.Errorf("got %+v, packs of %d and %d bytes", two, len(pack1), len(pack2))
		}
		status, want := raw(t, ws, "status", "--porcelain=v2", "--branch"), picture(t, ws)
		heir := filepath.Join(t.TempDir(), "ws")
		k2 := keeper(t, g, heir)
		if err := k2.Restore(t.Context(), two.ID, readers(pack1, pack2)...); err != nil {
			t.Fatal(err)
		}
		if got := picture(t, heir); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if got := raw(t, heir, "status", "--porcelain=v2", "--branch"); got != status {
			t.Errorf("got status\n%s\nwant\n%s", got, status)
		}
		if got := raw(t, heir, "stash", "list"); !strings.Contains(got, "WIP on work") {
			t.Errorf("the stash is %q", got)
		}
		raw(t, heir, "fsck")
		put(t, filepath.Join(heir, "more"), "by the heir\n")
		three, pack3 := snap(t, k2, two.ID)
		if three.Parent != two.ID || len(pack3) > 4<<10 {
			t.Errorf("the heir's pack has %d bytes on %q", len(pack3), three.Parent)
		}
	})

	t.Run("a directory that is no repository, with names that git does not like", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		for _, name := range []string{"plain", ".git", "sub/.GIT/config", "git~1", "%", "=", "-", "-u", "a\\.git", "line\nend", "\"quoted\"", "ä", "\xff\xfe", ".gitmodules", " ", "%25", "con"} {
			put(t, filepath.Join(ws, name), name)
		}
		put(t, filepath.Join(ws, ".gitattributes"), "* text eol=crlf ident filter=x working-tree-encoding=UTF-16\n")
		put(t, filepath.Join(ws, "ends"), "a\r\nb\n$Id$\n")
		put(t, filepath.Join(ws, ".gitignore"), "*\n")
		if err := os.Symlink("..", filepath.Join(ws, "up")); err != nil {
			t.Fatal(err)
		}
		one, pack := snap(t, keeper(t, g, ws), "")
		heir := t.TempDir()
		put(t, filepath.Join(heir, "was/here"), "x")
		if err := keeper(t, g, heir).Restore(t.Context(), one.ID, bytes.NewReader(pack)); err != nil {
			t.Fatal(err)
		}
		if got, want := picture(t, heir), picture(t, ws); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		again, _ := snap(t, keeper(t, g, heir), "")
		if again.ID != one.ID {
			t.Errorf("equal trees have the ids %s and %s", again.ID, one.ID)
		}
	})

	t.Run("what cannot be kept is told, and nothing outside is read", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		put(t, filepath.Join(ws, "a"), "a")
		short, err := os.MkdirTemp("", "s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(short) })
		ln, err := net.Listen("unix", filepath.Join(short, "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if err := os.Rename(filepath.Join(short, "s"), filepath.Join(ws, "sock")); err != nil {
			t.Fatal(err)
		}
		s, _ := snap(t, keeper(t, g, ws), "")
		if s.Files != 1 || s.Bytes != 1 || !slices.Equal(s.Left, []string{"sock"}) {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("what is ignored is left out only when asked for", func(t *testing.T) {
		t.Parallel()
		r := clone(t, g, url)
		put(t, filepath.Join(r.Dir(), ".gitignore"), "build/\n*.o\n")
		put(t, filepath.Join(r.Dir(), "build/out"), "x")
		put(t, filepath.Join(r.Dir(), "b.o"), "x")
		put(t, filepath.Join(r.Dir(), "node_modules/x/y"), "x")
		for _, c := range []struct {
			cfg                 git.KeepConfig
			build, object, node bool
		}{{git.KeepConfig{}, true, true, true}, {git.KeepConfig{SkipIgnored: true}, false, false, true}, {git.KeepConfig{Skip: []string{"node_modules"}}, true, true, false}} {
			s, pack := snap(t, keeper(t, g, r.Dir(), func(k *git.KeepConfig) { k.Skip, k.SkipIgnored = c.cfg.Skip, c.cfg.SkipIgnored }), "")
			heir := filepath.Join(t.TempDir(), "ws")
			if err := keeper(t, g, heir).Restore(t.Context(), s.ID, bytes.NewReader(pack)); err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]bool{"build/out": c.build, "b.o": c.object, "node_modules/x/y": c.node, "a.txt": true, ".git/HEAD": true} {
				if _, err := os.Stat(filepath.Join(heir, path)); (err == nil) != want {
					t.Errorf("%+v: %s: %v", c.cfg, path, err)
				}
			}
		}
	})

	t.Run("nothing new needs no pack, unread files are not read again", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		for i := range 50 {
			f := filepath.Join(ws, fmt.Sprintf("d%d/f%d", i%5, i))
			put(t, f, strings.Repeat("x", i))
		}
		k := keeper(t, g, ws)
		one, _ := snap(t, k, "")
		// Files that were changed just before the look are read again, until they were left alone for a second.
		settled := false
		for deadline := time.Now().Add(5 * time.Minute); !settled && time.Now().Before(deadline); {
			s, pack := snap(t, k, one.ID)
			if pack != nil || s.ID != one.ID {
				t.Fatalf("got %+v and %d bytes", s, len(pack))
			}
			settled = s.Read == 0
		}
		if !settled {
			t.Error("the files are read again and again")
		}
		put(t, filepath.Join(ws, "d0/f0"), "y")
		two, pack := snap(t, k, one.ID)
		if two.Read != 1 || two.ID == one.ID || pack == nil {
			t.Errorf("got %+v", two)
		}
		put(t, filepath.Join(ws, "d0/f0"), "z") // the same size, at once
		if three, _ := snap(t, k, two.ID); three.ID == two.ID {
			t.Error("a change right after a snapshot was missed")
		}
	})

	t.Run("a lost or damaged store gives a whole snapshot", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		put(t, filepath.Join(ws, "a"), "a")
		store := filepath.Join(t.TempDir(), "store")
		cfg := git.KeepConfig{Tree: ws, Store: store}
		one, _ := snap(t, must[*git.Keeper](t)(g.Keep(cfg)), "")
		if s, _ := snap(t, keeper(t, g, ws), one.ID); s.Parent != "" || s.ID != one.ID {
			t.Errorf("in a new store: %+v", s)
		}
		packs, _ := filepath.Glob(filepath.Join(store, "git/objects/pack/*.pack"))
		for _, p := range packs {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
		put(t, filepath.Join(ws, "b"), "b")
		s, pack := snap(t, must[*git.Keeper](t)(g.Keep(cfg)), one.ID)
		heir := filepath.Join(t.TempDir(), "ws")
		if err := keeper(t, g, heir).Restore(t.Context(), s.ID, bytes.NewReader(pack)); err != nil || s.Parent != "" || len(packs) == 0 {
			t.Errorf("got %+v, %v, %d packs were removed", s, err, len(packs))
		}
	})

	t.Run("many snapshots do not fill the store", func(t *testing.T) {
		t.Parallel()
		ws, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
		k := must[*git.Keeper](t)(g.Keep(git.KeepConfig{Tree: ws, Store: store}))
		const most, snapshots = 6, 9
		if standard := k.RepackAt(most); standard < most || standard > 100 {
			t.Errorf("a store is packed anew at %d packs", standard)
		}
		parent := ""
		for i := range snapshots {
			put(t, filepath.Join(ws, "a"), fmt.Sprint(i))
			s, pack := snap(t, k, parent)
			if pack == nil {
				t.Fatal("a snapshot had no pack")
			}
			parent = s.ID
		}
		if packs, _ := filepath.Glob(filepath.Join(store, "git/objects/pack/*.pack")); len(packs) > most {
			t.Errorf("%d packs", len(packs))
		}
		if out := must[[]os.DirEntry](t)(os.ReadDir(filepath.Join(store, "out"))); len(out) != 0 {
			t.Errorf("left: %v", out)
		}
	})

	t.Run("a store inside of its tree is refused", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		for _, store := range []string{filepath.Join(ws, ".keep"), ws, filepath.Dir(ws)} {
			if _, err := g.Keep(git.KeepConfig{Tree: ws, Store: store}); !errors.Is(err, git.ErrName) {
				t.Errorf("%s: %v", store, err)
			}
		}
	})
}

func TestDamagedPacks(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	ws := t.TempDir()
	for i := range 20 {
		put(t, filepath.Join(ws, fmt.Sprintf("f%d", i)), strings.Repeat(fmt.Sprint(i), 100+i))
	}
	k := keeper(t, g, ws)
	one, pack1 := snap(t, k, "")
	put(t, filepath.Join(ws, "f3"), strings.Repeat("3", 99)+"!")
	put(t, filepath.Join(ws, "new"), "new")
	two, pack2 := snap(t, k, one.ID)
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	for name, packs := range map[string][][]byte{
		"half":               {pack1[:len(pack1)/2]},
		"half of the second": {pack1, pack2[:len(pack2)-30]},
		"without the first":  {pack2},
		"without the second": {pack1},
		"no pack":            {},
		"an empty pack":      {{}, pack2},
		"text":               {[]byte("not a pack at all, only some text that is long enough")},
		"a bit in the first": {flip(pack1, len(pack1)/2), pack2},
		"a bit at the end":   {pack1, flip(pack2, len(pack2)-1)},
		"a bit in the head":  {flip(pack1, 11), pack2},
	} {
		t.Run("SAFE-15 damaged: "+name, func(t *testing.T) {
			t.Parallel()
			heir := filepath.Join(t.TempDir(), "ws")
			put(t, filepath.Join(heir, "mine"), "as it was")
			before := picture(t, heir)
			hk := keeper(t, g, heir)
			if err := hk.Restore(t.Context(), two.ID, readers(packs...)...); !errors.Is(err, git.ErrDamaged) {
				t.Errorf("got %v", err)
			}
			if got := picture(t, heir); got != before {
				t.Errorf("the tree is now\n%s", got)
			}
			if around := must[[]os.DirEntry](t)(os.ReadDir(filepath.Dir(heir))); len(around) != 1 {
				t.Errorf("left: %v", around)
			}
			if err := hk.Restore(t.Context(), two.ID, readers(pack1, pack2)...); err != nil {
				t.Errorf("the good packs after it: %v", err)
			}
			if got, want := picture(t, heir), picture(t, ws); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	t.Run("SAFE-15 a reader's own error is told", func(t *testing.T) {
		t.Parallel()
		lost := errors.New("the store went away")
		err := keeper(t, g, filepath.Join(t.TempDir(), "ws")).Restore(t.Context(), one.ID, io.MultiReader(bytes.NewReader(pack1[:100]), errReader{lost}))
		if !errors.Is(err, lost) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-15 packs and trees above the limits are refused", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]func(*git.Config){
			"pack":  func(c *git.Config) { c.Limits.Pack = 700 },
			"bytes": func(c *git.Config) { c.Limits.Bytes = 1000 },
			"files": func(c *git.Config) { c.Limits.Files = 19 },
		} {
			tight := newGit(t, c)
			heir := filepath.Join(t.TempDir(), "ws")
			if err := keeper(t, tight, heir).Restore(t.Context(), one.ID, bytes.NewReader(pack1)); !errors.Is(err, git.ErrTooLarge) {
				t.Errorf("restore with a limit of %s: %v", name, err)
			}
			absent(t, heir)
			if _, _, err := keeper(t, tight, ws).Snapshot(t.Context(), ""); !errors.Is(err, git.ErrTooLarge) {
				t.Errorf("snapshot with a limit of %s: %v", name, err)
			}
		}
	})
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }
