// Package guests are real programs of others as the agents of tests, and what answers in the place of their models.
//
// Promises: what a test asks for and this machine lacks ends the test with NOT TESTED and the reason. Nothing that is
// started here outlives its test, and nothing but a package that is missing is asked of the network.
package guests

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/runtime"
)

// Screen is the runtime file of the interactive form of Claude Code, with PROGRAM for its path. It shows the mark of a
// turn by a hook, and asks about commands that begin with "release".
//
//go:embed claude-screen.toml
var Screen string

// Guest is a real program of others.
type Guest struct {
	// Preset is the name of its runtime.
	Preset string
	// pack is its package in the registry of npm with %s for the version, file the program below the folder of packages.
	pack, file string
	// Base is the end of the address of its model.
	Base string
	// Asks is true where it asks about each call.
	Asks bool
	// Edits is what the log calls the writing of a file.
	Edits string
	// Moves is true where a session is gone on with in another sandbox.
	Moves bool
	// shell names the tool of its shell.
	shell string
	// Bash, Write and Read are calls of its tools in a directory, with a command or the name of a file.
	Bash, Write, Read Call
	// long are arguments with which a command may take minutes.
	long map[string]any
}

// Long is a command that may take minutes.
func (g Guest) Long(at, command string) (string, map[string]any) {
	name, args := g.Bash(at, command)
	maps.Copy(args, g.long)
	return name, args
}

// Call is a call of a tool of a program, with its arguments.
type Call func(at, what string) (name string, args map[string]any)

// All are the programs whose presets name a version that was tried.
func All() []Guest {
	return []Guest{{
		Preset: "claude", pack: "@anthropic-ai/claude-code-linux-x64@%s", file: "@anthropic-ai/claude-code-linux-x64/claude",
		Asks: true, Edits: "write", Moves: true, shell: "Bash", long: map[string]any{"timeout": 600_000},
		Bash: func(_, command string) (string, map[string]any) { return "Bash", map[string]any{"command": command} },
		Write: func(at, file string) (string, map[string]any) {
			return "Write", map[string]any{"file_path": filepath.Join(at, file), "content": "made\n"}
		},
		Read: func(at, file string) (string, map[string]any) {
			return "Read", map[string]any{"file_path": filepath.Join(at, file)}
		},
	}, {
		Preset: "opencode", pack: "opencode-linux-x64@%s", file: "opencode-linux-x64/bin/opencode",
		Asks: true, Edits: "edit", shell: "bash", long: map[string]any{"timeout": 600_000},
		Bash: func(_, command string) (string, map[string]any) {
			return "bash", map[string]any{"command": command, "description": "It is a step."}
		},
		Write: func(at, file string) (string, map[string]any) {
			return "write", map[string]any{"filePath": filepath.Join(at, file), "content": "made\n"}
		},
		Read: func(at, file string) (string, map[string]any) {
			return "read", map[string]any{"filePath": filepath.Join(at, file)}
		},
	}, {
		Preset: "codex", pack: "@openai/codex-linux-x64@npm:@openai/codex@%s-linux-x64", Base: "/v1", Moves: true, long: map[string]any{"yield_time_ms": 30_000},
		file: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
		Bash: func(_, command string) (string, map[string]any) {
			return "exec_command", map[string]any{"cmd": command}
		},
		Write: func(_, file string) (string, map[string]any) { // the mock cannot call its tool that patches files
			return "exec_command", map[string]any{"cmd": "echo made > " + file}
		},
		Read: func(_, file string) (string, map[string]any) {
			return "exec_command", map[string]any{"cmd": "cat " + file}
		},
	}}
}

// mockVersion is that of the mock; another one may speak differently.
const mockVersion = "1.43.0"

// What each answer of the model used that does not say otherwise.
const (
	InputOfAnswer  = 100
	OutputOfAnswer = 20
)

// KeyOf is the request of a play, by which the mock finds what to answer.
func KeyOf(play string) string { return "The play is " + play + "." }

// Step is one answer of the model: a call, or a text.
type Step struct {
	Call Call
	// What is the argument of the call.
	What, Text string
	// Slow has the text take minutes.
	Slow bool
	// Input is what the answer used of the input, in tokens; 0 is InputOfAnswer.
	Input int
}

// Fixtures are the answers of plays, in the order in which each is asked for. at is the directory of a play.
func (g Guest) Fixtures(plays map[string][]Step, at func(play string) string) []byte {
	var all []any
	for play, steps := range plays {
		for i, s := range steps {
			usage := map[string]int{"input_tokens": InputOfAnswer, "output_tokens": OutputOfAnswer}
			if s.Input > 0 {
				usage["input_tokens"] = s.Input
			}
			answer := map[string]any{"content": s.Text, "usage": usage}
			if s.Call != nil {
				name, args := s.Call(at(play), s.What)
				b, err := json.Marshal(args)
				if err != nil {
					panic(err) // it is of texts
				}
				answer = map[string]any{"content": "Step.", "usage": usage,
					"toolCalls": []any{map[string]string{"name": name, "arguments": string(b)}}}
			}
			match := map[string]any{"userMessage": KeyOf(play), "sequenceIndex": i}
			if g.shell != "" {
				match["toolName"] = g.shell
			}
			f := map[string]any{"match": match, "response": answer}
			if s.Slow {
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

// Install returns the program, and installs it first where the folder does not have it.
func (g Guest) Install(t testing.TB, dir string) string {
	t.Helper()
	version := runtime.Presets()[g.Preset].Verified
	file := filepath.Join(dir, "node_modules", filepath.FromSlash(g.file))
	if _, err := os.Stat(file); err != nil {
		if version == "" {
			t.Fatalf("NOT TESTED: %s is not in %s, and the preset names no version that could be installed", g.Preset, dir)
		}
		npm(t, dir, strings.ReplaceAll(g.pack, "%s", version))
	}
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		t.Fatalf("NOT TESTED: %s: %v", g.Preset, err)
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("NOT TESTED: %s does not start: %v\n%s", g.Preset, err, out)
	}
	if t.Logf("%s: %s", g.Preset, bytes.TrimSpace(out)); version == "" || !bytes.Contains(out, []byte(version)) {
		t.Errorf("the preset %s says verified = %q, and the program says %q", g.Preset, version, out)
	}
	return file
}

// npm adds a package to those that the folder has, and runs none of its scripts.
func npm(t testing.TB, dir, pack string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", pack)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("NOT TESTED: npm cannot install %s: %v\n%s", pack, err, out)
	}
}

// Mock answers in the place of providers.
type Mock struct {
	// URL is its address.
	URL string
	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

// Said is the end of what the mock printed.
func (m *Mock) Said() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.out.Bytes()
	return string(b[max(0, len(b)-2000):])
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// Serve starts the mock; it ends with the test.
func Serve(t testing.TB, dir string, fixtures []byte) *Mock {
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
	m := &Mock{}
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
			if url := address.FindString(lines.Text()); url != "" && m.URL == "" {
				m.URL = url
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
		t.Fatalf("NOT TESTED: the mock does not start: %s", m.Said())
	} else if url == "" {
		t.Fatal("the mock has no address")
	}
	return m
}

// Last is the last request of a play, as the mock read it.
func (m *Mock) Last(t testing.TB, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.URL+"/__aimock/journal", http.NoBody)
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

// ProcessesIn are those that run a program in a directory.
func ProcessesIn(dir, program string) (all []int) {
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
