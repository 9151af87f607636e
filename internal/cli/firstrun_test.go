package cli_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// goodKey is the one that the provider of these tests accepts.
const goodKey = "sk-good-canary-7741"

// newcomer is a person without any configuration, in an empty directory, with a provider that knows one key.
type newcomer struct {
	t         *testing.T
	home, dir string
	env       []string
	asked     atomic.Int32
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	n := &newcomer{t: t, home: t.TempDir(), dir: filepath.Join(t.TempDir(), "project")}
	putFile(t, filepath.Join(n.dir, "note.txt"), "hello\n")
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		if r.Header.Get("X-Api-Key") != goodKey {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"type":"authentication_error","message":"no %s"}}`, r.Header.Get("X-Api-Key"))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, frame := range []string{`{"type":"message_start","message":{"id":"m","model":"claude","usage":{"input_tokens":3,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Here I am."}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`} {
			fmt.Fprintf(w, "data: %s\n\n", frame)
		}
	}))
	t.Cleanup(provider.Close)
	n.env = []string{"HOME=" + n.home, "XDG_CONFIG_HOME=", "XDG_STATE_HOME=" + filepath.Join(n.home, "state"), "INSPAN_CONFIG=", "INSPAN_NATS_URL=nats://127.0.0.1:1",
		"NATS_URL=", "INSPAN_ACCEPT_LAZY_FSYNC=true", "OLLAMA_HOST=127.0.0.1:1", "ANTHROPIC_BASE_URL=" + provider.URL, "ANTHROPIC_API_KEY=", "OPENAI_API_KEY=",
		"GEMINI_API_KEY=", "OPENAI_BASE_URL=", "INSPAN_SANDBOX=host", "INSPAN_EMPTY=true", "TERM=xterm", "NO_COLOR=1"}
	return n
}

// step waits for words and types an answer.
type step struct{ wait, answer string }

// terminal runs the program at a terminal, and returns what was on it.
func (n *newcomer) terminal(env []string, args []string, steps ...step) (screen string, code int) {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	ended := filepath.Join(n.t.TempDir(), "exit")
	cmd := exec.CommandContext(n.t.Context(), self, args...)
	cmd.Dir, cmd.Env = n.dir, append(append(append(os.Environ(), cliVar+"=1", exitVar+"="+ended), n.env...), env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 60, Cols: 160})
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	var out strings.Builder
	seen, b := 0, make([]byte, 4096)
	for {
		read, err := f.Read(b)
		out.Write(b[:read])
		for text := ansi.Strip(out.String()); len(steps) > 0 && strings.Contains(text[seen:], steps[0].wait); steps = steps[1:] {
			seen += strings.Index(text[seen:], steps[0].wait) + len(steps[0].wait)
			if _, err := f.WriteString(steps[0].answer); err != nil {
				n.t.Fatal(err)
			}
		}
		if err != nil {
			break // the program has ended
		}
	}
	_ = cmd.Wait() // its exit code is in the file
	if len(steps) > 0 {
		n.t.Errorf("%q was not printed:\n%s", steps[0].wait, ansi.Strip(out.String()))
	}
	text, err := os.ReadFile(ended)
	if err != nil {
		n.t.Fatal(err, out.String())
	}
	if code, err = strconv.Atoi(string(text)); err != nil {
		n.t.Fatal(err)
	}
	return ansi.Strip(out.String()), code
}

// config is the text of the user's configuration; empty where there is none.
func (n *newcomer) config() string {
	b, _ := os.ReadFile(filepath.Join(n.home, ".config", "inspan", "config.yaml"))
	return string(b)
}

// holders are the files below the home and the directory that hold a text.
func (n *newcomer) holders(text string) (paths []string) {
	n.t.Helper()
	for _, dir := range []string{n.home, n.dir} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if strings.Contains(string(b), text) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return paths
}

func has(t *testing.T, screen string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(screen, w) {
			t.Errorf("%q is not in\n%s", w, screen)
		}
	}
}

func TestFirstRun(t *testing.T) {
	t.Parallel()
	t.Run("CLI-1 ECO-10 a key that is typed is tried, kept in a file of its own, and not asked for again; the directory is talked about", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		screen, code := n.terminal(nil, nil, step{"Number [1]", "\r"}, step{"Key", "sk-bad-canary-7741\r"}, step{"Model [claude-sonnet-5-5]", "\r"},
			step{"[r]etry", "\r"}, step{"Key", goodKey + "\r"}, step{"Model [claude-sonnet-5-5]", "\r"}, step{"repair a small Go program", "\r"})
		has(t, screen, "Welcome to Inspan", "refuses this key", "it answers", "What to type next", "inspan diff last")
		if code != 0 || strings.Contains(screen, "canary") {
			t.Errorf("exit %d:\n%s", code, screen)
		}
		key := filepath.Join(n.home, ".config", "inspan", "keys", "anthropic")
		if got := n.holders("canary"); len(got) != 1 || got[0] != key {
			t.Errorf("the key is in %v", got)
		}
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		has(t, n.config(), "default_model: anthropic/claude-sonnet-5-5", "api_key_file: keys/anthropic", "sandbox_build_cache: auto")
		before := n.config()

		screen, code = n.terminal(nil, nil, step{"› ", "are you there?\r"}, step{"Here I am.", ""}, step{"› ", "\x04"})
		has(t, screen, "coder")
		if code != 0 || strings.Contains(screen, "Which model") || n.config() != before {
			t.Errorf("exit %d: a second start asks or writes:\n%s", code, screen)
		}
		if got := n.holders("canary"); len(got) != 1 {
			t.Errorf("after a conversation the key is in %v", got)
		}
		if s := process(t, n.dir, n.env, "run", "coder", "are you there?", "--id", "there"); s.code != 0 || !strings.Contains(s.out, "Here I am.") {
			t.Errorf("the built-in agent does no task: exit %d\n%s%s", s.code, s.out, s.err)
		}
		n.dir = filepath.Join(n.dir, "below")
		putFile(t, filepath.Join(n.dir, "note.txt"), "hello\n")
		if s := processWith(t, n.dir, n.env, strings.NewReader("are you there?\n"), "repl", "coder"); s.code != 0 || !strings.Contains(s.out, "Here I am.") {
			t.Errorf("the built-in agent does not talk: exit %d\n%s%s", s.code, s.out, s.err)
		}
		if s := process(t, n.dir, n.env, "run", "codr", "are you there?"); s.code != 5 || !strings.Contains(s.err, `did you mean "coder"?`) {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		if got := process(t, n.dir, append(n.env, "XDG_CONFIG_HOME="), "config", "explain", "models.anthropic.api_key"); strings.Contains(got.out, "canary") || !strings.Contains(got.out, "***") {
			t.Errorf("%s", got.out)
		}
	})
	t.Run("CLI-1 ECO-10 a key of the environment or of the file that it names is found and tried, and not copied", func(t *testing.T) {
		t.Parallel()
		for _, file := range []bool{false, true} {
			n := newNewcomer(t)
			env := []string{"ANTHROPIC_API_KEY=" + goodKey}
			if file {
				at := filepath.Join(t.TempDir(), "key")
				putFile(t, at, goodKey+"\n")
				env = []string{"ANTHROPIC_API_KEY_FILE=" + at}
			}
			screen, code := n.terminal(env, nil, step{"Number [1]", "\r"}, step{"Model", "\r"}, step{"repair a small Go program", "n\r"})
			has(t, screen, "Anthropic: its key is set", "it answers")
			if code != 0 || len(n.holders("canary")) != 0 || !strings.Contains(n.config(), "default_model: anthropic/") {
				t.Errorf("exit %d, key in %v, config %q", code, n.holders("canary"), n.config())
			}
		}
	})
	t.Run("CLI-1 a person can go on without a model, is not asked again, and is told what is missing", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		if _, code := n.terminal(nil, nil, step{"Number [1]", "5\r"}, step{"repair a small Go program", "n\r"}); code != 0 || n.config() == "" {
			t.Errorf("exit %d, config %q", code, n.config())
		}
		screen, code := n.terminal(nil, nil)
		has(t, screen, "There is no model yet", "inspan login")
		if s := process(t, n.dir, n.env, "run", "coder", "are you there?"); s.code != 5 || !strings.Contains(s.err, "inspan login") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
		if code != 0 || n.asked.Load() != 0 {
			t.Errorf("exit %d, %d requests", code, n.asked.Load())
		}
	})
	t.Run("CLI-1 Ctrl+C at any question leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		for _, steps := range [][]step{{{"Number [1]", "\x03"}}, {{"Number [1]", "\r"}, {"Key", "\x03"}}, {{"Number [1]", "\r"}, {"Key", goodKey + "\r"}, {"Model", "\x03"}},
			{{"Number [1]", "\r"}, {"Key", "wrong\r"}, {"Model", "\r"}, {"[r]etry", "\x03"}}} {
			n := newNewcomer(t)
			screen, code := n.terminal(nil, nil, steps...)
			if _, err := os.Stat(filepath.Join(n.home, ".config")); code != 130 || err == nil {
				t.Errorf("%d steps: exit %d, a configuration folder is there: %v\n%s", len(steps), code, err == nil, screen)
			}
		}
	})
	t.Run("CLI-1 an Ollama on this machine is found, and needs no key", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/models") {
				fmt.Fprint(w, `{"data":[{"id":"evil\u001b[2Jname"},{"id":"llama3:8b"}]}`)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}))
		t.Cleanup(local.Close)
		screen, code := n.terminal([]string{"OLLAMA_HOST=" + local.URL}, nil, step{"Number [1]", "\r"}, step{"Model [llama3:8b]", "\r"}, step{"repair a small Go program", "n\r"})
		has(t, screen, "Ollama on this machine: llama3:8b", "it answers")
		has(t, n.config(), "default_model: openai/llama3:8b", "base_url: "+local.URL+"/v1")
		if code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("CLI-1 without a terminal bare inspan prints its help and writes nothing", func(t *testing.T) {
		t.Parallel()
		n := newNewcomer(t)
		got := process(t, n.dir, append(n.env, "XDG_CONFIG_HOME="))
		if got.code != 0 || !strings.Contains(got.out, "Usage:") || n.config() != "" {
			t.Errorf("exit %d %s%s", got.code, got.out, got.err)
		}
	})
}

func TestLogin(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	login := func(key string, args ...string) said {
		t.Helper()
		s := processWith(t, n.dir, n.env, strings.NewReader(key), append([]string{"login"}, args...)...)
		s.out += s.err
		return s
	}
	for _, tc := range []struct {
		name, key string
		args      []string
		code      int
		want      string
		kept      bool
	}{
		{"ECO-10 a refused key is not stored, and not printed", "sk-bad-canary", []string{"anthropic"}, 1, "nothing was stored", false},
		{"ECO-10 no key, no provider and a wrong one are named", "", []string{"anthropic"}, 2, "standard input", false},
		{"ECO-10 which provider", "x", nil, 2, "which provider", false},
		{"ECO-10 unknown provider", "x", []string{"antropic"}, 2, "unknown provider", false},
		{"ECO-10 a key that is too long", strings.Repeat("k", 5000), []string{"anthropic"}, 2, "at most 4096", false},
		{"ECO-10 an accepted key is stored", goodKey + "\n", []string{"anthropic", "--model", "claude-opus-5-5"}, 0, "written", true},
		{"ECO-10 an untried key replaces it", "sk-other-canary", []string{"anthropic", "--untried"}, 0, "written", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := login(tc.key, tc.args...)
			if got.code != tc.code || !strings.Contains(got.out, tc.want) || strings.Contains(got.out, "canary") {
				t.Errorf("exit %d:\n%s", got.code, got.out)
			}
			if held := n.holders("canary"); (len(held) == 1) != tc.kept {
				t.Errorf("the key is in %v", held)
			}
		})
	}
	has(t, n.config(), "default_model: anthropic/claude-sonnet-5-5")
}
