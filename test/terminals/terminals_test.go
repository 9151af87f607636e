//go:build slow

package terminals

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// Sizes of the terminals, and how long a screen may take on a busy machine.
const (
	columns, rows = 100, 46
	patience      = time.Minute
)

// person is somebody at terminals of tmux, with a home of their own and a project in git.
type person struct {
	t            *testing.T
	home, socket string
	program      string
	provider     *provider
	frames       []Frame
}

// people counts them.
var people int

func newPerson(t *testing.T, program string) *person {
	t.Helper()
	people++
	home := fmt.Sprintf("/tmp/t%04d", (os.Getpid()+people)%10000) // as long as /home/anna: nothing moves when it is renamed
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, home: home, socket: filepath.Base(home), program: program, provider: newProvider(t)}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-L", p.socket, "kill-server").Run()
		for end := time.Now().Add(patience); os.RemoveAll(home) != nil && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond) // programs that were hung up are still ending
		}
	})
	for name, text := range map[string]string{
		"price.sh":   "#!/bin/sh\n# price.sh NET TAX: the price with the tax in percent.\nnet=$1 tax=$2\necho $((net - net * tax / 100))\n",
		"Makefile":   "test:\n\t@test \"$$(sh price.sh 100 19)\" = 119 && echo ok || { echo \"100 with 19 % is not 119\"; exit 1; }\n",
		".gitignore": ".env\n.inspan\n",
	} {
		at := filepath.Join(home, "shop", name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.git("init", "-q", "-b", "main")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "prices")
	return p
}

func (p *person) git(args ...string) {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Anna", "-c", "user.email=anna@example.com"}, args...)...)
	cmd.Dir = filepath.Join(p.home, "shop")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git %v: %v %s", args, err, out)
	}
}

// ready gives the person a model, and an agent that asks before it edits.
func (p *person) ready() {
	p.t.Helper()
	at := filepath.Join(p.home, ".config", "inspan")
	for name, text := range map[string]string{"config.yaml": "default_model: anthropic/claude-sonnet-5-5\nmodels:\n  anthropic:\n    api_key_file: keys/anthropic\n",
		"keys/anthropic": key + "\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(at, name)), 0o700); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *person) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", p.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %v: %v %s", args, err, out)
	}
	return string(out)
}

// terminal opens one.
func (p *person) terminal(name string, env ...string) {
	p.t.Helper()
	shell := []string{"env", "-i", "HOME=" + p.home, "PATH=" + filepath.Dir(p.program) + ":/usr/local/bin:/usr/bin:/bin", "TERM=tmux-256color",
		"PS1=\x1b[32m$\x1b[0m ", "USER=anna", "LANG=C.UTF-8", "ANTHROPIC_BASE_URL=" + p.provider.URL, "OLLAMA_HOST=127.0.0.1:1", "INSPAN_NATS_URL="}
	shell = append(append(shell, env...), "bash", "--norc", "--noprofile")
	p.tmux(append([]string{"new-session", "-d", "-s", name, "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "-c", filepath.Join(p.home, "shop")}, shell...)...)
	p.shows(name, "$")
}

// types types a line.
func (p *person) types(name, text string) {
	p.t.Helper()
	p.tmux("send-keys", "-t", name, "-l", text)
	p.tmux("send-keys", "-t", name, "Enter")
}

// screen is what a terminal shows, without the empty lines at its end.
func (p *person) screen(name string) string {
	return strings.TrimRight(p.tmux("capture-pane", "-e", "-p", "-t", name), "\n ")
}

// shows waits until a terminal shows some words.
func (p *person) shows(name string, words ...string) {
	p.t.Helper()
	missing := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		text := ansi.Strip(p.screen(name))
		missing = ""
		for _, w := range words {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
	}
	p.t.Fatalf("%s does not show %q:\n%s", name, missing, ansi.Strip(p.screen(name)))
}

// idle waits until the shell asks for the next command: what is typed earlier goes to the program that runs.
func (p *person) idle(name string) {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		lines := strings.Split(ansi.Strip(p.screen(name)), "\n")
		if strings.TrimSpace(lines[len(lines)-1]) == "$" {
			return
		}
	}
	p.t.Fatalf("%s is not idle:\n%s", name, ansi.Strip(p.screen(name)))
}

// frame keeps what a terminal shows.
func (p *person) frame(name, caption string) {
	time.Sleep(300 * time.Millisecond) // a live tree has drawn its last line
	screen := strings.ReplaceAll(p.screen(name), p.home, "/home/anna")
	p.frames = append(p.frames, Frame{Caption: caption, Screen: screen})
}

// save writes the session.
func (p *person) save(name, title string) {
	p.t.Helper()
	at := filepath.Join("..", "..", "docs", "terminals", name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		p.t.Fatal(err)
	}
	for ext, text := range map[string]string{".svg": Picture(title, p.frames, columns), ".txt": Text(p.frames)} {
		if strings.Contains(text, key) || strings.Contains(text, p.home) {
			p.t.Errorf("%s%s has the key, or the name of a temporary folder", name, ext)
			continue
		}
		if err := os.WriteFile(at+ext, []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

func TestTerminals(t *testing.T) {
	for _, name := range []string{"tmux", "bwrap", "make"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("NOT RECORDED: %v", err)
		}
	}
	program := filepath.Join(t.TempDir(), "inspan")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/inspan").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for name, record := range map[string]func(*person){"first-run": firstRun, "repair": repair, "outage": outage, "two-terminals": twoTerminals} {
		t.Run(name, func(t *testing.T) { record(newPerson(t, program)) })
	}
}

func firstRun(p *person) {
	p.terminal("one")
	p.types("one", "inspan")
	p.shows("one", "Number [1]")
	p.types("one", "1")
	p.shows("one", "Key (")
	p.types("one", key)
	p.shows("one", "Model [")
	p.types("one", "")
	p.shows("one", "it answers", "repair a small Go program")
	p.types("one", "n")
	p.shows("one", "What to type next")
	p.frame("one", "The first start: a model is chosen and tried, nothing else is asked")
	p.tmux("send-keys", "-t", "one", "clear", "Enter")
	p.types("one", "inspan")
	p.shows("one", "/help", "›")
	p.types("one", "What is this, and is anything odd about it?")
	p.shows("one", "subtracts the tax", "1 step")
	p.frame("one", "From then on it talks about the directory")
	p.save("first-run", "The first start of inspan, and a conversation about a directory")
}

func repair(p *person) {
	p.ready()
	p.asks()
	p.terminal("one")
	p.types("one", `inspan run coder "make the test pass" --id tax`)
	p.shows("one", "? ", "price.sh")
	p.shows("one", "+net + net", "Approve?")
	p.types("one", "d")
	p.shows("one", "+echo")
	p.frame("one", "It asks before it edits, and shows the change")
	p.types("one", "y")
	p.shows("one", "it adds it now")
	p.idle("one")
	p.types("one", "inspan merge tax --squash && git diff --stat && make test")
	p.shows("one", "1 file changed")
	p.idle("one")
	p.frame("one", "Approved: the test passes, and the change is merged when you say so")
	p.save("repair", "An agent repairs a project: a diff, an approval, a merge")
}

func outage(p *person) {
	p.ready()
	p.terminal("one", "INSPAN_MODEL_MAX_WAIT=10s")
	p.provider.away.Store(true)
	p.types("one", `inspan run coder "make the test pass" --id tax`)
	p.shows("one", "529")
	p.frame("one", "The provider answers 529: the run waits, and says for what and until when")
	p.shows("one", "inspan resume tax")
	p.idle("one")
	p.types("one", "inspan why tax")
	p.shows("one", "waits to be resumed")
	p.idle("one")
	p.frame("one", "After the longest wait (10 s here, else 24 h) the run is paused: nothing is lost")
	p.provider.away.Store(false)
	p.tmux("send-keys", "-t", "one", "clear", "Enter")
	p.types("one", "inspan resume tax")
	p.shows("one", "it adds it now")
	p.idle("one")
	p.frame("one", "The provider is back: the same run goes on")
	p.save("outage", "A run survives an outage of its provider")
}

func twoTerminals(p *person) {
	p.ready()
	p.asks()
	p.terminal("station")
	p.types("station", "inspan up --port 0")
	p.shows("station", "is up")
	p.terminal("one")
	p.terminal("two")
	p.types("one", `inspan run coder "make the test pass" --id tax`)
	p.shows("one", "Approve?")
	p.types("two", "inspan gates")
	p.shows("two", "Answer with")
	p.types("two", `inspan approve tax --reason "the tax was subtracted"`)
	p.shows("two", "is approved")
	p.shows("one", "it adds it now")
	p.idle("one")
	p.types("two", "inspan runs")
	p.shows("two", "completed")
	p.frame("two", "The second terminal, or machine: what waits, and a yes; a station runs with inspan up")
	p.frame("one", "The first terminal, which asked the same question: the run goes on")
	p.tmux("send-keys", "-t", "station", "C-c")
	p.save("two-terminals", "A run that one terminal watches and another one approves")
}

// asks makes the agent of the project, which asks before it edits.
func (p *person) asks() {
	p.t.Helper()
	p.terminal("prepare")
	p.types("prepare", `inspan init --project && sed -i 's/^permissions:/&\n  edit: ask/' agents/coder.prompt && inspan trust`)
	p.shows("prepare", "[y]es")
	p.types("prepare", "y")
	p.shows("prepare", "ccepted")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "an agent that asks before it edits")
}
