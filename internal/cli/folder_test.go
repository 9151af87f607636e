package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// odd works on files that are not plain text with plain names.
const odd = `turns:
  - when: {turn: 1}
    text: I work.
    calls:
      - name: bash
        input: {command: "set -e; printf 'a\\r\\nB\\r\\n' > crlf.txt; printf 'x\\000z' > data.bin; echo two > 'a file'; printf two > $'line\\nbreak'; rm gone.txt; ! test -e .env; ! test -e .inspan; ! test -e id_rsa; echo all-well"}
  - when: {turn: 2, results: {contains: "all-well"}}
    text: Done.
  - when: {turn: 2}
    error: {class: invalid, message: "the copy is not as it should be"}
`

// oddFiles are what it works on, before and after.
var oddFiles = map[string][2]string{"crlf.txt": {"a\r\nb\r\n", "a\r\nB\r\n"}, "data.bin": {"x\x00y", "x\x00z"}, "a file": {"one\n", "two\n"},
	"line\nbreak": {"one", "two"}, "gone.txt": {"x\n", ""}, "same": {"same\n", "same\n"}}

// oddCheckout has them, in a repository or not.
func oddCheckout(t *testing.T, repository bool) checkout {
	t.Helper()
	c := newCheckout(t)
	putFile(t, filepath.Join(c.other, "agents", "odd.prompt"), strings.Replace(agent("odd", "bash"), "mode: host", "mode: auto", 1))
	putFile(t, filepath.Join(c.other, "scripts", "odd.yaml"), odd)
	c.dir = filepath.Join(t.TempDir(), "plain folder")
	for name, text := range oddFiles {
		putFile(t, filepath.Join(c.dir, name), text[0])
	}
	if repository {
		git(t, c.dir, "init", "-q", "-b", "main")
		git(t, c.dir, "config", "user.name", "A Person")
		git(t, c.dir, "config", "user.email", "person@example.com")
		git(t, c.dir, "add", "-A")
		git(t, c.dir, "commit", "-q", "-m", "first")
	}
	putFile(t, filepath.Join(c.dir, ".env"), "TOKEN=hunter2\n")
	putFile(t, filepath.Join(c.dir, "id_rsa"), "hunter2\n")
	putFile(t, filepath.Join(c.dir, ".inspan", "notes"), "hunter2\n")
	putFile(t, filepath.Join(c.dir, ".gitignore"), "*.log\nbuild/\n")
	putFile(t, filepath.Join(c.dir, "build", "out.log"), "hunter2\n")
	return c
}

// odd compares the files with what they are to be: before 0, after 1.
func (c checkout) odd(when int) {
	c.t.Helper()
	for name, text := range oddFiles {
		got, err := os.ReadFile(filepath.Join(c.dir, name))
		if gone := name == "gone.txt" && when == 1; gone != os.IsNotExist(err) || string(got) != text[when] {
			c.t.Errorf("%q is %q, want %q (%v)", name, got, text[when], err)
		}
	}
}

// holds reports whether a file below a folder has a text.
func holds(t *testing.T, dir, text string) (at string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			at = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestFolderCopy(t *testing.T) {
	t.Parallel()
	for name, repository := range map[string]bool{"a repository": true, "a folder that is in no repository": false} {
		t.Run("PLUS-11 line ends, binary files and odd names come back as they are in "+name+", and secrets and ignored files stay", func(t *testing.T) {
			t.Parallel()
			c := oddCheckout(t, repository)
			s := c.do(0, []string{"Works on a copy of " + c.dir, ".env", "id_rsa"}, "run", "odd", "work", "--id", "r1")
			if strings.Contains(s.err, "no git repository") == repository {
				t.Error(s.err)
			}
			c.odd(0)
			store := filepath.Join(strings.TrimPrefix(c.env[1], "XDG_STATE_HOME="), "inspan", "runs", "r1")
			if at := holds(t, store, "hunter2"); at != "" {
				t.Errorf("a secret is in %s", at)
			}
			diff := c.do(0, []string{"crlf.txt"}, "diff", "r1")
			if strings.Contains(diff.out, "hunter2") || strings.Contains(diff.out, "out.log") {
				t.Error(diff.out)
			}
			c.in(c.dir, 0, []string{"5 files changed"}, "merge", "last", "--squash")
			c.odd(1)
			c.file(".env", "TOKEN=hunter2\n")
			c.file("build/out.log", "hunter2\n")
			putFile(t, filepath.Join(c.dir, "same"), "mine\n")
			c.do(0, []string{"5 files changed back"}, "undo", "last")
			c.file("same", "mine\n")
			putFile(t, filepath.Join(c.dir, "same"), "same\n")
			c.odd(0)
			c.do(0, []string{"0 files changed back", "5 files as before the run already"}, "undo", "last")
			c.odd(0)
			c.do(0, nil, "merge", "last", "--squash")
			putFile(t, filepath.Join(c.dir, "a file"), "mine\n")
			before := c.digest()
			c.do(1, []string{"nothing was changed", "a file", "inspan undo r1 --force"}, "undo", "r1")
			if c.digest() != before {
				t.Error("the files were changed")
			}
			forced := c.do(0, nil, "undo", "r1", "--force", "--json")
			var r struct {
				Undone struct{ Back, Overwritten []string }
			}
			if err := json.Unmarshal([]byte(forced.out), &r); err != nil || len(r.Undone.Back) != 5 || !slices.Equal(r.Undone.Overwritten, []string{"a file"}) {
				t.Error(forced.out, err)
			}
			c.odd(0)
		})
	}
	t.Run("PLUS-11 a folder that changed meanwhile is not changed by halves", func(t *testing.T) {
		t.Parallel()
		c := oddCheckout(t, false)
		c.do(0, nil, "run", "odd", "work", "--id", "r1")
		putFile(t, filepath.Join(c.dir, "a file"), "mine\n")
		before := c.digest()
		c.do(1, []string{"nothing was changed", "a file"}, "merge", "r1")
		if c.digest() != before {
			t.Error("the folder was changed")
		}
		putFile(t, filepath.Join(c.dir, "a file"), "one\n")
		c.in(t.TempDir(), 0, []string{"5 files changed"}, "merge", "r1")
		c.odd(1)
	})
	t.Run("PLUS-11 a folder that is too large, and a home, are not copied", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		c.dir = filepath.Join(t.TempDir(), "large")
		putFile(t, filepath.Join(c.dir, "disk.img"), "")
		if err := os.Truncate(filepath.Join(c.dir, "disk.img"), 5<<30); err != nil {
			t.Fatal(err)
		}
		c.do(2, []string{"64 MiB", "disk.img", "go to the folder of the project", "--empty"}, "run", "editor", "edit")
		putFile(t, filepath.Join(c.dir, ".gitignore"), "*.img\n")
		c.do(1, []string{"Works on a copy"}, "run", "broken", "edit")
		home := strings.TrimPrefix(c.env[0], "HOME=")
		putFile(t, filepath.Join(home, "letter"), "x")
		if s := c.in(home, 1, nil, "run", "broken", "edit"); strings.Contains(s.err, "copy") {
			t.Error(s.err)
		}
		many := filepath.Join(t.TempDir(), "many")
		for i := range 5001 {
			putFile(t, filepath.Join(many, fmt.Sprint(i)), "")
		}
		c.in(many, 2, []string{"5000 files"}, "run", "editor", "edit")
	})
	t.Run("PLUS-11 a rebase that is not finished is named, and nothing is merged into it; files of Git LFS are named", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		git(t, c.dir, "add", "draft.txt")
		git(t, c.dir, "commit", "-q", "-m", "draft")
		if err := os.MkdirAll(filepath.Join(c.dir, ".git", "rebase-merge"), 0o755); err != nil {
			t.Fatal(err)
		}
		putFile(t, filepath.Join(c.dir, ".gitattributes"), "# filter=lfs\n")
		if s := c.do(0, []string{"A rebase is not finished there"}, "run", "editor", "edit", "--id", "r1"); strings.Contains(s.err, "LFS") {
			t.Error(s.err)
		}
		c.do(1, []string{"nothing was merged", "a rebase is not finished", "git rebase --abort"}, "merge", "r1")
		c.file("list.txt", "one\ntwo\nthree\n")
		putFile(t, filepath.Join(c.dir, ".gitattributes"), "*.psd filter=lfs diff=lfs -text\n")
		c.do(0, []string{"Git LFS are pointers"}, "run", "editor", "edit", "--id", "r2")
	})
}
