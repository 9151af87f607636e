package e2e

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
)

// portProbe says whether a command reaches the port that a file names.
const portProbe = `read p < port; if (exec 3<>/dev/tcp/127.0.0.1/$p) 2>why; then echo reached; else echo closed; cat why; fi`

func TestConsoleReach(t *testing.T) {
	t.Parallel()
	sandboxtest.Need(t, landlock.New([]string{"/proc/self/exe", launch.Word}, ""))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agents/a.prompt": "---\nname: a\ndescription: A\nversion: 1\nmodel: scripted/a\ntools: [bash]\nharness: {enabled: true}\n" +
			"sandbox: {mode: landlock, network: true}\n---\nDo it.\n",
		"scripts/a.yaml": "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: bash, input: {command: \"bash probe.sh\"}}\n" +
			"  - when: {turn: 2}\n    text: \"Result: {{result.1}}\"\n",
		"store/workspace/session/probe/probe.sh": portProbe + "\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	st, err := station.Up(t.Context(), station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "store"),
		AgentsDir: filepath.Join(dir, "agents"), ScriptsDir: filepath.Join(dir, "scripts"), Sandbox: "auto", LazySync: true,
		Console: true, Log: zerolog.Nop(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	address := station.Consoles(st).Address()
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "127.0.0.1" {
		t.Fatalf("PLUS-9 it listens at %q, %v", address, err)
	}
	t.Run("SBX-13 PLUS-9 a command with an open network does not reach the listener", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "store/workspace/session/probe/port"), []byte(port+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := operator.On(st.Conn(), st.Name())
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.Start(t.Context(), events.Task{Agent: "a", Task: "look", Session: "probe"})
		if err != nil {
			t.Fatal(err)
		}
		output := ""
		for item, err := range c.Watch(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if r := item.State.Result; r != nil {
				output = r.Output
			}
		}
		if !strings.Contains(output, "closed") || strings.Contains(output, "reached") {
			t.Errorf("got %q", output)
		}
		// The same listener is reached from outside of a sandbox.
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("outside: %v", err)
		}
		_ = conn.Close()
	})
}
