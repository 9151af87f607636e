package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

func TestMain(m *testing.M) {
	if !mcptest.Main() {
		m.Run()
	}
}

// patience bounds what must not hang.
const patience = 5 * time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// box opens the best sandbox of this machine on a workspace of its own.
func instance(t *testing.T) sandbox.Sandbox {
	t.Helper()
	b, err := backends.Local("").Pick(within(t), sandbox.Auto)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x, err := b.Open(within(t), sandbox.Config{ID: "mcp", Workspace: dir, ReadOnly: []string{filepath.Dir(self)}, Network: b.Mode() == sandbox.Host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Destroy(context.WithoutCancel(t.Context())) })
	return x
}

// program is this test binary as a server.
func program(t *testing.T, kind string) events.MCPServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return events.MCPServer{Name: "test", Command: []string{self}, Env: map[string]string{mcptest.Var: kind}}
}

// bench is an agent whose pins were made by asking the server itself.
type bench struct {
	t       *testing.T
	agent   events.Agent
	tools   *tool.Registry
	sandbox sandbox.Sandbox
}

func pinned(t *testing.T, s events.MCPServer, secrets map[string]secret.Value) *bench {
	t.Helper()
	b := &bench{t: t, sandbox: instance(t)}
	pins, err := mcp.AskSoon(within(t), s, secrets, b.sandbox, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	b.agent, _ = agentfile.Pin(events.Agent{Name: "a", Digest: "d", Tools: []string{"read", "mcp:test/*"}, MCP: []events.MCPServer{s}},
		agentfile.Pins{Version: agentfile.PinsVersion, Servers: map[string]agentfile.ServerPins{s.Name: pins}})
	base, err := tool.NewRegistry(tools.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	b.tools = mcp.New(base, secrets).For(b.agent)
	return b
}

// become puts another server behind the pins.
func (b *bench) become(s events.MCPServer) {
	a := b.agent
	s.Tools, s.Protocol, s.Effects = a.MCP[0].Tools, a.MCP[0].Protocol, a.MCP[0].Effects
	a.MCP = []events.MCPServer{s}
	base, err := tool.NewRegistry(tools.Builtin()...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.agent, b.tools = a, mcp.New(base, nil).For(a)
}

func (b *bench) call(ctx context.Context, name, input string) (tool.Result, error) {
	b.t.Helper()
	x, ok := b.tools.Get(name)
	if !ok {
		b.t.Fatalf("there is no tool %q among %q", name, b.tools.Names())
	}
	return x.Run(ctx, tool.Call{ID: "c1", Key: "k1", Input: json.RawMessage(input), Env: tool.Env{Sandbox: b.sandbox, Progress: func(string, []byte) {}, MaxOutput: 16 << 10}})
}

func (b *bench) file(name string) string {
	data, err := os.ReadFile(filepath.Join(b.sandbox.Workspace(), name))
	if err != nil {
		return ""
	}
	return string(data)
}
