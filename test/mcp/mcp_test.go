//go:build slow

// Package mcp runs whole stations against the reference servers of the Model Context Protocol, installed from npm: what
// the product does with servers that others wrote, as a person would see it on the command line.
package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli"
)

// The servers and their versions: another version may describe its tools in another way.
var servers = []string{"@modelcontextprotocol/server-everything@2026.8.31", "@modelcontextprotocol/server-filesystem@2026.8.31"}

const patience = 5 * time.Minute

// install puts the servers into a folder and returns the place of their packages.
func install(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is needed for this test: install Node.js: %v", program, err)
		}
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", append([]string{"install", "--no-audit", "--no-fund", "--prefix", dir}, servers...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	return filepath.Join(dir, "node_modules", "@modelcontextprotocol")
}

func inspan(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var o, e bytes.Buffer
	code = cli.Main(ctx, args, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), code
}

// call is one call of a script, and what its result must hold.
type call struct{ tool, input, want string }

// play writes an agent that makes the calls one after the other, pins its servers and runs it. It returns the
// workspace.
func play(t *testing.T, name, front string, calls []call) string {
	t.Helper()
	dir := t.TempDir()
	script := "turns:\n"
	for i, c := range calls {
		script += fmt.Sprintf("  - when: {turn: %d}\n    calls:\n      - {name: %s, input: %s}\n", i+1, c.tool, c.input)
	}
	script += fmt.Sprintf("  - when: {turn: %d}\n    text: done\n", len(calls)+1)
	for at, text := range map[string]string{
		"agents/" + name + ".prompt": "---\nmodel: scripted/" + name + "\nharness: agentic\n" + front + "---\nWork.\n",
		"scripts/" + name + ".yaml":  script,
	} {
		at = filepath.Join(dir, at)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "agents", name+".prompt")
	if out, errOut, code := inspan(t, "tools", "--agent", file, "--pin"); code != 0 {
		t.Fatalf("pin: exit %d\n%s%s", code, out, errOut)
	}
	out, _, code := inspan(t, "tools", "--agent", file, "--check")
	t.Logf("inspan tools --check: exit %d\n%s", code, out)
	if code != 0 {
		t.Error("the tools are not as they were pinned a moment before")
	}
	begin := time.Now()
	out, errOut, code := inspan(t, "run", name, "go", "--ephemeral", "--empty", "--json", "--session", "s", "--agents", filepath.Join(dir, "agents"),
		"--scripts", filepath.Join(dir, "scripts"), "--workspace", filepath.Join(dir, "work"))
	if code != 0 {
		t.Fatalf("run: exit %d\n%s%s", code, out, errOut)
	}
	results(t, out, calls)
	t.Logf("%d calls in %s", len(calls), time.Since(begin).Round(time.Millisecond))
	return filepath.Join(dir, "work")
}

// results looks at the events for the result of each call, in order.
func results(t *testing.T, evs string, calls []call) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(evs))
	lines.Buffer(nil, 1<<20)
	at := 0
	for lines.Scan() {
		var f struct {
			Data struct {
				Event  string `json:"event"`
				Tool   string `json:"tool_name"`
				Output string `json:"output"`
				Error  string `json:"error"`
				Reason string `json:"reason"`
				MS     int    `json:"duration_ms"`
			} `json:"data"`
		}
		if json.Unmarshal(lines.Bytes(), &f) != nil || f.Data.Event != "tool_result" && f.Data.Event != "tool_refused" {
			continue
		}
		if at == len(calls) {
			t.Fatalf("a result too many: %s", lines.Text())
		}
		c, d := calls[at], f.Data
		at++
		t.Logf("%s: %d ms, %.120q", d.Tool, d.MS, d.Output+d.Error+d.Reason)
		if d.Tool != c.tool || !strings.Contains(d.Output+d.Error+d.Reason, c.want) {
			t.Errorf("call %d is %s: %q; want %s with %q", at, d.Tool, d.Output+d.Error+d.Reason, c.tool, c.want)
		}
	}
	if at != len(calls) {
		t.Errorf("%d results of %d calls", at, len(calls))
	}
}

func TestServers(t *testing.T) {
	at := install(t)
	t.Setenv("INSPAN_SANDBOX_READ_ONLY", filepath.Dir(at))
	everything := filepath.Join(at, "server-everything", "dist", "index.js")
	t.Run("ECO-3 TOOL-17 the reference server of files works in the run's workspace, and on nothing else", func(t *testing.T) {
		work := play(t, "files", "tools: [\"mcp:files/*\"]\nmcp:\n  files:\n    command: [node, "+filepath.Join(at, "server-filesystem", "dist", "index.js")+", .]\n    effects: {\"read_*\": read, \"list_*\": read, write_file: idempotent}\n", []call{
			{"mcp__files__write_file", `{path: notes/hello.txt, content: "hello\n"}`, "no such file"},
			{"mcp__files__create_directory", `{path: notes}`, "Success"},
			{"mcp__files__write_file", `{path: notes/hello.txt, content: "hello from a server\n"}`, "Success"},
			{"mcp__files__read_text_file", `{path: notes/hello.txt}`, "hello from a server"},
			{"mcp__files__list_directory", `{path: notes}`, "[FILE] hello.txt"},
			{"mcp__files__read_text_file", `{path: /etc/passwd}`, "leaves the workspace"},
		})
		var found []string
		err := filepath.WalkDir(work, func(at string, _ fs.DirEntry, err error) error {
			if filepath.Base(at) == "hello.txt" {
				found = append(found, at)
			}
			return err
		})
		if err != nil || len(found) != 1 {
			t.Fatalf("in the workspaces: %q %v", found, err)
		}
		if b, err := os.ReadFile(found[0]); err != nil || string(b) != "hello from a server\n" {
			t.Errorf("in the workspace: %q %v", b, err)
		}
	})
	calls := func(server string) []call {
		tool := func(name string) string { return "mcp__" + server + "__" + name }
		return []call{
			{tool("echo"), `{message: hi}`, "Echo: hi"},
			{tool("get-sum"), `{a: 2, b: 40}`, "42"},
			{tool("get-tiny-image"), `{}`, "[image image/png"},
			{tool("get-structured-content"), `{location: "New York"}`, "temperature"},
			{tool("get-resource-reference"), `{resourceType: Text, resourceId: 1}`, "[resource demo://"},
			{tool("trigger-long-running-operation"), `{duration: 1, steps: 2}`, "completed"},
			{tool("echo"), `{massage: hi}`, "missing property 'message'"},
		}
	}
	t.Run("ECO-3 TOOL-13 the reference server of everything answers as a program", func(t *testing.T) {
		play(t, "every", "tools: [\"mcp:every/*\"]\nmcp: {every: {command: [node, "+everything+", stdio]}}\n", calls("every"))
	})
	t.Run("ECO-3 TOOL-13 the reference server of everything answers over streamable HTTP", func(t *testing.T) {
		url := serve(t, everything)
		play(t, "web", "tools: [\"mcp:web/*\"]\nmcp: {web: {url: \""+url+"\"}}\n", calls("web"))
	})
}

// serve starts the server on a port of this machine and returns its address once it listens.
func serve(t *testing.T, program string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "node", program, "streamableHttp")
	cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was ended by the line before
	})
	wait, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for wait.Err() == nil {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err == nil {
			_ = c.Close()
			return fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("the server does not listen")
	return ""
}
