package cli_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// editor changes a file that is committed and makes one in a folder.
const editor = `turns:
  - when: {turn: 1}
    text: I edit.
    calls:
      - name: bash
        input: {command: "printf 'one\nTWO\nthree\n' > list.txt && mkdir -p sub && echo made > sub/made.txt && cat draft.txt && ! test -e .env && git log --oneline | wc -l"}
  - when: {turn: 2, results: {contains: "draft"}}
    text: Edited.
  - when: {turn: 2}
    error: {class: invalid, message: "the copy lacks what was not committed"}
`

// checkout is a person's repository, with agents elsewhere, and a home of its own.
type checkout struct {
	t          *testing.T
	dir, other string
	env        []string
}

func newCheckout(t *testing.T) checkout {
	t.Helper()
	c := checkout{t: t, dir: filepath.Join(t.TempDir(), "my project"), other: t.TempDir()}
	agent := strings.Replace(agent("editor", "bash"), "mode: host", "mode: auto", 1)
	for name, text := range map[string]string{"agents/editor.prompt": agent, "scripts/editor.yaml": editor, "agents/broken.prompt": agents["agents/broken.prompt"], "scripts/broken.yaml": agents["scripts/broken.yaml"]} {
		putFile(t, filepath.Join(c.other, name), text)
	}
	home := t.TempDir()
	putFile(t, filepath.Join(home, ".gitconfig"), "[user]\n\tname = A Person\n\temail = person@example.com\n[init]\n\tdefaultBranch = main\n")
	c.env = []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "INSPAN_EMPTY=false", "INSPAN_AGENTS=" + filepath.Join(c.other, "agents"),
		"INSPAN_SCRIPTS=" + filepath.Join(c.other, "scripts"), "INSPAN_ACCEPT_LAZY_FSYNC=true", "INSPAN_NATS_URL="}
	putFile(t, filepath.Join(c.dir, "list.txt"), "one\ntwo\nthree\n")
	putFile(t, filepath.Join(c.dir, "deep", "x.txt"), "x")
	putFile(t, filepath.Join(c.dir, ".gitignore"), "*.log\n")
	git(t, c.dir, "init", "-q", "-b", "main")
	git(t, c.dir, "config", "user.name", "A Person")
	git(t, c.dir, "config", "user.email", "person@example.com")
	git(t, c.dir, "add", "-A")
	git(t, c.dir, "commit", "-q", "-m", "first")
	putFile(t, filepath.Join(c.dir, "draft.txt"), "draft\n")
	putFile(t, filepath.Join(c.dir, ".env"), "TOKEN=hunter2\n")
	putFile(t, filepath.Join(c.dir, "x.log"), "log\n")
	return c
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// do runs the program in the checkout.
func (c checkout) do(code int, words []string, args ...string) said {
	c.t.Helper()
	return c.in(c.dir, code, words, args...)
}

func (c checkout) in(dir string, code int, words []string, args ...string) said {
	c.t.Helper()
	s := process(c.t, dir, c.env, args...)
	if s.code != code {
		c.t.Fatalf("inspan %s: exit %d, want %d\n%s%s", strings.Join(args, " "), s.code, code, s.out, s.err)
	}
	for _, w := range words {
		if !strings.Contains(s.out+s.err, w) {
			c.t.Errorf("inspan %s does not say %q:\n%s%s", strings.Join(args, " "), w, s.out, s.err)
		}
	}
	return s
}

// digest is of all that is in the checkout, .git included.
func (c checkout) digest() string {
	c.t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			sum.Write(b)
			return err
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func (c checkout) file(name, want string) {
	c.t.Helper()
	if got, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || string(got) != want {
		c.t.Errorf("%s is %q, want %q (%v)", name, got, want, err)
	}
}

const edited = "one\nTWO\nthree\n"

func TestWorkOnCopy(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 a run in a repository works on a copy of it, which is merged back once it was asked for", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		before := c.digest()
		c.in(filepath.Join(c.dir, "deep"), 0, []string{"Works on a copy of " + c.dir + " at ", " plus 1 changed file; branch inspan/r1; get it with: inspan merge r1", ".env"}, "run", "editor", "edit", "--id", "r1")
		if c.digest() != before {
			t.Error("the run changed the person's repository")
		}
		diff := c.do(0, []string{"+TWO", "sub/made.txt"}, "diff", "r1")
		if strings.Contains(diff.out, "draft") || strings.Contains(diff.out, "hunter2") {
			t.Error(diff.out)
		}
		var out struct{ Paths []string }
		if err := json.Unmarshal([]byte(c.do(0, nil, "diff", "r1", "--json").out), &out); err != nil || len(out.Paths) != 2 {
			t.Errorf("%+v %v", out, err)
		}
		if c.digest() != before {
			t.Error("inspan diff changed the person's repository")
		}
		head := git(t, c.dir, "rev-parse", "HEAD")
		c.do(0, []string{"2 files changed, nothing committed"}, "merge", "r1")
		if now := git(t, c.dir, "rev-parse", "HEAD"); now != head {
			t.Errorf("the person's uncommitted changes were committed: HEAD was %s, is %s", head, now)
		}
		c.file("list.txt", edited)
		c.file("sub/made.txt", "made\n")
		c.file("draft.txt", "draft\n")
		c.do(1, []string{"nothing was changed", "same places"}, "merge", "r1", "--squash")
		c.do(1, []string{"nothing was changed", "same places"}, "merge", "r1")
	})
	t.Run("PLUS-11 changes that the run did not begin with are not mixed with it", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		git(t, c.dir, "add", "draft.txt")
		git(t, c.dir, "commit", "-q", "-m", "draft")
		c.do(0, []string{" at "}, "run", "editor", "edit", "--id", "r1")
		putFile(t, filepath.Join(c.dir, "list.txt"), "one\ntwo\nthree\nfour\n")
		c.do(1, []string{"nothing was merged", "inspan/r1 is here now", "inspan merge r1 --squash"}, "merge", "r1")
		c.file("list.txt", "one\ntwo\nthree\nfour\n")
	})
	t.Run("PLUS-11 a branch moves on, is merged where both sides have commits, and is not where they are in conflict", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		git(t, c.dir, "add", "draft.txt")
		git(t, c.dir, "commit", "-q", "-m", "draft")
		mark := filepath.Join(c.other, "ran")
		for _, name := range []string{"post-merge", "pre-merge-commit", "post-checkout", "reference-transaction", "commit-msg", "prepare-commit-msg"} {
			putFile(t, filepath.Join(c.dir, ".git", "hooks", name), "#!/bin/sh\ntouch "+mark+"\n")
			if err := os.Chmod(filepath.Join(c.dir, ".git", "hooks", name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c.do(0, []string{" at "}, "run", "editor", "edit", "--id", "r1")
		gitQuiet := func(args ...string) string {
			return git(t, c.dir, append([]string{"-c", "core.hooksPath=/dev/null"}, args...)...)
		}
		gitQuiet("branch", "next")
		gitQuiet("branch", "clash")
		c.do(0, []string{"main moved on to inspan/r1"}, "merge", "r1")
		c.file("list.txt", edited)
		c.do(0, []string{"main has all of inspan/r1 already"}, "merge", "r1")
		gitQuiet("checkout", "-q", "next")
		putFile(t, filepath.Join(c.dir, "other.txt"), "other\n")
		gitQuiet("add", "other.txt")
		gitQuiet("commit", "-q", "-m", "other")
		gitQuiet("checkout", "-q", "main")
		c.do(0, []string{"inspan/r1 merged into next"}, "merge", "r1", "--into", "next")
		if got := gitQuiet("show", "next:list.txt") + gitQuiet("show", "next:other.txt"); got != edited+"other\n" {
			t.Errorf("next has %q", got)
		}
		gitQuiet("checkout", "-q", "clash")
		putFile(t, filepath.Join(c.dir, "list.txt"), "one\nzwei\nthree\n")
		gitQuiet("commit", "-q", "-a", "-m", "clash")
		at := gitQuiet("rev-parse", "HEAD") + gitQuiet("status", "--porcelain")
		c.do(1, []string{"nothing was merged", "list.txt", "git merge inspan/r1"}, "merge", "r1")
		if now := gitQuiet("rev-parse", "HEAD") + gitQuiet("status", "--porcelain"); now != at {
			t.Errorf("a conflict changed %q to %q", at, now)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Error("a hook of the repository ran")
		}
	})
	t.Run("PLUS-11 what a run made before it failed is kept, and what is no copy says so", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		c.do(1, []string{"Works on a copy"}, "run", "broken", "edit", "--id", "r1")
		c.do(0, []string{"changed no file"}, "merge", "r1")
		c.do(2, []string{"--empty", "leave one of them out"}, "run", "editor", "edit", "--empty", "--repo", ".")
		c.do(2, []string{"what is checked out there"}, "run", "editor", "edit", "--repo", ".", "--branch", "main")
		c.do(2, []string{"no such file"}, "run", "editor", "edit", "--repo", filepath.Join(t.TempDir(), "none"))
		c.do(2, []string{"want a file below"}, "run", "editor", "edit", "--with", "/etc/passwd")
		if s := c.do(1, nil, "run", "broken", "edit", "--empty"); strings.Contains(s.err, "copy") {
			t.Error(s.err)
		}
		if s := c.in(t.TempDir(), 1, nil, "run", "broken", "edit"); strings.Contains(s.err, "copy") {
			t.Error(s.err)
		}
	})
}

func TestCopyAtStation(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	putFile(t, filepath.Join(c.dir, ".git", "info", "exclude"), ".inspan\n")
	up := upIn(t, c.dir, "--port", "0", "--agents", filepath.Join(c.other, "agents"), "--scripts", filepath.Join(c.other, "scripts"))
	t.Run("PLUS-11 a station of this directory works on a copy too, and what it made is there after kill -9", func(t *testing.T) {
		git(t, c.dir, "add", "draft.txt")
		git(t, c.dir, "commit", "-q", "-m", "draft")
		c.do(0, []string{"Works on a copy of " + c.dir}, "run", "editor", "edit", "--id", "r1")
		up.kill()
		c.do(0, []string{"main moved on to inspan/r1", "No station runs"}, "merge", "r1")
		c.file("list.txt", edited)
	})
}
