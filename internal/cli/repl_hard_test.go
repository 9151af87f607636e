package cli_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
)

// again starts the station again where it was.
func (d *desk) again(listen string) {
	d.t.Helper()
	base, err := service.FromEnv()
	if err != nil {
		d.t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	d.station, err = station.Up(d.t.Context(), station.Config{Listen: listen, StoreDir: filepath.Join(d.dir, "store"), AgentsDir: filepath.Join(d.dir, "agents"),
		ScriptsDir: filepath.Join(d.dir, "scripts"), Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base})
	if err != nil {
		d.t.Fatal(err)
	}
}

// said returns what the person said in a session.
func (d *desk) received(session string) (all []string) {
	d.t.Helper()
	s := d.do("session", "history", session, "--json")
	if s.code != 0 {
		d.t.Fatal(s.err)
	}
	for _, m := range decode[client.Conversation](d.t, s.out).Messages {
		if m.Role == "user" {
			all = append(all, m.Content)
		}
	}
	return all
}

func (tm *terminal) ends() {
	tm.t.Helper()
	select {
	case err := <-tm.done:
		if err != nil {
			tm.t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		tm.t.Error("the program did not end")
	}
}

func (tm *terminal) resize(rows, cols uint16) {
	tm.t.Helper()
	if err := pty.Setsize(tm.pty, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		tm.t.Fatal(err)
	}
}

func TestReplAway(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	u, err := url.Parse(d.station.URL())
	if err != nil {
		t.Fatal(err)
	}
	tm := d.terminal("repl", "talker", "--session", "away")
	at := tm.sees(0, "› ")
	tm.types("hello\r")
	at = tm.sees(at, "Hello Ada.")
	at = tm.sees(at, "› ")
	if err := d.station.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("SESS-16 while the station is away an input waits, and Ctrl+C gives it up", func(t *testing.T) {
		tm.types("never sent\r")
		at = tm.sees(at, "is away, trying again")
		tm.types("\x03")
		at = tm.sees(at, "nothing was sent")
		at = tm.sees(at, "› ")
	})
	t.Run("SESS-16 when it is back the input that waited is worked on, and the conversation goes on", func(t *testing.T) {
		tm.types("who am I?\r")
		at = tm.sees(at, "is away, trying again")
		d.again(u.Host)
		at = tm.sees(at, "I do not know you.")
		at = tm.sees(at, "› ")
		tm.types("I am Ada\r")
		at = tm.sees(at, "Hello Ada.")
		at = tm.sees(at, "› ")
		if got := strings.Join(d.received("away"), "|"); got != "hello|who am I?|I am Ada" {
			t.Errorf("heard %s", got)
		}
	})
	t.Run("SESS-16 a run whose station goes away and comes back is shown to its end", func(t *testing.T) {
		tm.types("run it\r")
		at = tm.sees(at, "Approve?")
		if err := d.station.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.again(u.Host)
		tm.types("y\r")
		at = tm.sees(at, "It ran.")
		tm.sees(at, "› ")
	})
}

func TestReplTyping(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	tm := d.terminal("repl", "talker", "--session", "typing")
	at := tm.sees(0, "› ")
	// enters types an input and waits for the next prompt.
	enters := func(text string) {
		t.Helper()
		tm.types(text)
		at = tm.sees(at, "Hello Ada.")
		at = tm.sees(at, "› ")
	}
	long := strings.Repeat("0123456789", 2000)
	enters(long + "\r")
	enters("\x1b[200~one\r\ttwo\nthree\x1b[201~ four\r")
	enters("日本語 👩‍👩‍👧 x\x7f\x7f\x7fé\r")
	enters("ab\x04\x01\x04\r")
	enters("first\\\rsecond\r")
	enters("a\x03b\r")
	want := []string{long, "one\n\ttwo\nthree four", "日本語 é", "b", "first\nsecond", "b"}
	got := d.received("typing")
	for i, title := range []string{"SESS-16 a line of 20 kB arrives whole", "SESS-16 a paste of several lines is one input", "SESS-16 wide characters are erased one at a time",
		"SESS-17 Ctrl+D with text on the line does not leave", "SESS-16 a line that ends with a backslash goes on", "SESS-17 Ctrl+C with text on the line forgets it"} {
		t.Run(title, func(t *testing.T) {
			if len(got) <= i || got[i] != want[i] {
				t.Errorf("heard %.100q, want %.100q", got, want[i])
			}
		})
	}
	t.Run("SESS-17 Ctrl+C twice leaves a task that was stopped", func(t *testing.T) {
		tm.types("take long\r")
		at = tm.sees(at, "thinking")
		tm.types("\x03")
		at = tm.sees(at, "stopping")
		tm.types("\x03")
		tm.sees(at, "The session stays")
		tm.ends()
	})
}

func TestReplRefused(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	tm := d.terminal("repl", "talker", "--session", "full")
	at := tm.sees(0, "› ")
	t.Run("SESS-16 an input that is too large is refused with what to do, and the conversation goes on", func(t *testing.T) {
		s := d.piped(strings.Repeat("x", 2<<20)+"\n", "repl", "talker", "--session", "large")
		if s.code != 4 || !strings.Contains(s.err, "the limit is 65536") || !strings.Contains(s.err, "name the file") {
			t.Errorf("exit %d %s", s.code, s.err)
		}
		tm.types("\x1b[200~" + strings.Repeat("x", 70_000) + "\x1b[201~\r")
		at = tm.sees(at, "the limit is 65536")
		at = tm.sees(at, "› ")
	})
	t.Run("SESS-16 SAFE-14 a station that takes no more says so, and the same input is taken when it does again", func(t *testing.T) {
		limit := func(bytes int64) {
			t.Helper()
			err := d.station.Administer(t.Context(), func(c *jet.Conn) error {
				return c.Setup().Apply(t.Context(), d.station.Name(), jet.ApplyOptions{Limits: topology.Limits{InBytes: bytes}})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		limit(1 << 10)
		tm.types("\x1b[200~" + strings.Repeat("y", 5_000) + "\x1b[201~\r")
		at = tm.sees(at, "inspan: ")
		at = tm.sees(at, "full")
		at = tm.sees(at, "› ")
		limit(topology.DefaultInBytes)
		tm.types("\x1b[A\r")
		at = tm.sees(at, "Hello Ada.")
		tm.sees(at, "› ")
	})
}

func TestReplSizes(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	t.Run("SESS-16 20 columns: nothing is wider, and a resize in the middle draws the line anew", func(t *testing.T) {
		t.Parallel()
		tm := d.terminalOf(pty.Winsize{Rows: 10, Cols: 20}, nil, "repl", "talker", "--session", "narrow")
		at := tm.sees(0, "› ")
		tm.types("run it\r")
		at = tm.sees(at, "?/l: ")
		tm.types("y\r")
		at = tm.sees(at, "It ran.")
		at = tm.sees(at, "› ")
		line := strings.Repeat("abcdefghi ", 6) + "end"
		tm.types(line)
		tm.sees(at, "end")
		if strings.Contains(ansi.Strip(tm.seen.String()), line) {
			t.Error("the line was not broken at 20 columns")
		}
		tm.resize(40, 200)
		at = tm.sees(at, line)
		tm.resize(10, 30)
		tm.types("!\r")
		at = tm.sees(at, "Hello Ada.")
		tm.sees(at, "› ")
		if got := d.received("narrow"); got[len(got)-1] != line+"!" {
			t.Errorf("heard %q", got)
		}
	})
	t.Run("SESS-16 200 columns", func(t *testing.T) {
		t.Parallel()
		tm := d.terminalOf(pty.Winsize{Rows: 50, Cols: 200}, nil, "repl", "talker", "--session", "broad")
		at := tm.sees(0, "› ")
		line := strings.Repeat("abcdefghi ", 15) + "end"
		tm.types(line + "\r")
		at = tm.sees(at, line)
		at = tm.sees(at, "Hello Ada.")
		tm.sees(at, "› ")
	})
}

func TestReplPlain(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	t.Run("SESS-16 a terminal that can do nothing has the prompts and no escape sequences", func(t *testing.T) {
		t.Parallel()
		tm := d.terminalOf(pty.Winsize{Rows: 40, Cols: 100}, []string{"TERM=dumb"}, "repl", "talker", "--session", "dumb")
		at := tm.sees(0, "session dumb")
		at = tm.sees(at, "› ")
		tm.types("run it\n")
		at = tm.sees(at, "Approve?")
		tm.types("n\n")
		at = tm.sees(at, "Why not?")
		tm.types("no\n")
		at = tm.sees(at, "[g]o on")
		tm.types("s\n")
		at = tm.sees(at, "› ")
		tm.types("\x03")
		tm.sees(at, "The session stays")
		tm.ends()
		if strings.Contains(tm.seen.String(), "\x1b") {
			t.Errorf("%q", tm.seen.String())
		}
	})
	t.Run("SESS-16 NO_COLOR takes the colours and leaves the editor", func(t *testing.T) {
		t.Parallel()
		tm := d.terminalOf(pty.Winsize{Rows: 40, Cols: 100}, []string{"NO_COLOR=1"}, "repl", "talker", "--session", "grey")
		at := tm.sees(0, "› ")
		tm.types("helloo\x7f\r")
		at = tm.sees(at, "Hello Ada.")
		tm.sees(at, "› ")
		if m := regexp.MustCompile("\x1b\\[[0-9;]*m").FindString(tm.seen.String()); m != "" {
			t.Errorf("%q is a colour", m)
		}
		if got := d.received("grey"); got[0] != "hello" {
			t.Errorf("%q", got)
		}
	})
}

// evil is what a model may write.
const evil = `\e[2J\e]0;owned\a\r\u202e\u009b31m`

func TestReplHostile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/evil.prompt": gated("evil", "{approvers: 1}"),
		"scripts/talker.yaml": "turns:\n  - when: {turn: 1}\n    thinking: \"thinks " + evil + "\"\n    text: \"says " + evil + strings.Repeat("w", 3000) + "\"\n    calls:\n      - {name: bash, input: {command: \"printf '\\\\033[2J\\\\033]0;owned\\\\007'; echo " +
			evil + "\"}}\n  - text: \"ends " + evil + "\"\n",
	} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.up()
	tm := d.terminalOf(pty.Winsize{Rows: 40, Cols: 100}, []string{"INSPAN_NOTIFY_TERMINAL=off"}, "repl", "evil", "--session", "evil")
	at := tm.sees(0, "› ")
	tm.types("go\r")
	at = tm.sees(at, "says")
	at = tm.sees(at, "Approve?")
	tm.types("d\r")
	at = tm.sees(at, "proposal_hash")
	tm.types("y\r")
	at = tm.sees(at, "ends")
	at = tm.sees(at, "› ")
	tm.types("/history\r")
	tm.sees(at, "ends")
	piped := d.piped("go\ny\n/history\n", "repl", "evil", "--session", "piped")
	t.Run("SESS-16 what a model wrote never reaches the terminal raw", func(t *testing.T) {
		for where, seen := range map[string]string{"at a terminal": tm.seen.String(), "over a pipe": piped.out + piped.err} {
			for _, bad := range []string{"\x1b[2J", "\x1b]0;", "\a", "\u202e", "\u009b"} {
				if strings.Contains(seen, bad) {
					t.Errorf("%s: %q was written:\n%q", where, bad, seen)
				}
			}
			if !strings.Contains(seen, "says") || !strings.Contains(seen, strings.Repeat("w", 100)) {
				t.Errorf("%s: the text was not shown", where)
			}
		}
		if strings.Contains(piped.out, "\x1b") || strings.Contains(piped.out, "\r") {
			t.Errorf("%q", piped.out)
		}
	})
}

func TestReplAhead(t *testing.T) {
	t.Parallel()
	d := talkDesk(t)
	t.Run("GATE-5 what was typed before a gate was asked about does not answer it", func(t *testing.T) {
		t.Parallel()
		tm := d.terminal("repl", "talker", "--session", "ahead")
		at := tm.sees(0, "› ")
		tm.types("run it\ry\r")
		at = tm.sees(at, "Approve?")
		tm.types("n\r")
		at = tm.sees(at, "Why not?")
		tm.types("no\r")
		tm.sees(at, "[g]o on")
	})
	t.Run("GATE-5 nor does it where a run is watched", func(t *testing.T) {
		t.Parallel()
		tm := d.terminal("run", "talker", "run it")
		tm.types("y\r")
		at := tm.sees(0, "Approve?")
		tm.types("n\r")
		at = tm.sees(at, "Why not?")
		tm.types("no\r")
		tm.sees(at, "paused")
	})
	t.Run("SESS-5 a session that another run works in names it and says what to do", func(t *testing.T) {
		t.Parallel()
		other := d.terminal("repl", "talker", "--session", "held")
		o := other.sees(0, "› ")
		other.types("take long\r")
		other.sees(o, "thinking")
		tm := d.terminal("repl", "talker", "--session", "held")
		at := tm.sees(0, "works in this session")
		at = tm.sees(at, "› ")
		tm.types("hello\r")
		at = tm.sees(at, "session_locked")
		at = tm.sees(at, "run-")
		at = tm.sees(at, "inspan ")
		tm.sees(at, "› ")
		other.types("\x03")
		other.sees(o, "✗")
	})
	t.Run("SESS-16 inputs are found again by another process, also of one that was killed", func(t *testing.T) {
		t.Parallel()
		env := []string{"XDG_CONFIG_HOME=" + t.TempDir()}
		size := pty.Winsize{Rows: 40, Cols: 100}
		tm := d.terminalOf(size, env, "repl", "talker", "--session", "past")
		at := tm.sees(0, "› ")
		tm.types("I am Ada\\\rreally\r")
		tm.sees(at, "Hello Ada.")
		if err := tm.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-tm.done
		tm = d.terminalOf(size, env, "repl", "talker", "--session", "past2")
		at = tm.sees(0, "› ")
		tm.types("\x1b[A")
		at = tm.sees(at, "really")
		tm.types("\r")
		tm.sees(at, "Hello Ada.")
		tm.types("/exit\r")
		tm.ends()
		if got := d.received("past2"); got[0] != "I am Ada\nreally" {
			t.Errorf("%q", got)
		}
	})
}
