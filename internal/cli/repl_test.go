package cli_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/pkg/client"
)

// cliVar has this test binary be the program; exitVar names a file for its exit code.
const (
	cliVar  = "INSPAN_TEST_CLI"
	exitVar = "INSPAN_TEST_EXIT"
)

// program is what cmd/inspan does, but for its exit code.
func program() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	code := cli.MainAlone(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if path := os.Getenv(exitVar); path != "" {
		if err := os.WriteFile(path, []byte(strconv.Itoa(code)), 0o600); err != nil {
			panic(err)
		}
	}
}

// talker remembers, works slowly, and asks for leave to run a command.
const talker = `turns:
  - when: {message: {contains: "who am I"}, history: {contains: "I am Ada"}}
    thinking: The name was told before.
    text: You are Ada.
    usage: {input: 40, output: 5}
  - when: {message: {contains: "who am I"}}
    text: I do not know you.
  - when: {message: {contains: "take long"}}
    text: Never said.
    delay: 60s
  - when: {message: {contains: "say it back"}}
    text: "got <{{task}}>"
  - when: {turn: 1, message: {contains: "run it"}}
    text: I run it.
    calls:
      - {name: bash, input: {command: "echo ran > ran.txt; echo done"}}
  - when: {message: {contains: "run it"}, results: {contains: "done"}}
    text: It ran.
  - when: {message: {contains: "run it"}}
    text: It was not permitted.
  - when: {message: {contains: "mark it"}}
    text: "# Plan\nUse **two** steps: \x60make\x60 it.\n- see [docs](https://x.y)\n\x60\x60\x60sh\nls *\n\x60\x60\x60\nend\n"
  - when: {message: {contains: "Sum up this conversation"}}
    text: "They said: I am Ada."
  - text: Hello Ada.
`

// gated is a talker whose gates have terms.
func gated(name, terms string) string {
	return "---\nname: " + name + "\nversion: 1\nmodel: scripted/talker\ntools: [bash]\npermissions: {bash: {\"*\": ask}}\n" +
		"harness: {enabled: true, timeout: 2m, gates: " + terms + "}\nsandbox: {mode: host, network: true}\n---\nTalk.\n"
}

func talkDesk(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/talker.prompt":  "---\nname: talker\nversion: 1\nmodel: scripted/talker\ntools: [bash, read]\npermissions: {bash: {\"*\": ask}}\nharness: {enabled: true, timeout: 2m, max_steps: 7}\nsandbox: {mode: host, network: true}\n---\nTalk.\n",
		"scripts/talker.yaml":   talker,
		"agents/hasty.prompt":   gated("hasty", "{expires: 1s}"),
		"agents/several.prompt": gated("several", "{approvers: 2}"),
	} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return d.up()
}

// piped runs the program with an input that is no terminal.
func (d *desk) piped(input string, args ...string) said {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Minute)
	defer cancel()
	var out, errOut buffer
	code := cli.MainAlone(ctx, append(args, "--server", d.station.URL()), strings.NewReader(input), &out, &errOut)
	return said{code, out.String(), errOut.String()}
}

func TestReplPiped(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	holds := func(s said, code int, words ...string) {
		t.Helper()
		if s.code != code {
			t.Fatalf("exit %d, want %d\n%s%s", s.code, code, s.out, s.err)
		}
		for _, w := range words {
			if !strings.Contains(s.out+s.err, w) {
				t.Errorf("%q is not said:\n%s%s", w, s.out, s.err)
			}
		}
	}
	t.Run("SESS-11 SESS-12 SESS-15 another process goes on where the first one ended", func(t *testing.T) {
		holds(d.piped("I am Ada\n", "repl", "talker", "--session", "s1"), 0, "Hello Ada.")
		holds(d.piped("who am I?\n", "repl", "talker", "--session", "s1"), 0, "You are Ada.")
		holds(d.piped("who am I?\n", "repl", "talker", "--session", "other"), 0, "I do not know you.")
	})
	t.Run("SESS-17 what is typed reaches the model as it was typed", func(t *testing.T) {
		holds(d.piped("say it back\n", "repl", "talker", "--session", "typed"), 0, "got <say it back>\n")
	})
	t.Run("SESS-17 LOOP-9 /compact goes on from a summary in place of the conversation", func(t *testing.T) {
		s := d.piped("/compact\nI am Ada\n/compact keep names\n/history\nwho am I?\n", "repl", "talker", "--session", "short")
		holds(s, 0, "nothing to sum up yet", "in place of 4 messages", "You are Ada.")
		_, after, _ := strings.Cut(s.out, "in place of")
		if strings.Contains(after, "Hello Ada.") || strings.Contains(after, "The person adds: keep names") || !strings.Contains(after, "They said: I am Ada.") {
			t.Errorf("the history is\n%s", after)
		}
	})
	t.Run("SESS-16 over a pipe Markdown is as the model wrote it", func(t *testing.T) {
		holds(d.piped("mark it\n", "repl", "talker", "--session", "marked"), 0, "# Plan\n", "Use **two** steps: `make` it.\n", "- see [docs](https://x.y)\n", "```sh\n", "ls *\n")
	})
	t.Run("TEST-12c SESS-17 the commands of the conversation", func(t *testing.T) {
		file := filepath.Join(d.dir, "talk.md")
		s := d.piped("/help\n/tools\n/history\n/save\n/export "+file+"\n/load other\n/history\n/clear\n/history\n/exit\nnever\n", "repl", "talker", "--session", "s1")
		holds(s, 0, "/export", "bash", "› I am Ada", "You are Ada.", "4 messages in session s1", "4 messages written to", "I do not know you.", "forgotten", "has no messages yet")
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "You are Ada.") {
			t.Errorf("%v:\n%s", err, b)
		}
		holds(d.piped("/clear\nwho am I?\n", "repl", "talker", "--session", "s1"), 0, "I do not know you.")
	})
	t.Run("SESS-17 what is wrong is told with what to do", func(t *testing.T) {
		holds(d.piped("/histroy\n", "repl", "talker", "--session", "s1"), 2, "did you mean /history?")
		holds(d.piped("/load nowhere\n", "repl", "talker", "--session", "s1"), 5, "inspan session list")
		holds(d.piped("/load\n", "repl", "talker", "--session", "s1"), 2, "/load SESSION")
		holds(d.piped("", "repl", "talkr"), 5, `did you mean "talker"?`)
		holds(d.piped("", "repl", "talker", "--session", "a b"), 2, "session")
	})
	t.Run("GATE-5 over a pipe the next line answers a gate", func(t *testing.T) {
		holds(d.piped("run it\ny\n", "repl", "talker", "--session", "s2"), 0, "I run it.", "It ran.")
		holds(d.piped("run it\n", "repl", "talker", "--session", "s3"), 0, "waits for a person: inspan gates")
	})
}

// terminal is the program at a terminal of its own.
type terminal struct {
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	seen buffer
	done chan error
}

func (d *desk) terminal(args ...string) *terminal {
	d.t.Helper()
	return d.terminalOf(pty.Winsize{Rows: 40, Cols: 100}, nil, args...)
}

// terminalOf is one of a size, with more in its environment.
func (d *desk) terminalOf(size pty.Winsize, env []string, args ...string) *terminal {
	d.t.Helper()
	return d.terminalIn("", size, env, args...)
}

// terminalIn is one in a folder.
func (d *desk) terminalIn(dir string, size pty.Winsize, env []string, args ...string) *terminal {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	if d.station != nil {
		args = append(args, "--server", d.station.URL())
	}
	tm := &terminal{t: d.t, cmd: exec.CommandContext(d.t.Context(), self, args...), done: make(chan error, 1)}
	tm.cmd.Dir = dir
	tm.cmd.Env = append(append(os.Environ(), cliVar+"=1", "TERM=xterm-256color", "XDG_CONFIG_HOME="+d.t.TempDir()), env...)
	if tm.pty, err = pty.StartWithSize(tm.cmd, &size); err != nil {
		d.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for b := make([]byte, 4096); ; {
			n, err := tm.pty.Read(b)
			_, _ = tm.seen.Write(b[:n]) // never fails
			if err != nil {
				return // the other end is closed
			}
		}
	}()
	go func() {
		err := tm.cmd.Wait()
		<-read
		tm.done <- err
	}()
	d.t.Cleanup(func() { _ = tm.pty.Close() })
	return tm
}

// sees waits for words that come after what was seen before, and returns where they end.
func (tm *terminal) sees(from int, words string) int {
	tm.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(5 * time.Minute)
	for {
		text := ansi.Strip(tm.seen.String())
		if i := strings.Index(text[min(from, len(text)):], words); i >= 0 {
			return from + i + len(words)
		}
		select {
		case <-tick.C:
		case <-limit:
			tm.t.Fatalf("%q was not seen behind %d:\n%s", words, from, text)
		}
	}
}

// shows reports whether words came after what was seen before.
func (tm *terminal) shows(from int, words string) bool {
	text := ansi.Strip(tm.seen.String())
	return strings.Contains(text[min(from, len(text)):], words)
}

func (tm *terminal) types(text string) {
	tm.t.Helper()
	if _, err := tm.pty.WriteString(text); err != nil {
		tm.t.Fatal(err)
	}
}

func TestReplTerminal(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	tm := d.terminal("repl", "talker", "--session", "day")
	t.Run("SESS-16 the banner shows agent, session, steps and tokens", func(t *testing.T) {
		at := tm.sees(0, "talker")
		at = tm.sees(at, "session day")
		tm.sees(at, "0 of 7 steps used")
	})
	at := tm.sees(0, "› ")
	t.Run("SESS-16 a turn shows its number and the text as it comes", func(t *testing.T) {
		tm.types("I am Ada\r")
		at = tm.sees(at, "step 1/7")
		at = tm.sees(at, "Hello Ada.")
		at = tm.sees(at, "✓ 1 step")
		at = tm.sees(at, "› ")
	})
	t.Run("SESS-16 the reasoning is shown", func(t *testing.T) {
		tm.types("who am I?\r")
		at = tm.sees(at, "The name was told before.")
		at = tm.sees(at, "You are Ada.")
		at = tm.sees(at, "› ")
	})
	t.Run("SESS-16 Markdown of an answer is shown as what it means, as it comes", func(t *testing.T) {
		tm.types("mark it\r")
		at = tm.sees(at, "Use two steps: make it.")
		at = tm.sees(at, "› ")
		for _, want := range []string{"\x1b[1mPlan\x1b[0m", "\x1b[1mtwo\x1b[0m", "\x1b[36mmake\x1b[0m", "  • see docs \x1b[2m(https://x.y)\x1b[0m", "\x1b[36m  ls *\x1b[0m"} {
			if !strings.Contains(tm.seen.String(), want) {
				t.Errorf("no %q in %q", want, tm.seen.String())
			}
		}
	})
	t.Run("SESS-17 Ctrl+C stops the task and not the session", func(t *testing.T) {
		tm.types("take long\r")
		at = tm.sees(at, "thinking")
		tm.types("\x03")
		at = tm.sees(at, "stopping")
		at = tm.sees(at, "✗")
		at = tm.sees(at, "› ")
	})
	t.Run("GATE-5 a gate is answered inline, and the call has a line", func(t *testing.T) {
		tm.types("run it\r")
		at = tm.sees(at, "Approve?")
		tm.types("d\r")
		at = tm.sees(at, "proposal_hash")
		tm.types("y\r")
		at = tm.sees(at, "✓ bash echo ran")
		at = tm.sees(at, "It ran.")
		at = tm.sees(at, "› ")
	})
	t.Run("GATE-5 a gate that somebody else answers is asked no more", func(t *testing.T) {
		tm.types("run it\r")
		at = tm.sees(at, "Approve?")
		const elsewhere = "answered elsewhere"
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(5 * time.Minute); !tm.shows(at, elsewhere) && time.Now().Before(end); <-tick.C {
			// The list may still show a gate of before and not yet this one.
			for _, g := range decode[[]client.Waiting](t, d.do("gates", "--json").out) {
				d.do("approve", g.Run.HarnessID+"/"+g.Gate.ID)
			}
		}
		at = tm.sees(at, elsewhere)
		at = tm.sees(at, "It ran.")
		at = tm.sees(at, "› ")
	})
	t.Run("SESS-17 Tab completes a command and Ctrl+C at an empty prompt leaves", func(t *testing.T) {
		tm.types("/his\t\r")
		at = tm.sees(at, "› I am Ada")
		at = tm.sees(at, "› ")
		tm.types("\x03")
		tm.sees(at, "The session stays")
		select {
		case err := <-tm.done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Minute):
			t.Error("the program did not end")
		}
	})
}

func TestReplGates(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	t.Run("SAFE-10 a gate that no one answers in time is asked no more; a person lets the paused run go on", func(t *testing.T) {
		tm := d.terminal("repl", "hasty", "--session", "late")
		at := tm.sees(0, "› ")
		tm.types("run it\r")
		at = tm.sees(at, "Approve?")
		at = tm.sees(at, "paused")
		at = tm.sees(at, "[g]o on")
		tm.types("g\r")
		at = tm.sees(at, "It was not permitted.")
		at = tm.sees(at, "› ")
		tm.types("hello\r")
		tm.sees(at, "Hello Ada.")
	})
	t.Run("SAFE-10 a person whose yes does not count is told so, is not asked again, and the run waits for others", func(t *testing.T) {
		tm := d.terminal("repl", "several", "--session", "many")
		at := tm.sees(0, "› ")
		tm.types("run it\r")
		at = tm.sees(at, "Approve?")
		tm.types("y\r")
		at = tm.sees(at, "waits at the gate")
		tm.types("\x03")
		at = tm.sees(at, "stopping")
		at = tm.sees(at, "✗")
		at = tm.sees(at, "› ")
		tm.types("hello\r")
		tm.sees(at, "Hello Ada.")
	})
	t.Run("SAFE-10 where the input ends while a run is paused it is left so", func(t *testing.T) {
		s := d.piped("run it\nn\nno\n", "repl", "talker", "--session", "ends")
		if strings.Contains(s.err, "EOF") || !strings.Contains(s.out, "inspan resume") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	})
}
