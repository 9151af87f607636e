package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/pkg/run"
)

// refused is a script whose model refuses the key in its second turn.
const refused = `turns:
  - when: {turn: 1}
    text: I write.
    calls:
      - {name: bash, input: {command: "echo made > made.txt"}}
  - when: {turn: 2}
    error: {class: CLASS, message: "not with this key"}
`

const failing = `error: {class: CLASS, message: "not with this key"}`

func TestGoOnWithKeptRun(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	script := func(name, text string) { putFile(t, filepath.Join(c.other, "scripts", name+".yaml"), text) }
	asks := strings.Replace(agent("asks", "bash"), "mode: host", "mode: auto", 1)
	putFile(t, filepath.Join(c.other, "agents", "asks.prompt"), strings.Replace(asks, "harness:", "permissions:\n  bash: ask\nharness:", 1))
	script("asks", strings.Replace(refused, failing, "text: Asked.", 1))
	script("editor", strings.Replace(refused, "CLASS", "auth", 1))

	t.Run("PLUS-13 a run whose own station has stopped goes on from its pause with inspan resume alone, from any directory", func(t *testing.T) {
		s := c.do(3, []string{"not with this key", "nothing is lost. Go on with: inspan resume away"}, "run", "editor", "do it", "--id", "away")
		if strings.Contains(s.err, "inspan up") {
			t.Errorf("it asks for a second terminal:\n%s", s.err)
		}
		script("editor", strings.Replace(refused, failing, "text: It is made.", 1))
		s = c.in(c.other, 0, []string{"Resumed.", "It is made."}, "resume", "away")
		if strings.Contains(s.out, "run created") {
			t.Errorf("what was seen before is printed again:\n%s", s.out)
		}
		c.do(0, []string{"made.txt"}, "diff", "away", "--stat")
		c.do(4, []string{"completed"}, "resume", "away")
	})
	t.Run("PLUS-13 while another terminal has the station of the run, a second one says so and changes nothing", func(t *testing.T) {
		script("editor", "turns:\n  - calls: [{name: bash, input: {command: sleep 600, timeout_ms: 600000}}]\n")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		first := exec.Command(self, "run", "editor", "do it", "--id", "busy")
		first.Dir, first.Env = c.dir, append(append(os.Environ(), cliVar+"=1"), c.env...)
		out, err := first.StdoutPipe()
		if err == nil {
			err = first.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "sleep 600"); {
		}
		c.do(1, []string{"busy is under way in another terminal"}, "resume", "busy")
		c.do(1, []string{"busy is under way in another terminal"}, "why", "busy")
		if err := first.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = first.Wait() // it was killed
		c.do(0, []string{"inspan resume busy goes on"}, "why", "busy")
	})
	t.Run("PLUS-13 GATE-6 a gate of such a run is answered with inspan approve alone, and a reject keeps it waiting", func(t *testing.T) {
		c.do(3, []string{"inspan approve gated", "inspan reject gated"}, "run", "asks", "do it", "--id", "gated")
		c.do(0, []string{"is rejected", "is paused", "Go on with: inspan resume gated"}, "reject", "gated", "--reason", "not now")
		c.do(0, []string{"paused"}, "why", "gated")
		c.do(3, []string{"inspan approve again"}, "run", "asks", "do it", "--id", "again")
		c.do(0, []string{"is approved", "Asked."}, "approve", "again")
	})
	t.Run("PLUS-13 PLUS-11 a failed run in place is retried in the directory itself, with the files as they are", func(t *testing.T) {
		sandboxtest.Need(t, bwrap.New("", "")) // it keeps .git read-only
		script("editor", strings.Replace(refused, "CLASS", "invalid", 1))
		c.do(1, []string{"not with this key"}, "run", "editor", "do it", "--in-place", "--id", "here")
		c.file("made.txt", "made\n")
		script("editor", strings.Replace(refused, failing, "text: I look.\n    calls:\n      - {name: bash, input: "+
			`{command: "cat made.txt && echo more >> made.txt && echo x > .git/evil"}}`+"\n  - when: {turn: 3}\n    text: It is looked at.", 1))
		c.do(3, []string{"Retried here as here-retry", "the same workspace", "changes git from within", "inspan approve here-retry"}, "retry", "here")
		c.do(0, []string{"is approved", "It is looked at."}, "approve", "here-retry")
		c.file("made.txt", "made\nmore\n")
		if _, err := os.Stat(filepath.Join(c.dir, ".git", "evil")); err == nil {
			t.Error("the retry writes below .git")
		}
		c.do(0, nil, "undo", "here", "--force")
		if _, err := os.Stat(filepath.Join(c.dir, "made.txt")); err == nil {
			t.Error("made.txt is there after the undo")
		}
	})
	t.Run("PLUS-13 a failed run on a copy is retried without the files that went with it, and its retry is merged by its own id", func(t *testing.T) {
		script("editor", strings.Replace(refused, "CLASS", "invalid", 1))
		c.do(1, []string{"not with this key"}, "run", "editor", "do it", "--id", "bad")
		script("editor", strings.Replace(refused, failing, "text: I write again.\n    calls:\n      - {name: bash, input: "+
			`{command: "ls; echo again > made.txt"}}`+"\n  - when: {turn: 3}\n    text: It is made.", 1))
		c.do(4, []string{"files_lost", "ephemeral", "inspan retry bad --without-files"}, "retry", "bad")
		c.do(5, nil, "inspect", "bad-retry")
		c.do(0, []string{"Retried bad as bad-retry", "in a new workspace", "It is made."}, "retry", "bad", "--without-files")
		s := decode[run.State](t, c.do(0, nil, "inspect", "bad-retry", "--json").out)
		if len(s.Messages) == 0 || !strings.Contains(s.Messages[0].Text, "new") {
			t.Errorf("the agent is not informed: %+v", s.Messages)
		}
		c.do(0, []string{"bad-retry", "completed"}, "retry", "bad")
		c.do(0, []string{"1 file changed"}, "merge", "bad-retry", "--squash")
		c.file("made.txt", "again\n")
		c.do(1, []string{"no NATS server"}, "merge", "bad-retry-x")
	})
}

func TestRefusedCopyLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	putFile(t, filepath.Join(c.dir, "large.bin"), "")
	if err := os.Truncate(filepath.Join(c.dir, "large.bin"), 65<<20); err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-11 a directory that is too large for a copy, and for an undo, is refused, and no store is left of the run", func(t *testing.T) {
		c.do(1, []string{"too large", ".gitignore", "large.bin"}, "run", "editor", "do it", "--id", "one")
		if bwrap.New("", "").Probe(t.Context()) == nil { // without it, --in-place is refused before the files are looked at
			c.do(2, []string{"too large", "large.bin"}, "run", "editor", "do it", "--in-place", "--id", "two")
		}
		for _, e := range c.env {
			if state, ok := strings.CutPrefix(e, "XDG_STATE_HOME="); ok {
				if left, err := os.ReadDir(filepath.Join(state, "inspan", "runs")); err == nil && len(left) > 0 {
					t.Errorf("stores are left: %v", left)
				}
			}
		}
	})
}

func TestKeptAndStopped(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.chatter()
	asks := strings.Replace(agent("asks", "bash"), "mode: host", "mode: auto", 1)
	putFile(t, filepath.Join(c.other, "agents", "asks.prompt"), strings.Replace(asks, "harness:", "permissions:\n  bash: ask\nharness:", 1))
	mine := filepath.Join(c.other, "mine")
	putFile(t, filepath.Join(mine, "asks.yaml"), strings.Replace(refused, failing, "text: By its own script.", 1))
	t.Run("PLUS-13 CLI-2 beside a store whose station has stopped, a run that was kept is the last one, its gate is listed, and it goes on as it was started", func(t *testing.T) {
		c.typed("make one\n", []string{"Made."}, "repl", "chatter", "--session", "talk")
		c.do(3, []string{"Go on with: inspan approve held"}, "run", "asks", "do it", "--id", "held", "--scripts", mine)
		c.do(0, []string{"held/g-", "bash"}, "gates")
		c.do(0, []string{"waits"}, "why", "last")
		c.do(0, []string{"By its own script."}, "approve", "last")
		c.do(0, []string{"No gate waits"}, "gates")
		c.typed("make two\n", []string{"Made."}, "repl", "chatter", "--session", "talk")
		c.do(0, []string{"branch inspan/talk"}, "inspect", "last")
		c.do(1, []string{"inspan up"}, "resume", "last") // it is in the store of the station
	})
}
