//go:build slow

package mcp

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wheel writes a Python package with a server of one tool.
func wheel(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "tiny_server-1.2.3-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	const info = "tiny_server-1.2.3.dist-info/"
	for name, text := range map[string]string{
		"tiny_server.py": `import json, sys
def main():
    for line in sys.stdin:
        r = json.loads(line)
        if "id" not in r: continue
        m, out = r["method"], None
        if m == "initialize": out = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "tiny", "version": "1.2.3"}}
        if m == "tools/list": out = {"tools": [{"name": "args", "inputSchema": {"type": "object"}}]}
        if m == "tools/call": out = {"content": [{"type": "text", "text": " ".join(sys.argv[1:])}]}
        e = {"jsonrpc": "2.0", "id": r["id"]}
        e.update({"result": out} if out else {"error": {"code": -32601, "message": "unknown"}})
        print(json.dumps(e), flush=True)
`,
		info + "METADATA":         "Metadata-Version: 2.1\nName: tiny-server\nVersion: 1.2.3\n",
		info + "WHEEL":            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "entry_points.txt": "[console_scripts]\ntiny-server = tiny_server:main\n",
		info + "RECORD":           "",
	} {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestInstall(t *testing.T) {
	work := t.TempDir()
	t.Setenv("XDG_DATA_HOME", filepath.Join(work, "data"))
	agent := filepath.Join(work, "coder.prompt")
	if err := os.WriteFile(agent, []byte("---\nmodel: scripted/coder\nharness: agentic\n---\nWork.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	do := func(want string, args ...string) {
		t.Helper()
		out, errOut, code := inspan(t, args...)
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("inspan %q: exit %d\n%s%s, want %q", args, code, out, errOut, want)
		}
	}
	t.Run("ECO-3 a package of npm is installed once and runs in a sandbox without a network", func(t *testing.T) {
		if _, err := exec.LookPath("npm"); err != nil {
			t.Fatalf("npm is needed for this test: install Node.js: %v", err)
		}
		do("mcp__files__read_file", "mcp", "add", "files", "--agent", agent, "--install", "--", "npx", "-y", servers[1], ".")
		do("secure-filesystem-server", "mcp", "test", "files", "--agent", agent, "--call", "list_directory", "--input", `{"path":"."}`)
	})
	t.Run("ECO-3 a package of Python is installed once and runs in a sandbox without a network", func(t *testing.T) {
		wheel(t, work)
		t.Setenv("PIP_FIND_LINKS", work)
		t.Setenv("PIP_NO_INDEX", "1")
		t.Setenv("UV_FIND_LINKS", work)
		t.Setenv("UV_NO_INDEX", "1")
		do("mcp__tiny__args", "mcp", "add", "tiny", "--agent", agent, "--install", "--", "uvx", "tiny-server", "one", "two")
		do("one two", "mcp", "test", "tiny", "--agent", agent, "--call", "args")
		text, err := os.ReadFile(agent)
		if err != nil || !strings.Contains(string(text), "tiny_server@1.2.3") {
			t.Errorf("%s %v", text, err)
		}
	})
}
