package git_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

// person is somebody's repository on this machine.
type person struct {
	t   *testing.T
	dir string
}

func newPerson(t *testing.T, with ...string) person {
	t.Helper()
	p := person{t, t.TempDir()}
	p.git(append([]string{"init", "-q", "-b", "main"}, with...)...)
	p.git("config", "user.name", "A Person")
	p.git("config", "user.email", "person@example.com")
	return p
}

func (p person) git(args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "git", args...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p person) write(name, text string) {
	p.t.Helper()
	at := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p person) commit(name, text string) string {
	p.t.Helper()
	p.write(name, text)
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "add "+name)
	return p.git("rev-parse", "HEAD")
}

// digest is of everything below the directory: names, modes, times of change and contents, .git included.
func (p person) digest() string {
	p.t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime().UnixNano(), info.Size())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			sum.Write(b)
			return err
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// base takes the repository and clones what was taken, and makes sure that nothing of it changed.
func (p person) base(with ...string) (git.Base, string, error) {
	p.t.Helper()
	g, err := git.New(git.Config{Temp: p.t.TempDir()})
	if err != nil {
		p.t.Fatal(err)
	}
	before := p.digest()
	l, err := g.Local(p.t.Context(), p.dir)
	if err != nil {
		return git.Base{}, "", err
	}
	var pack bytes.Buffer
	b, err := l.Base(p.t.Context(), &pack, with, false, git.BaseLimits{Files: 50, Bytes: 1 << 20})
	if err != nil {
		return b, "", err
	}
	clone := filepath.Join(p.t.TempDir(), "clone")
	_, err = g.CloneBase(p.t.Context(), b, &pack, clone, nil)
	if after := p.digest(); after != before {
		p.t.Error("the person's repository changed")
	}
	return b, clone, err
}

func wantFile(t *testing.T, dir, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(got) != want {
		t.Errorf("%s is %q, want %q (%v)", name, got, want, err)
	}
}

func wantNone(t *testing.T, dir, name string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v)", name, err)
	}
}

func TestBase(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 a clone has what is committed, changed and new, and the person's repository stays as it is to the byte", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.commit(".gitignore", "build/\n*.log\n")
		p.commit("gone.txt", "gone")
		head := p.commit("a.txt", "one\n")
		p.write("a.txt", "two\n")
		p.write("new file\nwith a line.txt", "new")
		p.write("build/out", "built")
		p.write("x.log", "log")
		p.write(".env", "TOKEN=1")
		p.write("keys/server.pem", "key")
		p.write(".env.example", "TOKEN=")
		p.write("staged.txt", "staged")
		p.git("add", "staged.txt")
		if err := os.Remove(filepath.Join(p.dir, "gone.txt")); err != nil {
			t.Fatal(err)
		}
		b, clone, err := p.base()
		if err != nil {
			t.Fatal(err)
		}
		if b.Head != head || b.Commit == head || b.Branch != "main" || b.Changed != 5 || !slices.Equal(b.Secret, []string{".env", "keys/server.pem"}) {
			t.Errorf("got %+v", b)
		}
		wantFile(t, clone, "a.txt", "two\n")
		wantFile(t, clone, "new file\nwith a line.txt", "new")
		wantFile(t, clone, "staged.txt", "staged")
		wantFile(t, clone, ".env.example", "TOKEN=")
		for _, name := range []string{"gone.txt", "build", "x.log", ".env", "keys"} {
			wantNone(t, clone, name)
		}
		if text, err := os.ReadFile(filepath.Join(clone, ".git", "objects", "info", "alternates")); err != nil || string(text) != filepath.Join(p.dir, ".git", "objects")+"\n" {
			t.Errorf("it borrows of %q (%v)", text, err)
		}
	})
	t.Run("PLUS-11 without changes the clone is at the commit itself, and there is no pack", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		head := p.commit("a.txt", "one\n")
		b, clone, err := p.base()
		if err != nil || b.Commit != head || b.Pack || b.Changed != 0 {
			t.Fatalf("%+v %v", b, err)
		}
		wantFile(t, clone, "a.txt", "one\n")
	})
	t.Run("PLUS-11 a secret that is named is taken, one that was only staged is not, one that is committed stays as it is there", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.commit(".env", "old")
		p.write(".env", "changed")
		p.write("id_rsa", "private")
		p.write(".env.local", "local")
		p.git("add", "id_rsa")
		_, clone, err := p.base(".env.local")
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, clone, ".env", "old")
		wantFile(t, clone, ".env.local", "local")
		wantNone(t, clone, "id_rsa")
	})
	t.Run("PLUS-11 a detached head, a worktree and a directory below it are worked on", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.commit("sub/a.txt", "one")
		p.commit("sub/a.txt", "two")
		p.git("checkout", "-q", "--detach", "HEAD^")
		b, clone, err := p.base()
		if err != nil || b.Branch != "" {
			t.Fatalf("%+v %v", b, err)
		}
		wantFile(t, clone, "sub/a.txt", "one")
		tree := filepath.Join(t.TempDir(), "tree")
		p.git("worktree", "add", "-q", tree, "main")
		at := person{t, tree}
		at.write("sub/b.txt", "new")
		at.dir = filepath.Join(tree, "sub")
		b, clone, err = at.base()
		if err != nil || b.Branch != "main" || b.Root != tree {
			t.Fatalf("%+v %v", b, err)
		}
		wantFile(t, clone, "sub/a.txt", "two")
		wantFile(t, clone, "sub/b.txt", "new")
	})
	t.Run("PLUS-11 before the first commit the clone has the files", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.write("a.txt", "one")
		b, clone, err := p.base()
		if err != nil || b.Head != "" || b.Changed != 1 {
			t.Fatalf("%+v %v", b, err)
		}
		wantFile(t, clone, "a.txt", "one")
		if _, _, err := newPerson(t).base(); err != nil {
			t.Errorf("an empty repository: %v", err)
		}
	})
}

func TestBaseHostile(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 no hook, filter, monitor or attribute of the repository runs a program", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		mark := filepath.Join(t.TempDir(), "ran")
		p.commit("a.bin", "one")
		p.commit(".gitattributes", "*.bin filter=evil diff=evil merge=evil\n")
		for _, key := range []string{"filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "diff.evil.textconv", "diff.external", "core.sshCommand", "core.pager", "core.editor"} {
			p.git("config", key, "touch '"+mark+"'; cat")
		}
		for _, name := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"} {
			p.write(".git/hooks/"+name, "#!/bin/sh\ntouch '"+mark+"'\n")
			if err := os.Chmod(filepath.Join(p.dir, ".git", "hooks", name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p.write("a.bin", "two")
		p.write("b.bin", "new")
		if err := os.RemoveAll(mark); err != nil {
			t.Fatal(err)
		}
		_, clone, err := p.base()
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, clone, "a.bin", "two")
		wantFile(t, clone, "b.bin", "new")
		wantNone(t, filepath.Dir(mark), "ran")
	})
	t.Run("PLUS-11 links are taken as links, and pipes and repositories in the tree are left out", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.commit("a.txt", "one")
		if err := errors.Join(os.Symlink("/etc/passwd", filepath.Join(p.dir, "out")), syscall.Mkfifo(filepath.Join(p.dir, "pipe"), 0o600)); err != nil {
			t.Fatal(err)
		}
		inner := person{t, filepath.Join(p.dir, "inner")}
		p.write("inner/b.txt", "b")
		inner.git("init", "-q")
		b, clone, err := p.base()
		if err != nil || !slices.Equal(b.Nested, []string{"inner"}) {
			t.Fatalf("%+v %v", b, err)
		}
		if to, err := os.Readlink(filepath.Join(clone, "out")); err != nil || to != "/etc/passwd" {
			t.Errorf("link to %q (%v)", to, err)
		}
		wantNone(t, clone, "pipe")
		wantNone(t, clone, "inner/b.txt")
	})
	t.Run("PLUS-11 files in conflict, a bare repository, no repository and too much that is not committed are refused with what to do", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.commit("a.txt", "base\n")
		p.git("checkout", "-q", "-b", "other")
		p.commit("a.txt", "theirs\n")
		p.git("checkout", "-q", "main")
		p.commit("a.txt", "ours\n")
		_ = exec.CommandContext(t.Context(), "git", "-C", p.dir, "merge", "other").Run() // it ends in a conflict
		if _, _, err := p.base(); !errors.Is(err, git.ErrUnderway) {
			t.Errorf("conflict: %v", err)
		}
		p.write("a.txt", "settled\n")
		p.git("add", "a.txt")
		if _, clone, err := p.base(); err != nil {
			t.Errorf("in a merge that is settled: %v", err)
		} else {
			wantFile(t, clone, "a.txt", "settled\n")
		}
		bare := person{t, t.TempDir()}
		bare.git("init", "-q", "--bare")
		if _, _, err := bare.base(); !errors.Is(err, git.ErrBare) {
			t.Errorf("bare: %v", err)
		}
		if _, _, err := (person{t, filepath.Join(p.dir, ".git")}).base(); !errors.Is(err, git.ErrBare) {
			t.Errorf("in .git: %v", err)
		}
		if _, _, err := (person{t, t.TempDir()}).base(); !errors.Is(err, git.ErrNotRepository) {
			t.Errorf("none: %v", err)
		}
		for i := range 60 {
			p.write(fmt.Sprintf("node_modules/%d.js", i), "x")
		}
		if _, _, err := p.base(); !errors.Is(err, git.ErrTooLarge) || !strings.Contains(err.Error(), ".gitignore") {
			t.Errorf("many files: %v", err)
		}
	})
	t.Run("PLUS-11 a configuration that names another working tree is refused", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.commit("a.txt", "one")
		p.git("config", "core.worktree", t.TempDir())
		if _, _, err := p.base(); !errors.Is(err, git.ErrHostile) {
			t.Error(err)
		}
	})
	t.Run("PLUS-11 submodules stay empty, and line ends and ignored files are those of the person's settings", func(t *testing.T) {
		t.Parallel()
		other := newPerson(t)
		other.commit("lib.txt", "lib")
		p := newPerson(t)
		p.commit("a.txt", "one\n")
		p.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.dir, "lib")
		p.git("commit", "-q", "-m", "a submodule")
		p.git("config", "core.autocrlf", "false") // of many the last one counts
		p.git("config", "--add", "core.autocrlf", "yes")
		ignore := filepath.Join(t.TempDir(), "ignore")
		if err := os.WriteFile(ignore, []byte("*.tmp\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		p.git("config", "core.excludesFile", ignore)
		p.write("a.txt", "two\r\n")
		p.write("x.tmp", "x")
		b, clone, err := p.base()
		if err != nil || b.Changed != 1 {
			t.Fatalf("%+v %v", b, err)
		}
		wantFile(t, clone, "a.txt", "two\n")
		wantNone(t, clone, "lib/lib.txt")
		wantNone(t, clone, "x.tmp")
	})
	t.Run("PLUS-11 a clone that borrows itself and a shallow one are worked on", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		p.commit("a.txt", "one")
		p.commit("a.txt", "two")
		shared, shallow := person{t, filepath.Join(t.TempDir(), "c")}, person{t, filepath.Join(t.TempDir(), "c")}
		p.git("clone", "-q", "--shared", p.dir, shared.dir)
		p.git("clone", "-q", "--depth", "1", "file://"+p.dir, shallow.dir)
		shallow.write("b.txt", "b")
		for name, one := range map[string]person{"shared": shared, "shallow": shallow} {
			b, clone, err := one.base()
			if err != nil || (b.Objects == "") != (name == "shared") {
				t.Fatalf("%s: %+v %v", name, b, err)
			}
			wantFile(t, clone, "a.txt", "two")
		}
	})
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{".env": true, "a/.env.local": true, "prod.env": true, "x/ID_RSA": true, "server.key": true, ".ssh/config": true, "a/.aws/x": true, "credentials.json": true,
		".env.example": false, "env.go": false, "keys.go": false, "id_rsa.pub": false, "environment": false, "docs/credentials.md": false} {
		if got := git.Secret(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
