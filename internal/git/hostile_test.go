package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
)

// tripped runs plain git, which falls for the bait, and reports whether that left the mark. It shows that a bait is
// one.
func tripped(t *testing.T, dir, mark string, commands ...string) bool {
	t.Helper()
	for _, c := range commands {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "git -c user.name=x -c user.email=x@y "+c)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}
		_ = cmd.Run() // it may fail: only the mark counts
	}
	_, err := os.Stat(mark)
	_ = os.Remove(mark)
	return err == nil
}

// bait is a trap in a repository, and what plain git is asked to do to step into it.
type bait struct {
	name string
	lay  func(t *testing.T, ws, program, url string)
	trip []string
}

func config(text string) func(*testing.T, string, string, string) {
	return func(t *testing.T, ws, program, url string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(ws, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(strings.NewReplacer("PROGRAM", program, "URL", url).Replace(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// driver is a setting with an attribute that asks for it.
func driver(text, attribute string) func(*testing.T, string, string, string) {
	return func(t *testing.T, ws, program, url string) {
		t.Helper()
		config(text)(t, ws, program, url)
		put(t, filepath.Join(ws, ".gitattributes"), "* "+attribute+"\n")
		put(t, filepath.Join(ws, ".git/info/attributes"), "* "+attribute+"\n")
	}
}

// baits are traps in groups. Those of a group are laid in one repository, the first one first, and each is shown to be a
// trap there.
func baits() [][]bait {
	change := "status; echo changed >a.txt; git add -A; git -c user.name=x -c user.email=x@y commit -qm c"
	return [][]bait{
		{
			{"hooks", func(t *testing.T, ws, program, _ string) {
				for _, h := range []string{"pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-checkout", "post-merge", "pre-merge-commit", "pre-push", "reference-transaction",
					"post-index-change", "pre-auto-gc", "post-rewrite", "applypatch-msg", "fsmonitor-watchman"} {
					put(t, filepath.Join(ws, ".git/hooks", h), get(t, program))
					if err := os.Chmod(filepath.Join(ws, ".git/hooks", h), 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}, []string{change}},
			{"upload-pack of an address", config("[remote \"URL\"]\n uploadpack = PROGRAM\n receivepack = PROGRAM\n url = URL\n"), []string{"fetch URL"}},
			{"diff driver", driver("[diff \"x\"]\n command = PROGRAM\n textconv = PROGRAM\n[diff]\n external = PROGRAM\n", "diff=x"), []string{"status; echo changed >a.txt; git diff"}},
		},
		{
			{"core.hooksPath", func(t *testing.T, ws, program, url string) {
				config("[core]\n hooksPath = "+filepath.Dir(program)+"\n")(t, ws, program, url)
				put(t, filepath.Join(filepath.Dir(program), "post-index-change"), get(t, program))
				if err := os.Chmod(filepath.Join(filepath.Dir(program), "post-index-change"), 0o755); err != nil {
					t.Fatal(err)
				}
			}, []string{change}},
			{"core.fsmonitor", config("[core]\n fsmonitor = PROGRAM\n"), []string{"status"}},
			{"an address that becomes a program", config("[url \"ext::PROGRAM \"]\n insteadOf = file://\n[protocol \"ext\"]\n allow = always\n"), []string{"fetch URL"}},
			{"signing program", config("[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n[push]\n gpgSign = true\n[gpg]\n program = PROGRAM\n[user]\n signingKey = x\n"), []string{change}},
		},
		{
			{"promised objects", func(t *testing.T, ws, program, url string) {
				config("[core]\n repositoryformatversion = 1\n[extensions]\n partialClone = evil\n[remote \"evil\"]\n promisor = true\n url = ext::"+program+"\n[protocol \"ext\"]\n allow = always\n")(t, ws, program, url)
			}, []string{"cat-file -p " + strings.Repeat("b", 40)}},
			{"include.path", func(t *testing.T, ws, program, url string) {
				put(t, filepath.Join(ws, ".git/more"), "[core]\n fsmonitor = "+program+"\n")
				config("[include]\n path = more\n[includeIf \"gitdir:/\"]\n path = more\n")(t, ws, program, url)
			}, []string{"status"}},
			{"filter clean and smudge", driver("[filter \"x\"]\n clean = PROGRAM\n smudge = PROGRAM\n required = true\n", "filter=x"), []string{change}},
		},
		{
			{"filter process, as for large files", driver("[filter \"lfs\"]\n process = PROGRAM\n clean = PROGRAM\n", "filter=lfs diff=lfs merge=lfs -text"), []string{change}},
			{"config.worktree", func(t *testing.T, ws, program, url string) {
				put(t, filepath.Join(ws, ".git/config.worktree"), "[core]\n fsmonitor = "+program+"\n")
				config("[core]\n repositoryformatversion = 1\n[extensions]\n worktreeConfig = true\n")(t, ws, program, url)
			}, []string{"status"}},
		},
		{
			{"monitor in a nested repository", func(t *testing.T, ws, program, _ string) {
				sub := filepath.Join(ws, "sub")
				raw(t, ws, "init", "-q", sub)
				put(t, filepath.Join(sub, "f"), "x")
				raw(t, sub, "add", "-A")
				raw(t, sub, "commit", "-qm", "s")
				put(t, filepath.Join(ws, ".gitmodules"), "[submodule \"sub\"]\n path = sub\n url = ./sub\n ignore = none\n")
				raw(t, ws, "add", "-A")
				raw(t, ws, "commit", "-qm", "sub")
				put(t, filepath.Join(sub, ".git/config"), "[core]\n repositoryformatversion = 0\n fsmonitor = "+program+"\n")
				put(t, filepath.Join(sub, "dirty"), "x")
			}, []string{"status"}},
			{"merge driver", driver("[merge \"x\"]\n driver = PROGRAM\n", "merge=x"),
				[]string{"checkout -qb l v1; echo l >a.txt; git -c user.name=x -c user.email=x@y commit -qam l; git -c user.name=x -c user.email=x@y merge -q origin/main"}},
			{"editor, pager, alias and maintenance", config("[gc]\n auto = 1\n autoDetach = false\n[maintenance]\n auto = true\n[alias]\n gc = !PROGRAM\n[core]\n pager = PROGRAM\n editor = PROGRAM\n askPass = PROGRAM\n"), []string{"commit --allow-empty"}},
		},
	}
}

// laid makes a clone with baits in it, and gives where each leaves its mark and how plain git is led into it.
func laid(t *testing.T, group []bait, url string) (ws string, marks []string, trips [][]string) {
	t.Helper()
	base := t.TempDir()
	ws = filepath.Join(base, "ws")
	raw(t, base, "clone", "-q", url, ws)
	for i, b := range group {
		mark := filepath.Join(base, fmt.Sprint("mark", i))
		program := filepath.Join(base, fmt.Sprint("evil", i), "program")
		put(t, program, "#!/bin/sh\ntouch "+mark+"\nexit 1\n")
		if err := os.Chmod(program, 0o755); err != nil {
			t.Fatal(err)
		}
		b.lay(t, ws, program, url)
		var trip []string
		for _, c := range b.trip {
			trip = append(trip, strings.NewReplacer("URL", url, "PROGRAM", program).Replace(c))
		}
		marks, trips = append(marks, mark), append(trips, trip)
	}
	return ws, marks, trips
}

// exercise does everything that this package does in a tree. What git refuses is fine here: only what runs counts.
func exercise(t *testing.T, g *git.Git, ws, url string) (worked int) {
	t.Helper()
	ctx := t.Context()
	note := func(err error) {
		if err == nil {
			worked++
		}
	}
	k := keeper(t, g, ws, func(c *git.KeepConfig) { c.SkipIgnored = true })
	s, p, err := k.Snapshot(ctx, "")
	note(err)
	if p != nil {
		defer p.Close()
	}
	r, err := g.Prepare(ctx, git.Source{URL: url, Branch: "main"}, ws)
	note(err)
	if r == nil {
		if r, err = g.Open(ctx, ws); err != nil {
			return worked
		}
	}
	_, err = r.Status(ctx)
	note(err)
	note(r.CreateBranch(ctx, "agent/a/b", "v1"))
	put(t, filepath.Join(ws, "a.txt"), "by an agent\n")
	put(t, filepath.Join(ws, "new.txt"), "by an agent\n")
	_, err = r.Commit(ctx, "work", ada)
	note(err)
	_, err = r.Merge(ctx, "main", "", ada)
	note(err)
	note(r.Checkout(ctx, "feature/x"))
	_, err = r.Merge(ctx, "agent/a/b", "", ada)
	note(err)
	_, err = r.Push(ctx, git.Push{URL: url, Branch: "agent/a/b"})
	note(err)
	other := ws + "-other"
	w, err := r.AddWorktree(ctx, other, "agent/c/d", "v1")
	note(err)
	if err == nil {
		put(t, filepath.Join(other, "a.txt"), "elsewhere\n")
		_, err = w.Commit(ctx, "other", ada)
		note(err)
		note(r.RemoveWorktree(ctx, other, false))
	}
	_, err = r.Bundle(ctx, new(bytes.Buffer))
	note(err)
	_, err = r.Read(ctx, strings.Repeat("b", 40), 100)
	note(err)
	if p != nil {
		note(k.Restore(ctx, s.ID))
	}
	return worked
}

func TestBaits(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	for _, group := range baits() {
		var names []string
		for _, b := range group {
			names = append(names, b.name)
		}
		t.Run("nothing of a repository is run: "+strings.Join(names, "; "), func(t *testing.T) {
			t.Parallel()
			url, _ := bare(t)
			ws, marks, trips := laid(t, group, url)
			for i, trip := range trips {
				other := filepath.Join(t.TempDir(), "ws")
				if err := os.CopyFS(other, os.DirFS(ws)); err != nil {
					t.Fatal(err)
				}
				if !tripped(t, other, marks[i], trip...) {
					t.Fatalf("%s: the bait is none: plain git left no mark", names[i])
				}
			}
			for _, mark := range marks { // plain git may step into one on its way to another
				_ = os.Remove(mark)
			}
			if n := exercise(t, g, ws, url); n < 6 {
				t.Errorf("only %d of the operations worked: nothing was tried", n)
			}
			for i, mark := range marks {
				if _, err := os.Lstat(mark); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: its program was run (%v)", names[i], err)
				}
			}
		})
	}
}

func TestLayouts(t *testing.T) {
	t.Parallel()
	url, dir := bare(t)
	g := newGit(t)
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, "not for agents\n")
	for name, lay := range map[string]func(ws string) error{
		"a .git file that points elsewhere": func(ws string) error {
			return errors.Join(os.RemoveAll(filepath.Join(ws, ".git")), os.WriteFile(filepath.Join(ws, ".git"), []byte("gitdir: "+dir+"\n"), 0o644))
		},
		"a .git link": func(ws string) error {
			return errors.Join(os.RemoveAll(filepath.Join(ws, ".git")), os.Symlink(dir, filepath.Join(ws, ".git")))
		},
		"objects of another repository": func(ws string) error {
			return errors.Join(os.RemoveAll(filepath.Join(ws, ".git/objects")), os.Symlink(filepath.Join(dir, "objects"), filepath.Join(ws, ".git/objects")))
		},
		"alternates": func(ws string) error {
			return errors.Join(os.MkdirAll(filepath.Join(ws, ".git/objects/info"), 0o755), os.WriteFile(filepath.Join(ws, ".git/objects/info/alternates"), []byte(dir+"/objects\n"), 0o644))
		},
		"a pack that is a link": func(ws string) error {
			return os.Symlink(secret, filepath.Join(ws, ".git/objects/pack/pack-1.pack"))
		},
		"refs that are a link": func(ws string) error { return os.Symlink(secret, filepath.Join(ws, ".git/refs/heads/x")) },
		"an index that is one": func(ws string) error { return relink(secret, filepath.Join(ws, ".git/index")) },
		"a config that is one": func(ws string) error { return relink(secret, filepath.Join(ws, ".git/config")) },
		"a HEAD that is one":   func(ws string) error { return relink(secret, filepath.Join(ws, ".git/HEAD")) },
		"a log that is one":    func(ws string) error { return os.Symlink(secret, filepath.Join(ws, ".git/logs/refs/heads/x")) },
		"another place for branches": func(ws string) error {
			return os.WriteFile(filepath.Join(ws, ".git/commondir"), []byte(dir+"\n"), 0o644)
		},
		"a HEAD that is no ref": func(ws string) error {
			return os.WriteFile(filepath.Join(ws, ".git/HEAD"), []byte("ref: ../../etc\n"), 0o644)
		},
		"another form of refs": func(ws string) error {
			return os.WriteFile(filepath.Join(ws, ".git/config"), []byte("[core]\nrepositoryformatversion=1\n[extensions]\nrefStorage=reftable\n"), 0o644)
		},
		"another form of refs, in capitals": func(ws string) error {
			return os.WriteFile(filepath.Join(ws, ".git/config"), []byte("[CORE]repositoryformatversion=1\n[EXTENSIONS]REFSTORAGE=reftable"), 0o644)
		},
	} {
		t.Run("WS-3 refused: "+name, func(t *testing.T) {
			t.Parallel()
			r := clone(t, g, url)
			if err := lay(r.Dir()); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Open(t.Context(), r.Dir()); !errors.Is(err, git.ErrHostile) {
				t.Errorf("opened again: %v", err)
			}
			if strings.HasPrefix(name, "another form of refs") {
				return // only looked at when it is opened
			}
			if _, err := r.Status(t.Context()); err == nil {
				t.Error("a repository that was open before works on")
			}
		})
	}
	t.Run("WS-3 a work tree elsewhere is not believed", func(t *testing.T) {
		t.Parallel()
		r := clone(t, g, url)
		elsewhere := t.TempDir()
		raw(t, r.Dir(), "config", "core.worktree", elsewhere)
		r = must[*git.Repo](t)(g.Open(t.Context(), r.Dir()))
		if err := r.Checkout(t.Context(), "feature/x"); err != nil {
			t.Fatal(err)
		}
		absent(t, filepath.Join(elsewhere, "x.txt"))
		get(t, filepath.Join(r.Dir(), "x.txt"))
	})
	t.Run("WS-3 a commit that stands in for another is not believed", func(t *testing.T) {
		t.Parallel()
		r := clone(t, g, url)
		head := must[git.Head](t)(r.Head(t.Context())).ID
		raw(t, r.Dir(), "replace", head, "origin/feature/x")
		if _, err := r.ReadAt(t.Context(), head, "x.txt", 100); !errors.Is(err, git.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("WS-3 a worktree that points elsewhere is refused", func(t *testing.T) {
		t.Parallel()
		r, other := clone(t, g, url), clone(t, g, url)
		at := filepath.Join(t.TempDir(), "w")
		w := must[*git.Repo](t)(r.AddWorktree(t.Context(), at, "agent/a/b", "HEAD"))
		for _, to := range []string{other.Dir() + "/.git", filepath.Join(r.Dir(), ".git/worktrees/../../.git"), filepath.Join(r.Dir(), ".git/worktrees/none")} {
			put(t, filepath.Join(at, ".git"), "gitdir: "+to+"\n")
			if _, err := r.Worktree(t.Context(), at); !errors.Is(err, git.ErrHostile) {
				t.Errorf("%s: %v", to, err)
			}
		}
		if s := must[git.Status](t)(w.Status(t.Context())); s.Head.Branch != "agent/a/b" {
			t.Errorf("the open one follows the file: %+v", s)
		}
	})
}

func relink(to, at string) error { return errors.Join(os.Remove(at), os.Symlink(to, at)) }

// TestTrees fetches trees that git's own commands would not make.
func TestTrees(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	for _, path := range []string{".git/hooks/post-checkout", ".GIT/config", "git~1/config", ".g\u200cit/config", "../out", "a/../../out"} {
		t.Run("SAFE-12 nothing is written outside of the tree: "+path, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			dir, ws := filepath.Join(base, "r.git"), filepath.Join(base, "ws")
			raw(t, base, "init", "-q", "--bare", dir)
			cmd := exec.Command("git", "--git-dir", dir, "fast-import", "--quiet")
			cmd.Stdin = strings.NewReader(fmt.Sprintf("commit refs/heads/main\ncommitter x <x@y> 0 +0000\ndata 0\nM 100755 inline ok\ndata 2\nok\nM 100755 inline \"%s\"\ndata 4\nevil\n", path))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			_, err := g.Clone(t.Context(), git.Source{URL: "file://" + dir}, ws)
			if err == nil {
				t.Error("it was checked out")
			}
			absent(t, filepath.Join(base, "out"))
			absent(t, filepath.Join(ws, ".git/hooks/post-checkout"))
			absent(t, filepath.Join(ws, "git~1"))
			if strings.Contains(get(t, filepath.Join(ws, ".git/config")), "evil") {
				t.Error("the configuration was written over")
			}
		})
	}
	t.Run("SAFE-12 nothing is written through a link", func(t *testing.T) {
		t.Parallel()
		url, dir := bare(t)
		outside := t.TempDir()
		seed := t.TempDir()
		raw(t, seed, "clone", "-q", dir, ".")
		raw(t, seed, "checkout", "-qb", "link")
		if err := os.Symlink(outside, filepath.Join(seed, "d")); err != nil {
			t.Fatal(err)
		}
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", "link")
		raw(t, seed, "checkout", "-q", "main")
		put(t, filepath.Join(seed, "d/file"), "x")
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", "dir")
		raw(t, seed, "push", "-q", "origin", "main", "link")
		r := must[*git.Repo](t)(g.Clone(t.Context(), git.Source{URL: url, Branch: "link"}, filepath.Join(t.TempDir(), "ws")))
		if err := r.Checkout(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		absent(t, filepath.Join(outside, "file"))
		get(t, filepath.Join(r.Dir(), "d/file"))
		// And by the agent's own hand, in between.
		if err := errors.Join(os.RemoveAll(filepath.Join(r.Dir(), "src")), os.Symlink(outside, filepath.Join(r.Dir(), "src"))); err != nil {
			t.Fatal(err)
		}
		_ = r.Checkout(t.Context(), "link") // it may refuse
		absent(t, filepath.Join(outside, "b.go"))
	})
}
