// Package runtimetest has an agent that is a program of others, for tests, and the exam of the drivers of such
// programs.
//
// Promises: the program does what the lines of its prompt say that begin with "!", and nothing else, so that a test
// says all that happens. It speaks ACP or the stream-json of Claude Code, or has only a screen. It keeps its sessions
// in a folder, and misbehaves when it is told to.
package runtimetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/inspan/inspan/pkg/events"
)

// Signalled is the file of the workspace in which the program that is deaf to signals names the one that it got.
const Signalled = "signalled"

// Variables of the program.
const (
	speaks  = "INSPAN_FAKE_AGENT"
	folder  = "INSPAN_FAKE_SESSIONS"
	strange = "INSPAN_FAKE_STRANGE"
	sly     = "INSPAN_FAKE_SLY"
	// hookless is set where the program takes no hooks.
	hookless = "INSPAN_FAKE_HOOKLESS"
)

// Main makes a test binary the program where it was started as such, and reports whether it was. It is called first in
// TestMain.
func Main() bool {
	form := os.Getenv(speaks)
	if form == "" {
		return false
	}
	if slices.Contains(os.Args[1:], "--version") {
		fmt.Println("fake 1.2.3")
		return true
	}
	a := &agent{out: bufio.NewWriter(os.Stdout), answers: map[string]chan json.RawMessage{},
		cancelled: make(chan struct{}, 1)}
	switch form {
	case events.DriverACP:
		a.talk = acp{a}
	case events.DriverClaude:
		a.talk = claude{a}
	case events.DriverPTY:
		c := tui{a, &sync.Mutex{}, make(chan byte, 64), os.Getenv(screenEnv), &tuiState{}}
		a.talk = c
		c.serve()
		return true
	default:
		codex{a}.once(os.Args[1:])
		return true
	}
	a.serve()
	return true
}

// BaseEnv and KeyEnv are where the program reads the address of its model and the key.
const (
	BaseEnv = "INSPAN_FAKE_BASE"
	KeyEnv  = "INSPAN_FAKE_KEY"
)

// Asking is a runtime whose program asks a model in the form of Anthropic.
func Asking(r events.Runtime, url string) events.Runtime {
	r.Model = &events.RuntimeModel{API: events.FormAnthropic, URL: url, BaseEnv: BaseEnv, KeyEnv: KeyEnv}
	return r
}

// leave ends the program at once.
func leave() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// HomeFolder is where the program keeps its sessions below its HOME, where no folder is given.
const HomeFolder = ".fake/sessions"

// Homely is the program as a runtime that keeps its sessions below HOME, which is gone with its sandbox.
func Homely(driver string) events.Runtime {
	r := Runtime(driver, "")
	r.Transcripts = []string{HomeFolder + "/*/" + events.TranscriptSession + ".jsonl"}
	return r
}

// Runtime is the program as a runtime that speaks the protocol of a driver and keeps its sessions in a folder.
func Runtime(driver, sessions string) events.Runtime {
	return events.Runtime{Name: "fake", Digest: strings.Repeat("0", 64), Driver: driver, Command: []string{os.Args[0]},
		Env: map[string]string{speaks: driver, folder: sessions}, Gate: events.RuntimeAsks, Resumes: true}
}

// Strange is the program where it speaks another version of its protocol.
func Strange(r events.Runtime) events.Runtime { return with(r, strange) }

// Hookless is the program where it takes no hooks.
func Hookless(r events.Runtime) events.Runtime { return with(r, hookless) }

func with(r events.Runtime, name string) events.Runtime {
	env := map[string]string{name: "1"}
	for k, v := range r.Env {
		env[k] = v
	}
	r.Env = env
	return r
}

// talk is how the program speaks.
type talk interface {
	// hear takes a line that was sent to the program.
	hear(line []byte)
	say(text string)
	think(text string)
	// ask asks for permission, done tells what became of it.
	ask(id, kind string, input map[string]string) bool
	done(id, output string, failed bool)
	end(cancelled, failed bool)
}

// agent is the program.
type agent struct {
	talk    talk
	session string
	prompts int
	steps   int

	mu        sync.Mutex
	out       *bufio.Writer                   // guarded by mu, as are answers and last
	answers   map[string]chan json.RawMessage // of requests of the program, by id
	last      int
	cancelled chan struct{}
	deaf      atomic.Bool // it ignores the end of its input, too
	hooked    atomic.Bool // a hook before each call is registered
}

func (a *agent) serve() {
	if c, ok := a.talk.(claude); ok {
		c.begin(os.Args[1:])
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if a.deaf.Load() {
				select {}
			}
			return
		}
		a.talk.hear(line)
	}
}

func (a *agent) print(doc any) {
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(append(b, '\n'))
	_ = a.out.Flush()
}

func (a *agent) raw(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.WriteString(text)
	_ = a.out.Flush()
}

// request names a request of the program, and where its answer comes.
func (a *agent) request() (id string, answer chan json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	id, answer = "ask-"+strconv.Itoa(a.last), make(chan json.RawMessage, 1)
	a.answers[id] = answer
	return id, answer
}

func (a *agent) answered(id string, doc json.RawMessage) {
	a.mu.Lock()
	answer := a.answers[id]
	a.mu.Unlock()
	if answer != nil {
		answer <- doc
	}
}

// file is where the number of prompts of a session is kept.
func (a *agent) file() string {
	if at := os.Getenv(folder); at != "" {
		return filepath.Join(at, a.session)
	}
	return filepath.Join(os.Getenv("HOME"), HomeFolder, "project", a.session+".jsonl")
}

// store keeps the number of prompts of the session, and a line for each thing that was done in it.
func (a *agent) store() {
	a.steps++
	_ = os.MkdirAll(filepath.Dir(a.file()), 0o700)
	_ = os.WriteFile(a.file(), []byte(strconv.Itoa(a.prompts)+"\n"+strings.Repeat("step\n", a.steps)), 0o600)
}

// load goes on with a session.
func (a *agent) load(session string) bool {
	a.session = session
	b, err := os.ReadFile(a.file())
	if err != nil {
		return false
	}
	a.prompts, err = strconv.Atoi(firstLine(string(b)))
	return err == nil
}

// prompt does what a prompt says.
func (a *agent) prompt(text string) {
	a.prompts++
	a.store()
	failed := false
	if command, ok := strings.CutPrefix(firstLine(text),
		"This is a test of permissions. Use your shell tool once, to run exactly this command: "); ok {
		if os.Getenv(sly) != "" { // it does not ask
			_ = exec.Command("sh", "-c", command).Run()
		} else {
			a.tool("execute", map[string]string{"command": command}, command)
		}
	}
	for line := range strings.Lines(text) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "!say":
			a.talk.say(rest)
		case "!think":
			a.talk.think(rest)
		case "!tell":
			a.talk.say(fmt.Sprintf("prompt %d", a.prompts))
		case "!bash":
			a.tool("execute", map[string]string{"command": rest}, rest)
		case "!write":
			path, body, _ := strings.Cut(rest, " ")
			a.tool("edit", map[string]string{"file_path": path, "content": body}, "printf %s '"+body+"' > "+path)
		case "!args":
			a.talk.say(strings.Join(os.Args[1:], "\n"))
		case "!twice": // it asks two questions about one call
			a.tool("execute", map[string]string{"command": rest}, rest, "other")
		case "!late": // it tells what about after it has asked
			if late, ok := a.talk.(acp); ok && late.askLate("late-"+rest, rest) {
				a.talk.done("late-"+rest, "read", false)
			}
		case "!model":
			a.talk.say(a.model(rest) + "\n")
		case "!again": // only where the session is gone on with
			if a.prompts > 1 {
				a.tool("execute", map[string]string{"command": rest}, rest)
			}
		case "!stay": // until the program is killed
			if a.prompts == 1 {
				select {}
			}
		case "!fail":
			failed = true
		case "!hang":
			<-a.cancelled
			a.talk.end(true, false)
			return
		default:
			if c, ok := a.talk.(tui); ok {
				c.screenVerb(verb, rest)
			}
			misbehave(a, verb)
		}
	}
	a.talk.end(false, failed)
}

// model asks the model with a most of output, and returns the status and the answer.
func (a *agent) model(most string) string {
	r, err := http.NewRequest(http.MethodPost, os.Getenv(BaseEnv)+"/v1/messages", strings.NewReader(`{"model":"m","max_tokens":`+most+`}`))
	if err != nil {
		return "model: " + err.Error()
	}
	r.Header.Set("X-Api-Key", os.Getenv(KeyEnv))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "model: " + err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "model: " + err.Error()
	}
	return fmt.Sprintf("model: %d %s", resp.StatusCode, b)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// misbehave does what a program should not.
func misbehave(a *agent, verb string) {
	switch verb {
	case "!die":
		fmt.Fprintln(os.Stderr, "this is \x1b[31mwhy")
		leave()
	case "!garbage":
		a.raw("this is no JSON\n")
		select {}
	case "!cut":
		a.raw(`{"jsonrpc":"2.0","type":"assis`)
		leave()
	case "!line":
		a.raw(strings.Repeat("x", 5<<20) + "\n")
		select {}
	case "!flood":
		for {
			a.talk.think(strings.Repeat("x", 64<<10))
		}
	case "!reconnect": // as Codex tells of an attempt that did not succeed
		a.raw(`{"type":"error","message":"Reconnecting... 2/5"}` + "\n")
	case "!deaf":
		a.deaf.Store(true)
		got := make(chan os.Signal, 1) // one is enough
		signal.Notify(got, syscall.SIGTERM, syscall.SIGINT)
		a.talk.say("deaf")
		_ = os.WriteFile(Signalled, []byte((<-got).String()), 0o644) // the exam misses it
		select {}
	}
}

// tool asks, first about what is of other kinds, and runs the command where it may.
func (a *agent) tool(kind string, input map[string]string, command string, first ...string) {
	id := "tool-" + strconv.Itoa(a.prompts) + "-" + strconv.Itoa(int(hash(command)))
	for _, other := range first {
		if !a.talk.ask(id, other, input) {
			a.talk.say("refused.")
			return
		}
	}
	if !a.talk.ask(id, kind, input) {
		a.talk.say("refused.")
		return
	}
	b, err := exec.Command("sh", "-c", command).CombinedOutput()
	a.store()
	a.talk.done(id, string(b), err != nil)
}

func hash(s string) (h uint16) {
	for _, c := range s {
		h = h*31 + uint16(c)
	}
	return h
}
