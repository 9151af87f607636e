package runtimetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// screenEnv says how the program with a screen misbehaves; see Screen.
const screenEnv = "INSPAN_FAKE_SCREEN"

// How a program with a screen misbehaves when it begins, or is typed to.
const (
	// ScreenTrust asks a question before it is ready, ScreenNever is never ready, ScreenDead ends at once, ScreenUnpasted
	// takes no pasted text, ScreenSlow shows pasted text late, ScreenEnter does not take the first Enter.
	ScreenTrust    = "trust"
	ScreenNever    = "never"
	ScreenDead     = "dead"
	ScreenUnpasted = "unpasted"
	ScreenSlow     = "slow"
	ScreenEnter    = "enter"
)

// Screen is the program as a runtime that has only a screen. how is how it misbehaves; empty for not.
func Screen(sessions, how string) events.Runtime {
	r := Runtime(events.DriverPTY, sessions)
	r.Env[screenEnv], r.Gate = how, events.RuntimeAsksNot
	r.Terminal = &events.RuntimeTerminal{Ready: `^> `, End: `-- done ` + events.TerminalTurn, Busy: "esc to interrupt",
		New: []string{"--session-id", events.TranscriptSession}, Resume: []string{"--resume", events.TranscriptSession},
		Questions: []events.RuntimeQuestion{
			{Match: "Trust this folder", Action: events.QuestionAnswer, Yes: "y"},
			{Match: "Delete everything", Action: events.QuestionFail},
			{Match: "May I go on", Action: events.QuestionAsk, Yes: "y", No: "n"}}}
	return r
}

// tui has a screen. It shows one row at its end: its prompt, or that it works.
type tui struct {
	*agent
	mu    *sync.Mutex
	keys  chan byte // pressed while it works
	how   string
	state *tuiState
}

// tuiState is guarded by tui.mu.
type tuiState struct {
	working bool
	input   string
	enters  int
}

func (c tui) begin(args []string) {
	stty := exec.Command("stty", "raw", "-echo")
	stty.Stdin = os.Stdin
	if out, err := stty.CombinedOutput(); err != nil {
		fmt.Printf("no terminal: %v: %s\n", err, out)
		quit(3)
	}
	c.raw("\x1b]0;a title\x07\x1b[1;32mThe fake program\x1b[0m \xff\xfe\xc3\x28\r\n")
	if i := slices.Index(args, "--session-id"); i >= 0 {
		c.session = args[i+1]
	}
	if i := slices.Index(args, "--resume"); i >= 0 && !c.load(args[i+1]) {
		c.raw("No conversation found\r\n")
		quit(1)
	}
	switch c.how {
	case ScreenDead:
		quit(7)
	case ScreenNever:
		c.raw("Loading \x1b[5m...\x1b[0m")
		for {
			c.key()
		}
	case ScreenTrust:
		c.raw("Trust this folder? (y/n) ")
		if c.key() != 'y' {
			quit(1)
		}
		c.raw("\x1b[2J\x1b[H")
	}
	if c.how != ScreenUnpasted {
		c.raw("\x1b[?2004h")
	}
	c.raw("> ")
}

// quit ends the program with a status.
func quit(status int) {
	_ = syscall.Exec("/bin/sh", []string{"sh", "-c", "exit " + strconv.Itoa(status)}, nil)
	leave()
}

// stdin is what is typed.
var stdin = bufio.NewReader(os.Stdin)

func (tui) key() byte {
	b, err := stdin.ReadByte()
	if err != nil {
		quit(0)
	}
	return b
}

// serve takes what is typed.
func (c tui) serve() {
	c.begin(os.Args[1:])
	for {
		b := c.key()
		switch {
		case c.busy():
			select {
			case c.keys <- b:
			default:
			}
		case b == 0x1b:
			c.pasted()
		case b == '\r':
			c.enter()
		}
	}
}

func (c tui) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.working
}

// pasted reads a pasted text to its end and shows the end of it.
func (c tui) pasted() {
	const end = "\x1b[201~"
	text := []byte{0x1b}
	for !strings.HasSuffix(string(text), end) {
		text = append(text, c.key())
	}
	all := strings.TrimSuffix(strings.TrimPrefix(string(text), "\x1b[200~"), end)
	c.state.input = strings.ReplaceAll(all, "\r", "\n")
	if c.how == ScreenSlow {
		<-time.After(time.Second)
	}
	flat := strings.ReplaceAll(all, "\r", " ")
	c.raw(flat[max(0, len(flat)-100):])
}

func (c tui) enter() {
	if c.state.enters++; c.state.input == "" || c.how == ScreenEnter && c.state.enters == 1 {
		return
	}
	text := c.state.input
	c.state.input = ""
	c.mu.Lock()
	c.state.working = true
	c.mu.Unlock()
	c.raw("\r\x1b[2K* working (esc to interrupt)")
	go c.prompt(text)
}

func (tui) hear([]byte) {}

func (c tui) say(s string) {
	c.raw("\r\x1b[2K" + strings.ReplaceAll(s, "\n", "\r\n") + "\r\n* working (esc to interrupt)")
}

func (c tui) think(s string) { c.say(s) }

func (tui) ask(string, string, map[string]string) bool { return true }

func (c tui) done(_, output string, _ bool) { c.say(strings.TrimRight(output, "\n")) }

func (c tui) end(bool, bool) {
	c.mu.Lock()
	c.state.working = false
	c.mu.Unlock()
	c.raw("\r\x1b[2K-- done " + os.Getenv(events.TerminalTurnEnv) + "\r\n> ")
}

// screenVerb does what only a program with a screen does.
func (c tui) screenVerb(verb, rest string) {
	switch verb {
	case "!question":
		c.raw("\r\x1b[2K" + rest + " (y/n) ")
		c.say("answered " + string(<-c.keys))
	case "!length": // of what it was given
		c.say("length " + strconv.Itoa(len(rest)))
	case "!escape":
		c.say("\x1b]52;c;ZXZpbA==\x07\x1b[31mred\x1b[0m \x1bPq#0\x1b\\\xc0\xaf\x9b31m broken \u202e end")
	case "!where": // the program asks its terminal
		c.raw("\x1b[6n")
		got := ""
		for !strings.HasSuffix(got, "R") {
			got += string(<-c.keys)
		}
		c.say("cursor " + got[1:])
	case "!size":
		out, err := func() ([]byte, error) {
			cmd := exec.Command("stty", "size")
			cmd.Stdin = os.Stdin
			return cmd.CombinedOutput()
		}()
		c.say(fmt.Sprintf("size %s %v %s", strings.TrimSpace(string(out)), err, os.Getenv("TERM")))
	case "!fork": // it leaves a child behind and ends
		_ = exec.Command("sh", "-c", "trap '' HUP TERM; setsid sleep 600 & sleep 600").Start()
		quit(0)
	case "!endless":
		for {
			c.raw(strings.Repeat("x", 64<<10))
		}
	}
}
