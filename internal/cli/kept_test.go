package cli_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// chatter works on what it is asked for, one file after the other.
const chatter = `turns:
  - when: {turn: 1, message: {contains: "one"}}
    text: I begin.
    calls:
      - {name: bash, input: {command: "cat draft.txt && ! test -e .env && echo 1 > one.txt"}}
  - when: {turn: 1, message: {contains: "two"}}
    text: I go on.
    calls:
      - {name: bash, input: {command: "cat one.txt && echo 2 > two.txt"}}
  - when: {turn: 1, message: {contains: "three"}}
    text: And on.
    calls:
      - {name: bash, input: {command: "cat two.txt && echo 3 > three.txt"}}
  - text: Made.
    usage: {input: 700, output: 3}
`

func (c checkout) chatter() {
	putFile(c.t, filepath.Join(c.other, "agents", "chatter.prompt"), strings.Replace(agent("chatter", "bash"), "mode: host", "mode: auto", 1))
	putFile(c.t, filepath.Join(c.other, "scripts", "chatter.yaml"), chatter)
	putFile(c.t, filepath.Join(c.dir, ".git", "info", "exclude"), ".inspan\n")
}

// type types lines into a command that reads them from a pipe.
func (c checkout) typed(lines string, words []string, args ...string) {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), self, args...)
	cmd.Dir, cmd.Stdin = c.dir, strings.NewReader(lines)
	cmd.Env = append(append(os.Environ(), cliVar+"=1", exitVar+"=", "XDG_CONFIG_HOME="+c.t.TempDir()), c.env...)
	out, err := cmd.CombinedOutput()
	for _, w := range words {
		if err != nil || !strings.Contains(string(out), w) {
			c.t.Fatalf("inspan %s: %v, want %q in\n%s", strings.Join(args, " "), err, w, out)
		}
	}
}

func TestReplOnCopy(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.chatter()
	before := git(t, c.dir, "status", "--porcelain")
	t.Run("PLUS-11 a conversation in a repository works on one copy of it, in each input and in the next process", func(t *testing.T) {
		c.typed("make one\nmake two\n", []string{"Works on a copy of " + c.dir, "branch inspan/talk", "inspan merge talk"}, "repl", "chatter", "--session", "talk")
		c.typed("make three\n", []string{"Made."}, "repl", "chatter", "--session", "talk")
		if now := git(t, c.dir, "status", "--porcelain"); now != before {
			t.Errorf("the conversation changed the repository: %s", now)
		}
		diff := c.do(0, []string{"one.txt", "two.txt", "three.txt"}, "diff", "talk")
		if strings.Contains(diff.out, "draft") {
			t.Error(diff.out)
		}
		c.do(0, []string{"3 files changed, nothing committed"}, "merge", "talk", "--squash")
		c.file("three.txt", "3\n")
		c.file("draft.txt", "draft\n")
	})
	t.Run("PLUS-11 a run of that session goes on in its copy, and --empty begins without one", func(t *testing.T) {
		c.do(0, nil, "run", "chatter", "make two", "--session", "talk", "--store", ".inspan", "--id", "again")
		c.do(0, []string{"two.txt"}, "diff", "talk", "--stat")
		c.typed("hello\n", []string{"Made."}, "repl", "chatter", "--session", "bare", "--empty")
		c.do(5, nil, "merge", "bare")
	})
}

func TestReplBrings(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.chatter()
	t.Run("SESS-17 PLUS-14 a conversation that changed nothing says so, and how full the window was at the last request of the model", func(t *testing.T) {
		c.typed("hello\n/context\n/diff\n/merge\n", []string{"703 tokens of", "the session has changed nothing", "Nothing to merge: session idle changed no file"}, "repl", "chatter", "--session", "idle")
	})
	t.Run("SESS-17 PLUS-14 a conversation shows what it changed, and brings it", func(t *testing.T) {
		c.typed("make one\n/diff\n/merge\n", []string{"+++ b/one.txt", "1 file changed, nothing committed"}, "repl", "chatter", "--session", "home")
		c.file("one.txt", "1\n")
		c.file("draft.txt", "draft\n")
		c.typed("/undo\n", nil, "repl", "chatter", "--session", "home")
		if _, err := os.Stat(filepath.Join(c.dir, "one.txt")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after /undo: %v", err)
		}
		c.file("draft.txt", "draft\n")
	})
}

func TestKeptStores(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	runs := filepath.Join(strings.TrimPrefix(c.env[1], "XDG_STATE_HOME="), "inspan", "runs")
	kept := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(runs)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	age := func(run string) {
		t.Helper()
		bases, err := filepath.Glob(filepath.Join(runs, run, "workspace", ".local", "*", "base.json"))
		if err != nil || len(bases) != 1 {
			t.Fatalf("%v %v", bases, err)
		}
		old := time.Now().Add(-60 * 24 * time.Hour)
		if err := os.Chtimes(bases[0], old, old); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("CLI-5 last is the newest run on a copy of this repository, and a part of an id is enough", func(t *testing.T) {
		c.do(0, nil, "run", "editor", "edit", "--id", "run-first1")
		other := newCheckout(t)
		other.env = c.env
		c.in(other.dir, 0, nil, "run", "editor", "edit", "--id", "run-other2")
		c.do(0, []string{"+TWO"}, "diff", "last")
		c.do(0, []string{"+TWO"}, "diff", "first1")
		c.do(0, []string{"2 files changed"}, "merge", "last", "--squash")
		c.file("list.txt", edited)
		c.do(1, nil, "run", "broken", "edit", "--id", "run-none3")
		list := c.do(0, []string{"run-first1", "completed", "kept, merged", "run-none3", "failed"}, "runs")
		if strings.Contains(list.out, "run-other2") {
			t.Errorf("CLI-7 the list has a run of another directory:\n%s", list.out)
		}
		c.do(0, []string{"run-first1", "run-other2", "kept, not merged"}, "runs", "--all")
		c.do(0, []string{`"harnessId": "run-first1"`, `"store": `, `"work": "taken"`}, "runs", "--status", "completed", "--json")
		if names := c.do(0, nil, "runs", "--all", "-o", "name").out; names != "run-none3\nrun-other2\nrun-first1\n" {
			t.Errorf("CLI-7 %q", names)
		}
	})
	t.Run("CLI-5 what was merged or is nothing is removed once it is old, and what was not is named and stays", func(t *testing.T) {
		for _, run := range []string{"run-first1", "run-other2", "run-none3"} {
			age(run)
		}
		c.do(0, []string{"would remove  run-first1", "would remove  run-none3", "not merged  run-other2", "inspan merge run-other2"}, "clean", "--dry-run")
		if got := kept(); len(got) != 3 {
			t.Errorf("%q are kept after a dry run", got)
		}
		git(t, c.dir, "checkout", "-q", "list.txt")
		c.do(0, nil, "run", "editor", "edit", "--id", "run-later4")
		if got := strings.Join(kept(), " "); got != "run-later4 run-other2" {
			t.Errorf("%q are kept", got)
		}
		c.do(0, []string{"0 stores of 2 runs"}, "clean", "--older-than", "0s", "--keep", "9")
		var out struct{ Removed, Unmerged []struct{ Run string } }
		if err := json.Unmarshal([]byte(c.do(0, nil, "clean", "--unmerged", "--json").out), &out); err != nil || len(out.Removed) != 1 || out.Removed[0].Run != "run-other2" {
			t.Errorf("%+v %v", out, err)
		}
		c.do(0, []string{"+TWO"}, "diff", "last")
	})
}
