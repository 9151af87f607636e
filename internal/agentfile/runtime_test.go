package agentfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
)

func TestRuntime(t *testing.T) {
	t.Parallel()
	t.Run("ID-3a an agent names a runtime, whose file is pinned with it", func(t *testing.T) {
		t.Parallel()
		for _, head := range []string{"runtime: opencode\n", "model: runtime:opencode\n"} {
			a, _, err := agentfile.Parse("coder", []byte("---\n"+head+"tools: [bash, read]\n---\nWork.\n"))
			if err != nil {
				t.Fatal(err)
			}
			if a.Model != "runtime/opencode" || a.Runtime == nil || a.Runtime.Driver != events.DriverACP ||
				strings.Join(a.Tools, " ") != "bash read runtime" || a.Runtime.Command[1] != "acp" {
				t.Errorf("%s: got %+v", head, a)
			}
		}
	})
	t.Run("ID-6a a runtime of the folder is known, and a change of its file changes the agent", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write := func(name, text string) {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		mine := "name = \"mine\"\nkind = \"acp\"\ncommand = \"mine\"\ncapabilities = {gate_tools = \"native\"}\n"
		write("coder.prompt", "---\nruntime: mine\ntools: [bash]\n---\nWork.\n")
		write("runtimes/mine.toml", mine)
		before, _, err := agentfile.LoadDir(dir)
		if err != nil || before["coder"].Runtime.Name != "mine" {
			t.Fatalf("got %+v, %v", before, err)
		}
		write("runtimes/mine.toml", mine+"args = [\"x\"]\n")
		after, _, err := agentfile.LoadDir(dir)
		if err != nil || after["coder"].Digest == before["coder"].Digest {
			t.Errorf("got %+v, %v", after, err)
		}
		write("runtimes/mine.toml", "name = \"mine\"")
		if agents, _, err := agentfile.LoadDir(dir); err == nil || !strings.Contains(err.Error(), "runtimes/mine.toml") || len(agents) != 0 {
			t.Errorf("got %+v, %v", agents, err)
		}
	})
	t.Run("SAFE-1 what does not go with a runtime is an error", func(t *testing.T) {
		t.Parallel()
		for head, want := range map[string]string{
			"runtime: opncode\n":                     "opencode",
			"runtime: codex\nmodel: a/b\n":           "its own model",
			"runtime: codex\nplan: model\n":          "makes no plans",
			"runtime: codex\ntools: [git_push]\n":    "nothing that a runtime asks to do",
			"runtime: codex\ntools: [runtime]\n":     "nothing that a runtime asks to do",
			"runtime: codex\ntools: [\"mcp:a/b\"]\n": "nothing that a runtime asks to do",
		} {
			if _, _, err := agentfile.Parse("coder", []byte("---\n"+head+"---\nWork.\n")); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v", head, err)
			}
		}
	})
}
