package git_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/git/gittest"
)

// rawCommand is git as a person would run it, without the settings of whoever runs the tests.
func rawCommand(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	return cmd
}

// raw runs it.
func raw(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := rawCommand(t, dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func absent(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

var ada = git.Author{Name: "Ada", Email: "ada@example.com", When: time.Unix(1_700_000_000, 0)}

func newGit(t testing.TB, change ...func(*git.Config)) *git.Git {
	t.Helper()
	cfg := git.Config{Temp: t.TempDir(), Protocols: []string{"file"}}
	for _, f := range change {
		f(&cfg)
	}
	g, err := git.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(cfg.Temp); err != nil || len(left) > 0 {
			t.Errorf("private directories are left: %v %v", left, err)
		}
	})
	return g
}

var remotes gittest.Template

// bare makes a remote with a main branch, a tag, another branch and a pull request. All have the same commits.
func bare(t testing.TB) (url, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "remote.git")
	remotes.Copy(t, dir, func(dir string) {
		raw(t, "/", "init", "-q", "--bare", "--template=", dir)
		raw(t, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
		seed := t.TempDir()
		raw(t, seed, "init", "-q")
		put(t, filepath.Join(seed, "a.txt"), "one\n")
		put(t, filepath.Join(seed, "src/b.go"), "package b\n")
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", "first")
		raw(t, seed, "tag", "-a", "v1", "-m", "v1")
		put(t, filepath.Join(seed, "a.txt"), "one\ntwo\n")
		raw(t, seed, "commit", "-qam", "second")
		raw(t, seed, "checkout", "-qb", "feature/x")
		put(t, filepath.Join(seed, "x.txt"), "x\n")
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", "x")
		raw(t, seed, "checkout", "-q", "--detach", "main")
		put(t, filepath.Join(seed, "pr.txt"), "pr\n")
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", "pr")
		raw(t, seed, "push", "-q", dir, "main", "feature/x", "v1", "HEAD:refs/pull/123/head")
	})
	return "file://" + dir, dir
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var clones gittest.Template

// clone makes a clone of a remote: of one that is still as bare made it, by a copy of what Clone made once.
func clone(t testing.TB, g *git.Git, url string) *git.Repo {
	t.Helper()
	at, dir := filepath.Join(t.TempDir(), "ws"), strings.TrimPrefix(url, "file://")
	if !remotes.Holds(dir) {
		return must[*git.Repo](t)(g.Clone(t.Context(), git.Source{URL: url}, at))
	}
	const place = "file:///where/the/remote/is"
	clones.Copy(t, at, func(to string) {
		must[*git.Repo](t)(newGit(t).Clone(t.Context(), git.Source{URL: url}, to))
		put(t, filepath.Join(to, ".git/config"), strings.ReplaceAll(get(t, filepath.Join(to, ".git/config")), url, place))
	})
	put(t, filepath.Join(at, ".git/config"), strings.ReplaceAll(get(t, filepath.Join(at, ".git/config")), place, url))
	return must[*git.Repo](t)(g.Open(t.Context(), at))
}

func TestProbe(t *testing.T) {
	t.Parallel()
	if err := newGit(t).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	url, dir := bare(t)
	g := newGit(t)
	first := raw(t, dir, "rev-parse", "v1^{commit}")
	for _, c := range []struct {
		name         string
		src          git.Source
		branch, file string
		head         string
	}{
		{"GIT-12 the remote's own branch", git.Source{}, "main", "src/b.go", "main"},
		{"GIT-12c a branch", git.Source{Branch: "feature/x"}, "feature/x", "x.txt", "feature/x"},
		{"GIT-12 a ref wins over the branch", git.Source{Branch: "main", Ref: "feature/x"}, "feature/x", "x.txt", "feature/x"},
		{"GIT-12d a tag", git.Source{Ref: "v1"}, "", "a.txt", first},
		{"GIT-12e a commit", git.Source{Ref: first}, "", "a.txt", first},
		{"GIT-12 a shortened commit", git.Source{Ref: first[:9]}, "", "a.txt", first},
		{"GIT-12f a pull request", git.Source{Ref: "pull/123/head"}, "", "pr.txt", "refs/pull/123/head"},
		{"GIT-12g depth 1 of a branch", git.Source{Branch: "main", Depth: 1}, "main", "a.txt", "main"},
		{"GIT-12 depth 1 of a commit", git.Source{Ref: first, Depth: 1}, "", "a.txt", first},
		{"GIT-12 depth 1 of a pull request", git.Source{Ref: "pull/123/head", Depth: 1}, "", "pr.txt", "refs/pull/123/head"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.src.URL = url
			phases := 0
			c.src.Progress = func(git.Progress) { phases++ }
			ws := filepath.Join(t.TempDir(), "ws")
			r := must[*git.Repo](t)(g.Prepare(t.Context(), c.src, ws))
			h := must[git.Head](t)(r.Head(t.Context()))
			if want := raw(t, dir, "rev-parse", c.head+"^{commit}"); h.Branch != c.branch || h.ID != want {
				t.Errorf("got %+v, want %q at %s", h, c.branch, want)
			}
			get(t, filepath.Join(ws, c.file))
			if s := must[git.Status](t)(r.Status(t.Context())); !s.Clean() {
				t.Errorf("not clean: %+v", s)
			}
			if n := raw(t, ws, "rev-list", "--count", "HEAD"); c.src.Depth == 1 && n != "1" {
				t.Errorf("got %s commits, want 1", n)
			}
			if phases == 0 {
				t.Error("no progress was told")
			}
			if u := raw(t, ws, "remote", "get-url", "origin"); u != url {
				t.Errorf("origin is %q", u)
			}
			raw(t, ws, "fsck", "--connectivity-only")
		})
	}
	t.Run("GIT-11b one that is there is fetched and checked out", func(t *testing.T) {
		t.Parallel()
		url, dir := bare(t)
		ws := filepath.Join(t.TempDir(), "ws")
		must[*git.Repo](t)(g.Prepare(t.Context(), git.Source{URL: url, Branch: "main", Depth: 1}, ws))
		other := t.TempDir()
		raw(t, other, "clone", "-q", dir, ".")
		put(t, filepath.Join(other, "new.txt"), "new\n")
		raw(t, other, "add", "-A")
		raw(t, other, "commit", "-qm", "third")
		raw(t, other, "push", "-q", "origin", "main")
		r := must[*git.Repo](t)(g.Prepare(t.Context(), git.Source{URL: url, Branch: "main"}, ws))
		if get(t, filepath.Join(ws, "new.txt")) != "new\n" {
			t.Error("what came later is not there")
		}
		if h := must[git.Head](t)(r.Head(t.Context())); h.ID != raw(t, dir, "rev-parse", "main") || h.Branch != "main" {
			t.Errorf("got %+v", h)
		}
		r = must[*git.Repo](t)(g.Prepare(t.Context(), git.Source{}, ws))
		if h := must[git.Head](t)(r.Head(t.Context())); h.Branch != "main" {
			t.Errorf("as it is: %+v", h)
		}
	})
	for _, c := range []struct {
		name string
		src  git.Source
		want error
	}{
		{"no such branch", git.Source{URL: url, Branch: "nope"}, git.ErrNotFound},
		{"no such commit", git.Source{URL: url, Ref: strings.Repeat("a", 40)}, git.ErrNotFound},
		{"no such repository", git.Source{URL: url + "x"}, git.ErrNotFound},
		{"another protocol", git.Source{URL: "https://example.com/x"}, git.ErrProtocol},
		{"a negative depth", git.Source{URL: url, Depth: -1}, git.ErrName},
	} {
		t.Run("GIT-12 "+c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := g.Clone(t.Context(), c.src, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	t.Run("GIT-11 a directory with other files is refused", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		put(t, filepath.Join(ws, "mine"), "x")
		if _, err := g.Prepare(t.Context(), git.Source{URL: url}, ws); !errors.Is(err, git.ErrNotEmpty) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("GIT-11 an empty remote gives an empty tree", func(t *testing.T) {
		t.Parallel()
		empty := filepath.Join(t.TempDir(), "e.git")
		raw(t, "/", "init", "-q", "--bare", empty)
		r := clone(t, g, "file://"+empty)
		if c := must[git.Committed](t)(r.Commit(t.Context(), "nothing", ada)); c.Made || c.ID != "" {
			t.Errorf("got %+v", c)
		}
	})
}

func TestHead(t *testing.T) {
	t.Parallel()
	url, dir := bare(t)
	r := clone(t, newGit(t), url)
	main := raw(t, dir, "rev-parse", "main")
	for _, c := range []struct {
		name string
		make []string
		want git.Head
	}{
		{"a branch", []string{"checkout", "-q", "main"}, git.Head{Branch: "main", ID: main}},
		{"a branch called HEAD beside it", []string{"update-ref", "refs/heads/HEAD", "v1^{commit}"}, git.Head{Branch: "main", ID: main}},
		{"that branch itself", []string{"symbolic-ref", "HEAD", "refs/heads/HEAD"}, git.Head{Branch: "HEAD", ID: raw(t, dir, "rev-parse", "v1^{commit}")}},
		{"a commit", []string{"update-ref", "--no-deref", "HEAD", main}, git.Head{ID: main}},
		{"a branch without a commit", []string{"symbolic-ref", "HEAD", "refs/heads/none"}, git.Head{Branch: "none"}},
	} {
		t.Run("GIT-2 where the tree stands: "+c.name, func(t *testing.T) {
			raw(t, r.Dir(), c.make...)
			if got := must[git.Head](t)(r.Head(t.Context())); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestWork(t *testing.T) {
	t.Parallel()
	url, dir := bare(t)
	g := newGit(t)
	r := clone(t, g, url)
	ctx := t.Context()
	branch := git.BranchName("Coder Bot", "Fix: the login/../page!")
	t.Run("GIT-2 a branch from agent and task", func(t *testing.T) {
		if err := r.CreateBranch(ctx, branch, "HEAD"); err != nil {
			t.Fatal(err)
		}
		if got := must[string](t)(r.CurrentBranch(ctx)); got != "agent/coder-bot/fix-the-login-page" {
			t.Errorf("got %q", got)
		}
	})
	var id string
	t.Run("GIT-2 a commit has all changes, nothing to commit is said", func(t *testing.T) {
		before := must[git.Head](t)(r.Head(ctx)).ID
		if c := must[git.Committed](t)(r.Commit(ctx, "nothing", ada)); c.Made || c.ID != before {
			t.Errorf("got %+v", c)
		}
		put(t, filepath.Join(r.Dir(), "-u"), "an odd name\n")
		put(t, filepath.Join(r.Dir(), "new dir/ä\n.txt"), "new\n")
		put(t, filepath.Join(r.Dir(), "a.txt"), "changed\n")
		put(t, filepath.Join(r.Dir(), ".gitignore"), "*.o\n")
		put(t, filepath.Join(r.Dir(), "b.o"), "ignored\n")
		if err := os.Remove(filepath.Join(r.Dir(), "src/b.go")); err != nil {
			t.Fatal(err)
		}
		c := must[git.Committed](t)(r.Commit(ctx, "work\n\nof an agent", ada))
		if !c.Made || c.Paths != 5 {
			t.Errorf("got %+v, want 5 paths", c)
		}
		id = c.ID
		if got := raw(t, r.Dir(), "log", "-1", "--format=%H|%an|%ae|%at|%s|%P"); got != id+"|Ada|ada@example.com|1700000000|work|"+before {
			t.Errorf("got %q", got)
		}
		if got := raw(t, r.Dir(), "status", "--porcelain"); got != "" {
			t.Errorf("left: %q", got)
		}
		raw(t, r.Dir(), "fsck", "--strict")
	})
	t.Run("GIT-2 a push gives what the remote has", func(t *testing.T) {
		p := must[git.Pushed](t)(r.Push(ctx, git.Push{URL: url, Branch: branch}))
		if p.ID != id || raw(t, dir, "rev-parse", "refs/heads/"+branch) != id {
			t.Errorf("got %+v, want %s", p, id)
		}
		if ok := must[bool](t)(r.IsAncestor(ctx, "main", branch)); !ok {
			t.Error("main is not before the branch")
		}
		if ok := must[bool](t)(r.IsAncestor(ctx, branch, "main")); ok {
			t.Error("the branch is before main")
		}
	})
	t.Run("GIT-2 a push that would lose commits is rejected", func(t *testing.T) {
		other := clone(t, g, url)
		if err := other.Checkout(ctx, branch); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(other.Dir(), "theirs"), "x")
		theirs := must[git.Committed](t)(other.Commit(ctx, "theirs", ada)).ID
		must[git.Pushed](t)(other.Push(ctx, git.Push{URL: url, Branch: branch}))
		put(t, filepath.Join(r.Dir(), "ours"), "x")
		ours := must[git.Committed](t)(r.Commit(ctx, "ours", ada)).ID
		_, err := r.Push(ctx, git.Push{URL: url, Branch: branch})
		if !errors.Is(err, git.ErrRejected) {
			t.Fatalf("got %v", err)
		}
		if _, err := r.Push(ctx, git.Push{URL: url, Branch: branch, Over: id}); !errors.Is(err, git.ErrRejected) {
			t.Errorf("over what is not there any more: %v", err)
		}
		if p := must[git.Pushed](t)(r.Push(ctx, git.Push{URL: url, Branch: branch, Over: theirs})); p.ID != ours {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("GIT-2 a rule of the remote is told", func(t *testing.T) {
		raw(t, dir, "config", "receive.hideRefs", "refs/heads/ruled")
		if _, err := r.Push(ctx, git.Push{URL: url, Branch: branch, To: "ruled"}); !errors.Is(err, git.ErrRejected) || !strings.Contains(err.Error(), "hidden ref") {
			t.Errorf("got %v", err)
		}
	})
}

func TestLimitsOfCalls(t *testing.T) {
	t.Parallel()
	url, dir := bare(t)
	seed := t.TempDir()
	raw(t, seed, "clone", "-q", dir, ".")
	raw(t, seed, "checkout", "-qb", "big")
	put(t, filepath.Join(seed, "zeros"), strings.Repeat("\x00", 3<<20))
	raw(t, seed, "add", "-A")
	raw(t, seed, "commit", "-qm", "big")
	raw(t, seed, "push", "-q", "origin", "big")
	t.Run("SAFE-15 a tree that unpacks to too much is refused before a file is written", func(t *testing.T) {
		t.Parallel()
		ws := filepath.Join(t.TempDir(), "ws")
		g := newGit(t, func(c *git.Config) { c.Limits.Bytes = 2 << 20 })
		if _, err := g.Clone(t.Context(), git.Source{URL: url, Branch: "big"}, ws); !errors.Is(err, git.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
		absent(t, filepath.Join(ws, "zeros"))
		must[*git.Repo](t)(g.Prepare(t.Context(), git.Source{URL: url, Branch: "main"}, ws))
	})
	t.Run("SAFE-15 a tree with too many files is refused", func(t *testing.T) {
		t.Parallel()
		g := newGit(t, func(c *git.Config) { c.Limits.Files = 2 })
		if _, err := g.Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, git.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-15 a pack that is too large is cut off", func(t *testing.T) {
		t.Parallel()
		seed, far := t.TempDir(), filepath.Join(t.TempDir(), "r.git")
		raw(t, "/", "init", "-q", "--bare", far)
		raw(t, seed, "init", "-q")
		noise := make([]byte, 1<<20)
		for i, x := 0, uint32(1); i < len(noise); i++ {
			x = x*1664525 + 1013904223
			noise[i] = byte(x >> 24)
		}
		put(t, filepath.Join(seed, "noise"), string(noise))
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", "noise")
		raw(t, seed, "push", "-q", far, "main")
		g := newGit(t, func(c *git.Config) { c.Limits.Pack = 256 << 10 })
		if _, err := g.Clone(t.Context(), git.Source{URL: "file://" + far}, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, git.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
		must[*git.Repo](t)(newGit(t, func(c *git.Config) { c.Limits.Pack = 2 << 20 }).Clone(t.Context(), git.Source{URL: "file://" + far}, filepath.Join(t.TempDir(), "ws")))
	})
	t.Run("SAFE-15 git that prints without end is ended", func(t *testing.T) {
		t.Parallel()
		g := newGit(t, func(c *git.Config) { c.Limits.Output = 1 << 20; c.Program = script(t, "yes") })
		if err := g.Probe(t.Context()); !errors.Is(err, git.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a call ends with its time and with its context", func(t *testing.T) {
		t.Parallel()
		slow := script(t, "sleep 1000 & sleep 1000")
		if err := newGit(t, func(c *git.Config) { c.Limits.Time = 50 * time.Millisecond; c.Program = slow }).Probe(t.Context()); !errors.Is(err, git.ErrTooLarge) || !strings.Contains(err.Error(), "took longer") {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := newGit(t, func(c *git.Config) { c.Program = slow }).Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func script(t testing.TB, text string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "git")
	put(t, at, "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(at, 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}
