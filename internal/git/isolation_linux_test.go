package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/git/wall"
)

// TestMain lets the test program be the helper that raises walls.
func TestMain(m *testing.M) {
	if code, asked := wall.Main(); asked {
		panic(code) // it did not become the program
	}
	m.Run()
}

// walled is a Git behind a wall, or skips loudly where there is none.
func walled(t testing.TB) *git.Git {
	t.Helper()
	g := newGit(t)
	if err := g.Walled(t.Context()); err != nil {
		t.Skipf("NOT TESTED: git behind a wall: %v", err)
	}
	return g
}

// listing is every name below a directory with what is in it.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, d.Type())
		if d.Type().IsRegular() {
			b.WriteString(get(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// exchange swaps two names at once.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// swapped is a part of a repository in whose place a command puts a link, between the look at the repository and the
// start of one git.
type swapped struct {
	name, at, op string
	work         func(t *testing.T, r *git.Repo) error
}

func swaps() []swapped {
	checkout := func(t *testing.T, r *git.Repo) error { return r.Checkout(t.Context(), "feature/x") }
	commit := func(t *testing.T, r *git.Repo) error { return second(r.Commit(t.Context(), "work", ada)) }
	merge := func(t *testing.T, r *git.Repo) error {
		return errors.Join(commit(t, r), second(r.Merge(t.Context(), "feature/x", "", ada)))
	}
	branch := func(t *testing.T, r *git.Repo) error { return r.CreateBranch(t.Context(), "agent/a", "HEAD") }
	rescue := func(t *testing.T, r *git.Repo) error { return second(r.Strays(t.Context(), ada)) }
	return []swapped{
		{"GIT-11 a checkout and .git", ".git", "checkout", checkout},
		{"GIT-11 a checkout and its index", ".git/index", "checkout", checkout},
		{"GIT-2 a commit and .git", ".git", "update-index", commit},
		{"GIT-2 a commit and its index", ".git/index", "update-index", commit},
		{"GIT-2 a commit and its objects", ".git/objects", "write-tree", commit},
		{"GIT-2 a commit and its refs", ".git/refs/heads", "update-ref", commit},
		{"GIT-2 a commit and its log", ".git/logs", "update-ref", commit},
		{"GIT-2 a branch and the refs", ".git/refs", "checkout", branch},
		{"GIT-7 a merge and its objects", ".git/objects", "merge-tree", merge},
		{"GIT-7 a merge and its index", ".git/index", "read-tree", merge},
		{"WS-12 a rescue and the objects", ".git/objects", "write-tree", rescue},
		{"WS-12 a rescue and the refs", ".git/refs/heads", "update-ref", rescue},
	}
}

// play gives what became of the place that the link leads to, which has a copy of what was there.
func (s swapped) play(t *testing.T, g *git.Git, url string) (changed bool, err error) {
	t.Helper()
	r := clone(t, g, url)
	put(t, filepath.Join(r.Dir(), "new.txt"), "work\n")
	at, link, victim := filepath.Join(r.Dir(), s.at), filepath.Join(filepath.Dir(r.Dir()), "link"), filepath.Join(t.TempDir(), "victim")
	copied := false
	swap := func() {
		if err := exchange(at, link); err != nil {
			t.Errorf("swap: %v", err)
		}
	}
	var before string
	g.Around(func(op string) func() {
		if op != s.op || copied {
			return func() {}
		}
		copied = true
		copyTree(t, at, victim)
		before = listing(t, filepath.Dir(victim))
		if err := os.Symlink(victim, link); err != nil {
			t.Error(err)
		}
		swap()
		return swap
	})
	err = s.work(t, r)
	if !copied {
		t.Fatalf("git %s was not called: %v", s.op, err)
	}
	return listing(t, filepath.Dir(victim)) != before, err
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	switch {
	case err == nil && info.IsDir():
		err = os.CopyFS(to, os.DirFS(from))
	case err == nil:
		put(t, to, get(t, from))
	}
	if err != nil {
		t.Error(err)
	}
}

func TestSwaps(t *testing.T) {
	t.Parallel()
	walled(t)
	url, _ := bare(t)
	for _, s := range swaps() {
		t.Run("SAFE-8 SBX-18 a link that comes while git works leads nowhere: "+s.name, func(t *testing.T) {
			t.Parallel()
			open := newGit(t)
			open.Through(wall.None)
			if changed, err := s.play(t, open, url); !changed {
				t.Errorf("the bait is none: without a wall nothing changed: %v", err)
			}
			changed, err := s.play(t, walled(t), url)
			if changed {
				t.Errorf("git wrote where the link leads: %v", err)
			}
			if err == nil || !strings.Contains(err.Error(), "retry") {
				t.Errorf("got %v, want an error that says what to do", err)
			}
		})
	}
}

// churn swaps a directory of a tree and a link to a victim again and again until stop is closed, and gives how often it
// did.
func churn(stop <-chan struct{}, at, link string) (n int) {
	for {
		select {
		case <-stop:
			if n%2 == 1 && exchange(at, link) == nil {
				n++
			}
			return n
		default:
			if exchange(at, link) == nil {
				n++
			}
		}
	}
}

// TestRace has a command swap directories with links as fast as it can while git checks out trees of 2000 files.
func TestRace(t *testing.T) {
	t.Parallel()
	const files, dirs = 2000, 10
	for name, part := range map[string]string{"a directory of the tree": "d0", "the repository": ".git"} {
		t.Run("SAFE-8 SBX-18 WS-12 nothing is written outside however fast links come: "+name, func(t *testing.T) {
			t.Parallel()
			g := walled(t)
			r := must[*git.Repo](t)(g.Init(t.Context(), filepath.Join(t.TempDir(), "ws"), "one"))
			for _, branch := range []string{"one", "two"} {
				if branch == "two" {
					if err := r.CreateBranch(t.Context(), branch, "HEAD"); err != nil {
						t.Fatal(err)
					}
				}
				for i := range files {
					put(t, filepath.Join(r.Dir(), fmt.Sprintf("d%d/f%d", i%dirs, i)), branch)
				}
				must[git.Committed](t)(r.Commit(t.Context(), branch, ada))
			}
			base := t.TempDir()
			victim, link := filepath.Join(base, "victim"), filepath.Join(filepath.Dir(r.Dir()), "link")
			at := filepath.Join(r.Dir(), part)
			copyTree(t, at, victim)
			before := listing(t, base)
			if err := os.Symlink(victim, link); err != nil {
				t.Fatal(err)
			}
			stop, swaps := make(chan struct{}), make(chan int)
			go func() { swaps <- churn(stop, at, link) }()
			worked, tries, least := 0, 0, 500*time.Millisecond
			if slow {
				least = 10 * time.Second
			}
			for end := time.Now().Add(least); tries < 3 || time.Now().Before(end); tries++ {
				if err := r.Checkout(t.Context(), []string{"one", "two"}[tries%2]); err == nil {
					worked++
				} else {
					_, _ = git.Unlock(r.Dir()) // it was ended in the middle of its work
				}
			}
			close(stop)
			n := <-swaps
			if listing(t, base) != before {
				t.Errorf("git wrote to the victim, in %d checkouts and %d swaps", tries, n)
			}
			if n < 100 || tries < 3 {
				t.Errorf("%d checkouts and %d swaps: nothing was tried", tries, n)
			}
			t.Logf("%d checkouts, %d of them whole, %d swaps", tries, worked, n)
		})
	}
}

// TestLinks takes links that are content through all that git does.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := map[string]string{"dangling": "none/at/all", "outward": "/etc/hostname", "above": "../..", "to-dir": "src", "src/to-file": "../a.txt", "loop": "loop"}
	same := func(t *testing.T, dir string) {
		t.Helper()
		for name, want := range links {
			if got, err := os.Readlink(filepath.Join(dir, name)); err != nil || got != want {
				t.Errorf("%s is %q, %v, want %q", name, got, err, want)
			}
		}
	}
	lay := func(t *testing.T, dir string) {
		t.Helper()
		for name, to := range links {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, way := range map[string]wall.Way{"no wall": wall.None, "a thread": wall.Thread, "a helper": wall.Helper} {
		t.Run("GIT-2 GIT-7 links are content: "+name, func(t *testing.T) {
			t.Parallel()
			g, ctx := newGit(t), t.Context()
			url, _ := bare(t)
			g.Through(way)
			r, err := g.Clone(ctx, git.Source{URL: url}, filepath.Join(t.TempDir(), "ws"))
			if err != nil {
				t.Skipf("NOT TESTED: git behind %s: %v", name, err)
			}
			if err := r.CreateBranch(ctx, "agent/links", "HEAD"); err != nil {
				t.Fatal(err)
			}
			lay(t, r.Dir())
			if c := must[git.Committed](t)(r.Commit(ctx, "links", ada)); c.Paths != len(links) {
				t.Errorf("committed %+v", c)
			}
			if s := must[git.Status](t)(r.Status(ctx)); !s.Clean() {
				t.Errorf("not clean: %+v", s)
			}
			if err := r.Checkout(ctx, "main"); err != nil {
				t.Fatal(err)
			}
			absent(t, filepath.Join(r.Dir(), "dangling"))
			if err := r.Checkout(ctx, "agent/links"); err != nil {
				t.Fatal(err)
			}
			same(t, r.Dir())
			if err := r.Checkout(ctx, "feature/x"); err != nil {
				t.Fatal(err)
			}
			must[git.Merged](t)(r.Merge(ctx, "agent/links", "", ada))
			same(t, r.Dir())
			if p := must[git.Pushed](t)(r.Push(ctx, git.Push{URL: url, Branch: "feature/x"})); p.ID == "" {
				t.Errorf("pushed %+v", p)
			}
			k := keeper(t, g, r.Dir())
			s, pack := snap(t, k, "")
			heir := filepath.Join(t.TempDir(), "heir")
			if err := keeper(t, g, heir).Restore(ctx, s.ID, readers(pack)...); err != nil {
				t.Fatal(err)
			}
			same(t, heir)
			// A directory that becomes a link, and one that becomes a directory again.
			if err := errors.Join(os.Rename(filepath.Join(r.Dir(), "src"), filepath.Join(r.Dir(), "moved")), os.Symlink("moved", filepath.Join(r.Dir(), "src"))); err != nil {
				t.Fatal(err)
			}
			if s := must[git.Status](t)(r.Status(ctx)); s.Clean() {
				t.Error("a directory that became a link is no change")
			}
			kept := must[[]git.Ref](t)(r.Strays(ctx, ada))
			if c := must[git.Committed](t)(r.Commit(ctx, "src is a link", ada)); !c.Made || len(kept) != 1 {
				t.Errorf("committed %+v, rescued %v", c, kept)
			} else if a, b := raw(t, r.Dir(), "ls-tree", "-r", c.ID), raw(t, r.Dir(), "ls-tree", "-r", kept[0].ID); a != b || strings.Contains(a, "src/") || !strings.Contains(a, "moved/b.go") {
				t.Errorf("committed %s\nrescued %s", a, b)
			}
			if err := r.Checkout(ctx, "agent/links"); err != nil {
				t.Fatal(err)
			}
			same(t, r.Dir())
			get(t, filepath.Join(r.Dir(), "src/b.go"))
			if err := errors.Join(os.RemoveAll(filepath.Join(r.Dir(), "src")), os.Symlink("/etc", filepath.Join(r.Dir(), "src")), r.Reset(ctx)); err != nil {
				t.Fatal(err)
			}
			same(t, r.Dir())
			if s := must[git.Status](t)(r.Status(ctx)); !s.Clean() {
				t.Errorf("not clean after a reset: %+v", s)
			}
		})
	}
}
