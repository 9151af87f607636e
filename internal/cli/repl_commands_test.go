package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// TestReplCommands has a person at a terminal in a repository of theirs.
func TestReplCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/worker.prompt": agent("worker", "bash"),
		"scripts/worker.yaml": `turns:
  - when: {turn: 1, message: {contains: "edit it"}}
    text: I edit.
    usage: {input: 1200, output: 30}
    calls:
      - {name: bash, input: {command: "printf 'one\\nTWO\\n' > list.txt; seq 1 40"}}
  - when: {message: {contains: "edit it"}}
    text: Edited.
    usage: {input: 1500, output: 20}
  - when: {message: {contains: "first input"}}
    text: "first <{{task}}>"
  - text: "later"
`,
	} {
		putFile(t, filepath.Join(d.dir, name), text)
	}
	d.up()
	c := newCheckout(t)
	putFile(t, filepath.Join(c.dir, "big.txt"), strings.Repeat("0123456789abcdef\n", 4000))
	putFile(t, filepath.Join(c.dir, ".inspan", "commands", "greet.md"), "Hello $ARGUMENTS, first input.")
	config := t.TempDir()
	putFile(t, filepath.Join(config, "inspan", "commands", "mine.md"), "# Do it\n\nedit it $ARGUMENTS")
	env := append(c.env, "XDG_CONFIG_HOME="+config, "INSPAN_AGENTS=", "INSPAN_SCRIPTS=", "SHELL=/bin/sh")
	begin := func(t *testing.T, session string) (*terminal, int) {
		t.Helper()
		tm := d.terminalIn(c.dir, pty.Winsize{Rows: 50, Cols: 120}, env, "repl", "worker", "--session", session)
		tm.t = t
		return tm, tm.sees(0, "› ")
	}
	t.Run("SESS-17 a file is attached as data, and no secret, no ignored file and none from elsewhere", func(t *testing.T) {
		tm, at := begin(t, "files")
		tm.types("first input: see @draft.txt, @.env @x.log @../other @big.txt and @nobody\r")
		at = tm.sees(at, "@.env is not attached")
		at = tm.sees(at, "@x.log is not attached")
		at = tm.sees(at, "attached big.txt (its first 1445 lines of 68000 bytes)")
		at = tm.sees(at, "first <first input: see")
		at = tm.sees(at, "</file>")
		at = tm.sees(at, "› ")
		if text := tm.seen.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "nobody is not") {
			t.Errorf("what is secret was attached, or a word was taken for a file:\n%s", text)
		}
	})
	t.Run("SESS-17 commands of one's own and those of a project that was accepted", func(t *testing.T) {
		tm, at := begin(t, "own")
		if !tm.shows(0, "were not accepted and are left out") {
			t.Error("nothing is shown of the commands that were not accepted")
		}
		tm.types("/greet Ada\r")
		at = tm.sees(at, "there is no command /greet")
		at = tm.sees(at, "› ")
		tm.types("\x03")
		tm.sees(at, "The session stays")
		if s := process(t, c.dir, env, "trust"); s.code != 0 || !strings.Contains(s.out, "command /greet") {
			t.Fatalf("%d %s%s", s.code, s.out, s.err)
		}
		tm, at = begin(t, "own2")
		tm.types("/greet Ada\r")
		at = tm.sees(at, "first <Hello Ada, first input.>")
		at = tm.sees(at, "› ")
		tm.types("/mine\r")
		at = tm.sees(at, "Edited.")
		tm.sees(at, "› ")
	})
	t.Run("SESS-17 what a command printed goes with the next input, once", func(t *testing.T) {
		tm, at := begin(t, "shell")
		tm.types("!echo seen; exit 3\r")
		at = tm.sees(at, "exit status 3")
		at = tm.sees(at, "/drop leaves it out")
		at = tm.sees(at, "› ")
		tm.types("first input\r")
		at = tm.sees(at, `<command line="echo seen; exit 3" exit="3">`)
		at = tm.sees(at, "seen")
		at = tm.sees(at, "</command>")
		at = tm.sees(at, "› ")
		tm.types("!echo again\r")
		at = tm.sees(at, "/drop leaves it out")
		at = tm.sees(at, "› ")
		tm.types("/drop\r")
		at = tm.sees(at, "stays here")
		tm.sees(at, "› ")
	})
	t.Run("SESS-17 what was used, why, by whom, and once more", func(t *testing.T) {
		tm, at := begin(t, "look")
		for _, step := range [][]string{
			{"edit it", "Edited."}, {"/show", "1  bash"}, {"/show 1", "  40"}, {"/cost", "1 input, 2.70k tokens in"}, {"/context", "k tokens of a window"},
			{"/why", "completed"}, {"/permissions", "autonomy 3 of 5"}, {"/agents", "worker"}, {"/sessions", "look"},
			{"/model", "scripted/worker"}, {"/model scripted/reader", "from the next input on"}, {"/model scripted/worker", "from the next"},
			{"/retry", "Edited."}} {
			tm.types(step[0] + "\r")
			at = tm.sees(at, step[1])
			at = tm.sees(at, "› ")
		}
	})
	t.Run("SESS-17 Ctrl+R finds an input of another session, and a file is completed", func(t *testing.T) {
		tm, at := begin(t, "find")
		tm.types("\x12echo seen")
		at = tm.sees(at, "search 'echo seen'")
		tm.types("\x07see @dra\t")
		at = tm.sees(at, "@draft.txt")
		tm.types("\x03/stat\x7f\x7f\x7f\x7fmer\t\r")
		tm.sees(at, "has changed nothing yet")
	})
}
