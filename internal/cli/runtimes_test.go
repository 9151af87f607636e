package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
)

func TestRuntimes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	agents := filepath.Join(d.dir, "agents")
	write := func(t *testing.T, name, more string) {
		t.Helper()
		at := filepath.Join(agents, "runtimes", name+".toml")
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("name = %q\nkind = \"acp\"\ncommand = %q\ncapabilities = {gate_tools = \"native\"}\n%s\n", name, os.Args[0], more)
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := func(more string) string {
		r := runtimetest.Runtime("acp", t.TempDir())
		var all []string
		for k, v := range r.Env {
			all = append(all, fmt.Sprintf("%s = %q", k, v))
		}
		return "env = {" + strings.Join(all, ", ") + more + "}"
	}
	t.Run("ID-3a ID-6a CLI-7 runtimes are listed and shown, those of a project beside the presets", func(t *testing.T) {
		tried := "verified " + runtime.Presets()["claude"].Verified
		d.want(0, []string{"claude", "preset", tried, "unverified", "opencode acp"}, "runtimes", "list", "--agents", filepath.Join(d.dir, "none"))
		write(t, "mine", env(""))
		d.want(0, []string{`"name": "mine"`, `"preset": false`, `"status": "unverified"`}, "runtimes", "show", "mine", "--agents", agents, "--json")
		d.want(0, []string{"in its sandbox", "anywhere"}, "runtimes", "list", "--agents", filepath.Join(d.dir, "none"))
		d.want(0, []string{"while its sandbox is there", "no session.transcripts are stored"}, "runtimes", "show", "opencode", "--agents", agents)
		d.want(0, []string{"asks before it acts", "none", "also in another sandbox"}, "runtimes", "show", "codex", "--agents", agents)
		d.want(5, []string{"there is no runtime"}, "runtimes", "show", "other", "--agents", agents)
	})
	t.Run("ID-6a SAFE-1 a fault in a file is told with its line", func(t *testing.T) {
		write(t, "bad", "comand = 1")
		d.want(2, []string{"runtimes/bad.toml:5: comand", "command"}, "runtimes", "list", "--agents", agents)
		if err := os.Remove(filepath.Join(agents, "runtimes", "bad.toml")); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("ID-6a ECO-6a C43 a check starts what was accepted, and sees whether it asks before it acts", func(t *testing.T) {
		check := []string{"runtimes", "check", "mine", "--agents", agents, "--sandbox", "host"}
		d.want(4, []string{"not accepted", "inspan trust"}, check...)
		d.want(0, []string{"fake 1.2.3", "in sandbox host: refused"}, append(check, "--trust")...)
		d.want(0, []string{`"canary": "refused"`, `"version": "fake 1.2.3"`}, append(check, "--trust", "--json")...)
		d.want(0, []string{"checked fake 1.2.3: refused (host, "}, "runtimes", "list", "--agents", agents)
		d.want(0, []string{`"status": "checked fake 1.2.3: refused (host, `, `"canary": "refused"`}, "runtimes", "show", "mine", "--agents", agents, "--json")
		write(t, "mine", env("")+"\nverified = \"1.0\"") // another file was never checked
		d.want(0, []string{`"status": "verified 1.0"`}, "runtimes", "show", "mine", "--agents", agents, "--json")
		write(t, "sly", env(`, INSPAN_FAKE_SLY = "1"`))
		d.want(1, []string{"done without asking", "gate_tools"}, "runtimes", "check", "sly", "--agents", agents, "--sandbox", "host", "--trust")
		d.want(0, []string{"failed fake 1.2.3: done without asking (host, "}, "runtimes", "show", "sly", "--agents", agents)
	})
}
