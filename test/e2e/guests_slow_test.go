//go:build slow

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// guest is a real program of others.
type guest struct {
	preset string
	// pack is its package in the registry of npm with %s for the version, file the program below the folder of packages.
	pack, file string
	// base is the end of the address of its model.
	base string
	asks bool
	// edits is what the log calls the writing of a file.
	edits string
	// moves is true where a session is gone on with in another sandbox.
	moves bool
	// shell names the tool of its shell; bash and write are calls of its tools, with their arguments.
	shell       string
	bash, write func(at, what string) (name string, args map[string]any)
	read        func(at, file string) (name string, args map[string]any)
}

var guests = []guest{{
	preset: "claude", pack: "@anthropic-ai/claude-code-linux-x64@%s", file: "@anthropic-ai/claude-code-linux-x64/claude",
	asks: true, edits: "write", moves: true, shell: "Bash",
	bash: func(_, command string) (string, map[string]any) { return "Bash", map[string]any{"command": command} },
	write: func(at, file string) (string, map[string]any) {
		return "Write", map[string]any{"file_path": filepath.Join(at, file), "content": "made\n"}
	},
	read: func(at, file string) (string, map[string]any) {
		return "Read", map[string]any{"file_path": filepath.Join(at, file)}
	},
}, {
	preset: "opencode", pack: "opencode-linux-x64@%s", file: "opencode-linux-x64/bin/opencode",
	asks: true, edits: "edit", shell: "bash",
	bash: func(_, command string) (string, map[string]any) {
		return "bash", map[string]any{"command": command, "description": "It is a step."}
	},
	write: func(at, file string) (string, map[string]any) {
		return "write", map[string]any{"filePath": filepath.Join(at, file), "content": "made\n"}
	},
	read: func(at, file string) (string, map[string]any) {
		return "read", map[string]any{"filePath": filepath.Join(at, file)}
	},
}, {
	preset: "codex", pack: "@openai/codex-linux-x64@npm:@openai/codex@%s-linux-x64", base: "/v1",
	file: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
	bash: func(_, command string) (string, map[string]any) {
		return "exec_command", map[string]any{"cmd": command}
	},
	write: func(_, file string) (string, map[string]any) { // the mock cannot call its tool that patches files
		return "exec_command", map[string]any{"cmd": "echo made > " + file}
	},
	read: func(_, file string) (string, map[string]any) {
		return "exec_command", map[string]any{"cmd": "cat " + file}
	},
}}

// mockVersion is that of the mock; another one may speak differently.
const mockVersion = "1.43.0"

// What each answer of the model used, but for that which spends the budget of most tokens.
const (
	inputOfAnswer  = 100
	outputOfAnswer = 20
	most           = 120_000
)

// keyOf is the request of a play, by which the mock finds what to answer.
func keyOf(play string) string { return "The play is " + play + "." }

// step is one answer of the model: a call, or a text.
type step struct {
	call  func(at, what string) (string, map[string]any)
	what  string
	text  string
	slow  bool
	input int
}

// fixtures are the answers of all plays, in the order in which each is asked for.
func (g guest) fixtures(at func(play string) string) []byte {
	waits := "echo begun >> log; until [ -e go ]; do sleep 0.1; done; echo ended >> log"
	end := step{text: "All is done."}
	plays := map[string][]step{
		"works": {{call: g.write, what: "made.txt"}, {call: g.bash, what: "echo ran > ran.txt; echo out-of-it"}, end},
		"refused": {{call: g.bash, what: "deploy now; touch deployed.txt"}, {call: g.bash, what: "cat secret.txt"},
			{call: g.read, what: "secret.txt"}, {call: g.bash, what: "echo and on"}, end},
		"gated":   {{call: g.bash, what: "release () { echo released >> released.txt; }; release it"}, end},
		"killed":  {{call: g.bash, what: "release () { echo released >> released.txt; }; release it"}, {call: g.bash, what: "release () { echo released >> released.txt; }; release it"}, end},
		"lost":    {{call: g.bash, what: "release () { echo released >> released.txt; }; release it"}, {call: g.bash, what: "release () { echo released >> released.txt; }; release it"}, end},
		"command": {{call: g.bash, what: waits}, {call: g.bash, what: "cat log"}, {call: g.bash, what: waits}, end},
		"answer":  {{call: g.bash, what: "echo one >> steps"}, {text: strings.Repeat("It is a long story. ", 400), slow: true}, {call: g.bash, what: "cat steps"}, end},
		"spends":  {{call: g.bash, what: "echo one >> steps", input: most - 3000}, end},
	}
	var all []any
	for play, steps := range plays {
		for i, s := range steps {
			usage := map[string]int{"input_tokens": inputOfAnswer, "output_tokens": outputOfAnswer}
			if s.input > 0 {
				usage["input_tokens"] = s.input
			}
			answer := map[string]any{"content": s.text, "usage": usage}
			if s.call != nil {
				name, args := s.call(at(play), s.what)
				b, err := json.Marshal(args)
				if err != nil {
					panic(err) // it is of texts
				}
				answer = map[string]any{"content": "Step.", "usage": usage,
					"toolCalls": []any{map[string]string{"name": name, "arguments": string(b)}}}
			}
			match := map[string]any{"userMessage": keyOf(play), "sequenceIndex": i}
			if g.shell != "" {
				match["toolName"] = g.shell
			}
			f := map[string]any{"match": match, "response": answer}
			if s.slow {
				f["latency"], f["chunkSize"] = 500, 20
			}
			all = append(all, f)
		}
	}
	b, err := json.Marshal(map[string]any{"fixtures": all})
	if err != nil {
		panic(err) // as above
	}
	return b
}

// install returns the program, and installs it first where the folder does not have it.
func (g guest) install(t *testing.T, dir, version string) string {
	t.Helper()
	file := filepath.Join(dir, "node_modules", filepath.FromSlash(g.file))
	if _, err := os.Stat(file); err != nil {
		if version == "" {
			t.Fatalf("NOT TESTED: %s is not in %s, and the preset names no version that could be installed", g.preset, dir)
		}
		npm(t, dir, strings.ReplaceAll(g.pack, "%s", version))
	}
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		t.Fatalf("NOT TESTED: %s: %v", g.preset, err)
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("NOT TESTED: %s does not start: %v\n%s", g.preset, err, out)
	}
	if t.Logf("%s: %s", g.preset, bytes.TrimSpace(out)); version == "" || !bytes.Contains(out, []byte(version)) {
		t.Errorf("the preset %s says verified = %q, and the program says %q", g.preset, version, out)
	}
	return file
}

// npm installs a package beside those that the folder has, and runs none of its scripts.
func npm(t *testing.T, dir, pack string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", pack)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("NOT TESTED: npm cannot install %s: %v\n%s", pack, err, out)
	}
}

// mock answers in the place of providers.
type mock struct {
	url string
	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

// said is the end of what the mock printed.
func (m *mock) said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.out.Bytes()
	return string(b[max(0, len(b)-2000):])
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// serveMock starts the mock; it ends with the test.
func serveMock(t *testing.T, dir string, fixtures []byte) *mock {
	t.Helper()
	program := filepath.Join(dir, "node_modules", "@copilotkit", "aimock", "dist", "cli.js")
	if _, err := os.Stat(program); err != nil {
		npm(t, dir, "@copilotkit/aimock@"+mockVersion)
	}
	file := filepath.Join(t.TempDir(), "fixtures.json")
	if err := os.WriteFile(file, fixtures, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", program, "-p", "0", "-h", "127.0.0.1", "-f", file, "--strict",
		"--validate-on-load")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	m := &mock{}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatalf("NOT TESTED: the mock does not start: %v", err)
	}
	found := make(chan string, 1) // the address, once
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(found)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			m.mu.Lock()
			m.out.WriteString(lines.Text() + "\n")
			m.mu.Unlock()
			if url := address.FindString(lines.Text()); url != "" && m.url == "" {
				m.url = url
				found <- url
			}
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait() // it was killed
	})
	if url, ok := <-found; !ok {
		t.Fatalf("NOT TESTED: the mock does not start: %s", m.said())
	} else if url == "" {
		t.Fatal("the mock has no address")
	}
	return m
}

// last is the last request of a play, as the mock read it.
func (m *mock) last(t testing.TB, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url+"/__aimock/journal", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, one := range all {
		if bytes.Contains(one.Body, []byte(key)) {
			last = string(one.Body)
		}
	}
	return last
}

// processesIn are those that run a program in a directory.
func processesIn(dir, program string) (all []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		at, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		exe, bad := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err == nil && bad == nil && at == dir && filepath.Base(exe) == filepath.Base(program) {
			all = append(all, pid)
		}
	}
	return all
}
