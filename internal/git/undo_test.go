package git_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

const poem = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"

// undoing is a person's repository with the files as a run left them.
type undoing struct {
	person
	r    *git.Result
	base string
}

// newUndoing has a run that changes, adds and removes files, makes one executable, and puts a file in the place of a
// folder and the other way round.
func newUndoing(t *testing.T, with ...string) undoing {
	t.Helper()
	p := newPerson(t, with...)
	p.write("poem", poem)
	p.write("removed/deep/file", "x\n")
	p.write("folder/in", "in\n")
	p.write("flat", "flat\n")
	p.write("script", "#!/bin/sh\n")
	p.write("data", "a\x00b")
	p.write("kept", "kept\n")
	p.write("lines", "a\r\nb\r\n")
	if err := os.Symlink("poem", filepath.Join(p.dir, "link")); err != nil {
		t.Fatal(err)
	}
	base := p.commit("same", "same\n")
	p.git("checkout", "-q", "-b", "work")
	p.git("rm", "-q", "-r", "removed", "folder", "flat", "link")
	p.write("folder", "a file\n")
	p.write("flat/in", "a folder\n")
	p.write("poem", strings.Replace(poem, "two", "TWO", 1))
	p.write("data", "a\x00c")
	p.write("new/file", "new\n")
	p.write("lines", "a\nb\n")
	p.write("link", "a file\n")
	if err := os.Chmod(filepath.Join(p.dir, "script"), 0o755); err != nil {
		t.Fatal(err)
	}
	id := p.commit("kept", "changed\n")
	return undoing{p, resultOf(t, p, id), base}
}

// resultOf is the branch work of a repository, as a person reads it.
func resultOf(t *testing.T, p person, id string) *git.Result {
	t.Helper()
	at := filepath.Join(t.TempDir(), "pack")
	p.git("bundle", "create", "-q", at, "work")
	pack, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	g := must[*git.Git](t)(git.New(git.Config{Temp: t.TempDir()}))
	l := must[*git.Local](t)(g.Local(t.Context(), p.dir))
	r := must[*git.Result](t)(g.Result(t.Context(), l, bytes.NewReader(pack), git.Ref{Name: "work", ID: id}))
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// asBefore compares the working tree with what was committed before the run, but for some files.
func (u undoing) asBefore(but ...string) {
	u.t.Helper()
	u.git("add", "-A")
	var differ []string
	for _, p := range strings.Fields(u.git("diff", "--cached", "--name-only", "--no-renames", u.base)) {
		if !slices.Contains(but, p) {
			differ = append(differ, p)
		}
	}
	if len(differ) > 0 {
		u.t.Errorf("not as before the run: %v", differ)
	}
	if left, _ := filepath.Glob(filepath.Join(u.dir, "*", ".inspan-undo-*")); len(left) > 0 {
		u.t.Errorf("left behind: %v", left)
	}
}

func TestUndo(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 files, folders, links, modes and line ends become what they were, and once more changes nothing", func(t *testing.T) {
		t.Parallel()
		u := newUndoing(t)
		done, err := u.r.Undo(t.Context(), u.base, false)
		if err != nil || len(done.Back) == 0 || len(done.Already)+len(done.Overwritten) > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		u.asBefore()
		wantNone(t, u.dir, "new")
		before := u.digest()
		again, err := u.r.Undo(t.Context(), u.base, false)
		if err != nil || len(again.Back) > 0 || len(again.Already) != len(done.Back) || u.digest() != before {
			t.Errorf("%+v, %v", again, err)
		}
	})
	t.Run("PLUS-11 a repository whose ids are of SHA-256", func(t *testing.T) {
		t.Parallel()
		u := newUndoing(t, "--object-format=sha256")
		done, err := u.r.Undo(t.Context(), u.base, false)
		if err != nil || len(done.Back) == 0 || len(done.Already)+len(done.Overwritten) > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		u.asBefore()
	})
	t.Run("PLUS-11 broken off after any file, with a change of the person in one of them, it ends the same when it is done again", func(t *testing.T) {
		t.Parallel()
		u := newUndoing(t)
		mine := strings.Replace(poem, "nine", "mine", 1)
		for n := 0; ; n++ {
			u.git("reset", "-q", "--hard")
			u.write("poem", strings.Replace(mine, "two", "TWO", 1))
			all, err := u.r.UndoSome(t.Context(), u.base, n)
			if err != nil {
				t.Fatal(n, err)
			}
			if _, err := u.r.Undo(t.Context(), u.base, false); err != nil {
				t.Fatal(n, err)
			}
			wantFile(t, u.dir, "poem", mine)
			u.asBefore("poem")
			if all {
				break
			}
		}
	})
	t.Run("PLUS-11 files that were changed at the same places are named and nothing is changed; force makes them what they were", func(t *testing.T) {
		t.Parallel()
		u := newUndoing(t)
		u.write("poem", strings.Replace(poem, "two", "zwei", 1))
		u.write("data", "mine\x00")
		u.write("new/file", "mine\n")
		before := u.digest()
		_, err := u.r.Undo(t.Context(), u.base, false)
		c, ok := errors.AsType[*git.ChangedError](err)
		if !ok || !errors.Is(err, git.ErrConflict) || !slices.Equal(c.Paths, []string{"data", "new/file", "poem"}) || u.digest() != before {
			t.Fatalf("%v", err)
		}
		done, err := u.r.Undo(t.Context(), u.base, true)
		if err != nil || !slices.Equal(done.Overwritten, c.Paths) {
			t.Errorf("%+v, %v", done, err)
		}
		u.asBefore()
	})
	t.Run("SAFE-6 nothing is written or removed through a link that stands in the place of a folder since, not with force either", func(t *testing.T) {
		t.Parallel()
		u := newUndoing(t)
		outside := t.TempDir()
		if err := os.WriteFile(filepath.Join(outside, "file"), []byte("new\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"new", "removed"} {
			if err := errors.Join(os.RemoveAll(filepath.Join(u.dir, name)), os.Symlink(outside, filepath.Join(u.dir, name))); err != nil {
				t.Fatal(err)
			}
		}
		for _, force := range []bool{false, true} {
			_, err := u.r.Undo(t.Context(), u.base, force)
			if c, ok := errors.AsType[*git.ChangedError](err); !ok || !slices.Equal(c.Paths, []string{"removed/deep/file"}) {
				t.Errorf("force %v: %v", force, err)
			}
		}
		if err := os.Remove(filepath.Join(u.dir, "removed")); err != nil {
			t.Fatal(err)
		}
		if _, err := u.r.Undo(t.Context(), u.base, false); err != nil {
			t.Error(err)
		}
		wantFile(t, outside, "file", "new\n")
	})
	t.Run("SAFE-6 a path of a repository in what the run made is refused", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		base := p.commit("a", "a\n")
		blob := p.git("hash-object", "-w", "a")
		for _, name := range []string{".git", ".GIT", "git~1", ".g\u200cit"} {
			inner := p.git("hash-object", "-t", "tree", "-w", "--literally", treeFile(t, "100644 config", blob))
			top := p.git("hash-object", "-t", "tree", "-w", "--literally", treeFile(t, "40000 "+name, inner))
			id := p.git("commit-tree", top, "-p", base, "-m", "hostile")
			p.git("update-ref", "refs/heads/work", id)
			before, err := os.ReadFile(filepath.Join(p.dir, ".git", "config"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := resultOf(t, p, id).Undo(t.Context(), base, true); !errors.Is(err, git.ErrHostile) {
				t.Errorf("%q: %v", name, err)
			}
			wantFile(t, p.dir, ".git/config", string(before))
		}
	})
	t.Run("PLUS-11 lines that git ends otherwise in the working tree are changed back with these ends", func(t *testing.T) {
		t.Parallel()
		p := newPerson(t)
		base := p.commit("poem", poem)
		p.git("checkout", "-q", "-b", "work")
		id := p.commit("poem", strings.Replace(poem, "two", "TWO", 1))
		windows := strings.ReplaceAll(strings.Replace(poem, "nine", "mine", 1), "\n", "\r\n")
		p.write("poem", strings.Replace(windows, "two", "TWO", 1))
		if _, err := resultOf(t, p, id).Undo(t.Context(), base, false); err != nil {
			t.Fatal(err)
		}
		wantFile(t, p.dir, "poem", windows)
	})
}

// treeFile is a file with a tree of one entry, in the form that git stores.
func treeFile(t *testing.T, entry, id string) string {
	t.Helper()
	raw := must[[]byte](t)(hex.DecodeString(id))
	at := filepath.Join(t.TempDir(), "tree")
	if err := os.WriteFile(at, append([]byte(entry+"\x00"), raw...), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}
