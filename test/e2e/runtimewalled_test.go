package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

func TestRuntimeModelInSandbox(t *testing.T) {
	t.Parallel()
	sandboxtest.Need(t, bwrap.New("", ""))
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"type":"message","usage":{"input_tokens":10,"output_tokens":20}}`)
	}))
	t.Cleanup(provider.Close)
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.ports.Egress = network(t, func(http.ResponseWriter, *http.Request) {})
	secrets := filepath.Join(w.dir, "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secrets, runtimetest.KeyEnv), []byte("sk-the-key-of-the-provider"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.tune = func(c *service.Config) {
		c.MCPSecrets, c.SandboxReadOnly = secrets, []string{filepath.Dir(self)}
	}
	r := runtimetest.Asking(runtimetest.Homely(events.DriverACP), provider.URL)
	r.Command = []string{self}
	for name, box := range map[string]events.Sandbox{"walled": {Mode: "bwrap", AllowedHosts: []string{"other.example"}},
		"open": {Mode: "bwrap", Network: true}} {
		w.agent(events.Agent{Name: name, Model: "runtime/fake", Prompt: "Work.", Runtime: &r, Sandbox: box,
			Tools: []string{"bash", events.ToolRuntime}}, "")
	}
	w.start()
	t.Run("PLUS-12e PLUS-12c a program in a sandbox with one way out asks its model at the proxy, and its session is stored", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "walled", Agent: "walled", Task: "!model 100\n!say end"})
		s := w.ended("walled")
		if s.Status != events.Completed || !strings.Contains(s.Plan.Steps[0].Output, "model: 200") || s.Tokens.Output != 20 {
			t.Errorf("%s: %q, %+v\n%s", s.Status, s.Plan.Steps[0].Output, s.Tokens, w.story("walled"))
		}
		if n := strings.Count(w.story("walled"), string(events.CallProgressed)); n < 2 {
			t.Errorf("its session was not stored:\n%s", w.story("walled"))
		}
	})
	t.Run("PLUS-12e SBX-13 a program in a sandbox with an open network is told what it needs", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "open", Agent: "open", Task: "!model 100"})
		s := w.ended("open")
		if s.Status != events.Failed || !strings.Contains(s.Plan.Steps[0].Error, "no address at which the program could ask its model") {
			t.Errorf("%s: %+v", s.Status, s.Plan.Steps)
		}
	})
}
