package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// placed changes files, and tries everything that must not work in the directory of a person. Each attempt that succeeds
// writes its number.
const placed = `turns:
  - when: {turn: 1}
    text: I edit.
    calls:
      - name: bash
        input: {command: "printf 'one\nTWO\nthree\n' > list.txt && mkdir -p sub && echo made > sub/made.txt && rm deep/x.txt && cat draft.txt"}
      - name: bash
        input:
          command: |
            echo '#!/bin/sh' > .git/hooks/pre-commit && echo BROKE 1
            echo '[core]' >> .git/config && echo BROKE 2
            ln -s .git/hooks way && echo x > way/pre-commit && echo BROKE 3
            mv .git away && echo BROKE 4
            git config core.fsmonitor ./evil && echo BROKE 5
            mkdir .git/new && echo BROKE 6
            git commit -q --allow-empty -m evil && echo BROKE 7
            cat .env && echo BROKE 8
            ls .inspan && echo BROKE 9
            echo x > .inspan/config.yaml && echo BROKE 10
            mkdir -p .inspan/commands && echo BROKE 11
            ln .git/config hard && echo x >> hard && echo BROKE 12
            cat secret/id_rsa && echo BROKE 13
            rm way; rm hard
            true
      - name: write
        input: {path: .git/hooks/pre-commit, content: "#!/bin/sh\n"}
      - name: write
        input: {path: .git/config, content: "[core]\n\tfsmonitor = evil\n"}
      - name: read
        input: {path: .env}
      - name: read
        input: {path: deep/../.env}
      - name: grep
        input: {pattern: 'hunte[r]'}
  - when: {turn: 2, results: {contains: "draft"}}
    text: Edited.
  - when: {turn: 2}
    error: {class: invalid, message: "the directory lacks what was not committed"}
`

// newPlace is a checkout whose agent works in it, on a machine with a sandbox that keeps .git read-only.
func newPlace(t *testing.T) checkout {
	t.Helper()
	sandboxtest.Need(t, bwrap.New("", ""))
	return placeAnywhere(t)
}

// placeAnywhere is the same on any machine: what is refused there is refused before a sandbox is looked for.
func placeAnywhere(t *testing.T) checkout {
	t.Helper()
	c := newCheckout(t)
	prompt := strings.Replace(agent("placed", "bash, write, read, grep"), "mode: host", "mode: auto", 1)
	putFile(t, filepath.Join(c.other, "agents", "placed.prompt"), prompt)
	putFile(t, filepath.Join(c.other, "scripts", "placed.yaml"), placed)
	putFile(t, filepath.Join(c.dir, "secret", "id_rsa"), "hunter2\n")
	return c
}

func TestInPlace(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 a run in place changes the files, and neither .git nor what holds secrets is open to it", func(t *testing.T) {
		t.Parallel()
		c := newPlace(t)
		guarded := func() string {
			return git(t, c.dir, "config", "--list", "--local") + git(t, c.dir, "rev-parse", "HEAD") + git(t, c.dir, "status", "--porcelain", "--", ".gitignore")
		}
		before := guarded()
		s := c.in(filepath.Join(c.dir, "deep"), 0, []string{"Works in " + c.dir + " itself", "inspan undo p1", ".env"}, "run", "placed", "edit", "--in-place", "--id", "p1", "--yes")
		if strings.Contains(s.out+s.err, "hunter2") {
			t.Errorf("a secret was shown:\n%s", s.out+s.err)
		}
		log := c.do(0, nil, "logs", "p1", "--json")
		for _, bad := range []string{"BROKE", "hunter2"} {
			if i := strings.Index(withoutCommands(log.out), bad); i >= 0 {
				t.Errorf("the log has %s: %.300s", bad, withoutCommands(log.out)[max(0, i-150):])
			}
		}
		if guarded() != before {
			t.Errorf("the repository was changed: %s, was %s", guarded(), before)
		}
		for _, name := range []string{".git/hooks/pre-commit", "way", "hard", ".inspan"} {
			if _, err := os.Lstat(filepath.Join(c.dir, name)); err == nil {
				t.Errorf("%s is there", name)
			}
		}
		c.file("list.txt", edited)
		c.file("sub/made.txt", "made\n")
		c.file(".env", "TOKEN=hunter2\n")
		diff := c.do(0, []string{"+TWO", "sub/made.txt", "deep/x.txt"}, "diff", "p1")
		if strings.Contains(diff.out, "hunter2") || strings.Contains(diff.out, "draft") {
			t.Error(diff.out)
		}
		c.do(0, []string{"3 files changed back"}, "undo", "last")
		c.file("list.txt", "one\ntwo\nthree\n")
		c.file("deep/x.txt", "x")
		c.file("draft.txt", "draft\n")
		c.file(".env", "TOKEN=hunter2\n")
		c.file("x.log", "log\n")
		c.file("secret/id_rsa", "hunter2\n")
		if _, err := os.Lstat(filepath.Join(c.dir, "sub")); err == nil {
			t.Error("sub is still there")
		}
	})
}

func TestInPlaceFolder(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 in a directory without a repository nobody can make one, and an undo removes no file that was ignored before", func(t *testing.T) {
		t.Parallel()
		c := newPlace(t)
		if err := os.RemoveAll(filepath.Join(c.dir, ".git")); err != nil {
			t.Fatal(err)
		}
		putFile(t, filepath.Join(c.other, "scripts", "placed.yaml"), `turns:
  - when: {turn: 1}
    text: I edit.
    calls:
      - name: bash
        input: {command: "echo evil > '.inspan'/x; git init -q . && echo BROKE 1; mkdir -p .git/hooks && echo BROKE 2; mkdir .inspan/commands && echo BROKE 3; true"}
      - name: bash
        input: {command: "echo new > new.txt; printf '' > .gitignore; printf 'a\\000b' > bin; printf 'one\\r\\ntwo\\r\\n' > crlf.txt; echo x > 'a b'; echo x > \"$(printf 'l1\\nl2')\""}
  - when: {turn: 2}
    text: Edited.
`)
		putFile(t, filepath.Join(c.dir, "bin"), "x\x00y\xff")
		putFile(t, filepath.Join(c.dir, "crlf.txt"), "one\r\n")
		c.do(0, []string{"Works in " + c.dir + " itself"}, "run", "placed", "edit", "--in-place", "--id", "p1", "--yes")
		if log := withoutCommands(c.do(0, nil, "logs", "p1", "--json").out); strings.Contains(log, "BROKE") {
			t.Errorf("something went through:\n%s", log)
		}
		c.file("new.txt", "new\n")
		c.file("l1\nl2", "x\n")
		putFile(t, filepath.Join(c.dir, "mine.txt"), "mine\n")
		c.do(0, []string{"6 files changed back"}, "undo", "p1")
		c.file("bin", "x\x00y\xff")
		c.file("crlf.txt", "one\r\n")
		c.file(".gitignore", "*.log\n")
		c.file("x.log", "log\n")
		c.file("mine.txt", "mine\n")
		for _, gone := range []string{".git", ".inspan", "new.txt", "a b", "l1\nl2"} {
			if _, err := os.Lstat(filepath.Join(c.dir, gone)); err == nil {
				t.Errorf("%q is there", gone)
			}
		}
	})
}

func TestInPlaceRefused(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 a sandbox that cannot keep .git read-only is refused", func(t *testing.T) {
		t.Parallel()
		c := placeAnywhere(t)
		before := c.digest()
		c.do(4, []string{"the sandbox host", "cannot keep .git read-only", "bwrap"}, "run", "placed", "edit", "--in-place", "--sandbox", "host")
		prompt := strings.Replace(agent("placed", "bash"), "mode: host", "mode: landlock", 1)
		putFile(t, filepath.Join(c.other, "agents", "placed.prompt"), prompt)
		c.do(4, []string{"the sandbox landlock", "cannot keep .git read-only"}, "run", "placed", "edit", "--in-place")
		if c.digest() != before {
			t.Error("a refused run changed the directory")
		}
	})
	t.Run("PLUS-11 a rebase that is not finished is named", func(t *testing.T) {
		t.Parallel()
		c := newPlace(t)
		if err := os.Mkdir(filepath.Join(c.dir, ".git", "rebase-merge"), 0o755); err != nil {
			t.Fatal(err)
		}
		c.do(2, []string{"a rebase is not finished", "git rebase --abort"}, "run", "placed", "edit", "--in-place")
	})
	t.Run("PLUS-11 one run in place works in a directory, and undo lets the next one in where it was left", func(t *testing.T) {
		t.Parallel()
		c := newPlace(t)
		c.do(3, []string{"waits for a person"}, "run", "placed", "edit", "--in-place", "--id", "p1")
		c.do(4, []string{"run p1 works in " + c.dir + " already", "inspan undo p1"}, "run", "placed", "edit", "--in-place", "--id", "p2")
		c.do(1, []string{"was not seen", "--force"}, "undo", "p1")
		c.do(0, []string{"changed back"}, "undo", "p1", "--force")
		c.file("list.txt", "one\ntwo\nthree\n")
		c.do(0, nil, "run", "placed", "edit", "--in-place", "--id", "p2", "--yes")
		c.file("list.txt", edited)
	})
	t.Run("PLUS-11 without a project there is nothing to work in", func(t *testing.T) {
		t.Parallel()
		c := placeAnywhere(t)
		c.in(t.TempDir(), 2, []string{"no project here"}, "run", "placed", "edit", "--in-place")
	})
}

func TestReplInPlace(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-11 SESS-17 a conversation works in the directory itself, and /undo takes its inputs back, the last one first", func(t *testing.T) {
		t.Parallel()
		c := newPlace(t)
		putFile(t, filepath.Join(c.other, "scripts", "placed.yaml"), `turns:
  - when: {turn: 1, message: {contains: "write one"}}
    text: I write.
    calls: [{name: bash, input: {command: "echo 1 > one.txt; ls -A .inspan; cat .inspan/*; echo x > .inspan/trap"}}]
  - when: {turn: 1, message: {contains: "write two"}}
    text: I write.
    calls: [{name: bash, input: {command: "cat one.txt && echo 2 > two.txt && echo 2 >> one.txt"}}]
  - text: Written.
`)
		store := []string{"--store", filepath.Join(c.dir, ".inspan"), "--trust", "--session", "s1", "--in-place"}
		talk := func(code int, input string, words ...string) {
			t.Helper()
			s := processWith(t, c.dir, c.env, strings.NewReader(input), append([]string{"repl", "placed"}, store...)...)
			for _, w := range words {
				if !strings.Contains(s.out+s.err, w) {
					t.Errorf("%q is not shown", w)
				}
			}
			if s.code != code || t.Failed() {
				t.Fatalf("exit %d\n%s%s", s.code, s.out, s.err)
			}
		}
		talk(0, "write one\nwrite two\n/undo\n/export\n", "Written.", "2 files changed back", "written to s1.md")
		c.file("one.txt", "1\n")
		if _, err := os.Lstat(filepath.Join(c.dir, "two.txt")); err == nil {
			t.Error("two.txt is there")
		}
		if _, err := os.Lstat(filepath.Join(c.dir, ".inspan", "trap")); err == nil {
			t.Error("the store of the station was written")
		}
		if text, err := os.ReadFile(filepath.Join(c.dir, "s1.md")); err != nil || !strings.Contains(string(text), "write two") {
			t.Errorf("%s %v", text, err)
		}
		talk(0, "/undo\n", "1 file changed back")
		if _, err := os.Lstat(filepath.Join(c.dir, "one.txt")); err == nil {
			t.Error("one.txt is there")
		}
		talk(2, "/undo\n", "no input of the session s1 to take back")
		talk(2, "/merge\n", "nothing to merge")
	})
}

// withoutCommands leaves the arguments of calls out of a log: they name what was tried.
func withoutCommands(log string) string {
	var keep []string
	for line := range strings.SplitSeq(log, "\n") {
		if strings.Contains(line, "call.finished") || strings.Contains(line, "call.failed") || strings.Contains(line, "artifact") {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "\n")
}
