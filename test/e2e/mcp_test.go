package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/microvm/fctest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestMain(m *testing.M) {
	if launch.Asked(os.Args) {
		launch.Main() // which becomes the command
		return
	}
	if !inside.Main() && !runtimetest.Main() && !mcptest.Main() && !fctest.Main() && !servedMain() {
		m.Run()
	}
}

// theSecret is what a header holds and no one may see.
const theSecret = "Bearer a-token-that-nobody-sees"

// pinned writes an agent file, pins the tools of its servers as inspan tools --pin does, and registers it.
func (w *world) pinned(name, front, script string) {
	w.t.Helper()
	at := filepath.Join(w.dir, "agents", name+agentfile.Ext)
	file := "---\nmodel: scripted/" + name + "\n" + front + "---\nWork.\n"
	if err := os.WriteFile(at, []byte(file), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "scripts", name+".yaml"), []byte(script), 0o644); err != nil {
		w.t.Fatal(err)
	}
	a, _, err := agentfile.Parse(name, []byte(file))
	if err != nil {
		w.t.Fatal(err)
	}
	sb, err := host.New(w.t.TempDir()).Open(w.ctx(), sandbox.Config{ID: "pin", Workspace: w.t.TempDir(), Network: true})
	if err != nil {
		w.t.Fatal(err)
	}
	pins := agentfile.Pins{Version: agentfile.PinsVersion, Servers: map[string]agentfile.ServerPins{}}
	for _, s := range a.MCP {
		if pins.Servers[s.Name], err = mcp.Ask(w.ctx(), s, map[string]secret.Value{"token": secret.New(theSecret)}, sb); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := pins.Write(at); err != nil {
		w.t.Fatal(err)
	}
	w.register()
}

func (w *world) register() {
	w.t.Helper()
	if _, _, err := (&service.Agents{KV: w.ports.Config}).Register(w.ctx(), filepath.Join(w.dir, "agents")); err != nil {
		w.t.Fatal(err)
	}
}

// front is the part of an agent file that names this test binary as the server files.
func front(t *testing.T, kind, tools, more string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "tools: [" + tools + "]\nmcp:\n  files:\n    command: [" + self + "]\n    env: {" + mcptest.Var + ": " + kind + ", TOKEN: \"secret:token\"}\n" + more
}

// inWorkspace reads a file of a run's workspace, "" where there is none.
func (w *world) inWorkspace(s run.State, name string) string {
	b, err := os.ReadFile(filepath.Join(w.dir, "work", s.Created.Workspace, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func mcpWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	secrets := t.TempDir()
	if err := os.WriteFile(filepath.Join(secrets, "token"), []byte(theSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.tune = func(c *service.Config) { c.MCPSecrets = secrets }
	return w
}

func TestMCP(t *testing.T) {
	t.Parallel()
	w := mcpWorld(t)
	w.pinned("caller", front(t, mcptest.Good, `read, "mcp:files/echo"`, "    effects: {echo: read}\n"), calling("mcp__files__echo", "{text: hello}"))
	w.pinned("writer", front(t, mcptest.Good, `"mcp:files/*"`, ""), calling("mcp__files__write", "{}"))
	w.pinned("wrong", front(t, mcptest.Good, `"mcp:files/*"`, ""), calling("mcp__files__echo", "{words: hello}"))
	w.pinned("stranger", front(t, mcptest.Good, `"mcp:files/echo"`, ""), calling("mcp__files__write", "{}"))
	w.pinned("guarded", front(t, mcptest.Good, `"mcp:files/*"`, "")+"guards:\n  - {id: hands-off, tool: \"mcp:files/wri*\", action: deny, reason: not here}\n", calling("mcp__files__write", "{}"))
	w.pinned("large", front(t, mcptest.Good, `"mcp:files/big"`, ""), calling("mcp__files__big", "{}"))
	w.pinned("failing", front(t, mcptest.Good, `"mcp:files/fail"`, ""), calling("mcp__files__fail", "{}"))
	w.pinned("curious", front(t, mcptest.Good, `"mcp:files/env"`, ""), calling("mcp__files__env", "{}"))
	w.pinned("patient", front(t, mcptest.Good, `"mcp:files/hang"`, "    timeout: 2s\n"), calling("mcp__files__hang", "{}"))
	w.start()
	do := func(t *testing.T, agent string) (*world, run.State) {
		w := w.on(t)
		w.task(events.Task{ID: "run-" + agent, Agent: agent, Task: "go"})
		return w, w.ended("run-" + agent)
	}
	only := func(t *testing.T, s run.State) run.CallRecord {
		t.Helper()
		if s.ToolCallHistory.Len() != 1 {
			t.Fatalf("%d calls, the run: %+v", s.ToolCallHistory.Len(), s.Result)
		}
		return s.ToolCallHistory.At(0)
	}
	t.Run("TOOL-13 ECO-3 an agent calls a tool of a server in its sandbox, and its definition is pinned in the run", func(t *testing.T) {
		w, s := do(t, "caller")
		if s.Status != events.Completed || s.Result.Output != "Result: hello" {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
		a := s.Agents["caller"]
		if _, pin := a.MCPTool("mcp__files__echo"); pin == nil || pin.Effect != "read" || len(pin.Digest) != 64 || len(a.MCP[0].Tools) != 1 {
			t.Errorf("%+v", a.MCP)
		}
		if n := w.count("run-caller"); n["call.started"] != 0 || n["call.finished"] != 1 {
			t.Errorf("a tool that the operator calls read needs no start: %v", n)
		}
	})
	t.Run("TOOL-17 SAFE-7 a tool without the operator's word is once: it is announced, and works in the workspace", func(t *testing.T) {
		w, s := do(t, "writer")
		if n := w.count("run-writer"); n["call.started"] != 1 || n["call.finished"] != 1 || w.inWorkspace(s, "mark") != "x\n" {
			t.Errorf("%v, wrote %q", n, w.inWorkspace(s, "mark"))
		}
	})
	t.Run("SAFE-12 arguments that do not fit the pinned schema never reach the server", func(t *testing.T) {
		_, s := do(t, "wrong")
		if r := only(t, s); r.Outcome != run.OutcomeRefused || r.Code != events.RefusedInput {
			t.Errorf("%+v", r)
		}
	})
	t.Run("TOOL-1 TOOL-14 a tool of the server that the agent does not name is refused", func(t *testing.T) {
		w, s := do(t, "stranger")
		if r := only(t, s); r.Code != events.RefusedPermission || w.inWorkspace(s, "mark") != "" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("TOOL-13 a rule over mcp:server/tool holds", func(t *testing.T) {
		w, s := do(t, "guarded")
		if r := only(t, s); r.Code != events.RefusedGuard || r.Rule != "hands-off" || w.inWorkspace(s, "mark") != "" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-15 what is too large for the log is stored as an object, whole", func(t *testing.T) {
		_, s := do(t, "large")
		if r := only(t, s); r.ResultRef == nil || r.ResultRef.Size != 340_000 || len(r.Result) > events.MaxInlineOutput {
			t.Errorf("%d bytes, %+v", len(r.Result), r.ResultRef)
		}
	})
	t.Run("TOOL-13 what a server calls an error is a result that the model sees", func(t *testing.T) {
		_, s := do(t, "failing")
		if r := only(t, s); r.Outcome != run.OutcomeFinished || r.Success || r.Result != "the disk is full" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("TOOL-6 TOOL-22 a call whose time is up is ended, and the server hears of it", func(t *testing.T) {
		w, s := do(t, "patient")
		if r := only(t, s); r.Code != "timeout" || w.inWorkspace(s, "cancelled") != "x\n" {
			t.Errorf("%+v, cancelled: %q", r, w.inWorkspace(s, "cancelled"))
		}
	})
	t.Run("SAFE-11 a secret reaches the server and stands in no event", func(t *testing.T) {
		w, s := do(t, "curious")
		if r := only(t, s); !strings.Contains(r.Result, "TOKEN=***") {
			t.Errorf("the server was not given it: %s", r.Result)
		}
		for _, f := range w.events("run-curious") {
			if strings.Contains(string(f.Bytes), "a-token-that-nobody-sees") {
				t.Errorf("it stands in %s", f.Bytes)
			}
		}
	})
}

func TestMCPGoesWrong(t *testing.T) {
	t.Parallel()
	w := mcpWorld(t)
	twice := "turns:\n  - when: {turn: {from: 1, to: 2}}\n    calls:\n      - {name: mcp__files__die, input: {}}\n  - when: {turn: 3}\n    text: done\n"
	w.pinned("dying", front(t, mcptest.Good, `"mcp:files/die"`, ""), twice)
	w.pinned("again", front(t, mcptest.Good, `"mcp:files/die"`, "    effects: {die: idempotent}\n")+"harness: {retry: {max_retries: 1, base_backoff: 10ms}}\n", calling("mcp__files__die", "{}"))
	w.pinned("changed", front(t, mcptest.Good, `"mcp:files/echo"`, ""), calling("mcp__files__echo", "{text: hello}"))
	at := filepath.Join(w.dir, "agents", "changed"+agentfile.Ext)
	if b, err := os.ReadFile(at); err != nil || os.WriteFile(at, []byte(strings.Replace(string(b), ": "+mcptest.Good, ": "+mcptest.Changed, 1)), 0o644) != nil {
		t.Fatal(err)
	}
	w.register()
	w.start()
	t.Run("SAFE-7 a server that dies in the middle of a once call: the outcome is unknown, and the same call stands before a person", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "dying", Agent: "dying", Task: "go"})
		s := w.await("dying", "waiting", waiting)
		if r := s.ToolCallHistory.At(0); r.Code != events.OutcomeUnknown || len(s.Unknown) != 1 {
			t.Errorf("%+v %v", r, s.Unknown)
		}
		if g := w.opened("dying"); g.Rule != "outcome-unknown" {
			t.Errorf("%+v", g)
		}
		if got := w.inWorkspace(s, "died"); got != "x\n" {
			t.Errorf("it was called %d times", strings.Count(got, "x"))
		}
		w.publish("station.test.run.dying.control", `{"action":"stop","reason":"enough"}`)
		w.ended("dying")
	})
	t.Run("TOOL-3 TOOL-4 a call that may run twice is tried again with backoff where the server died", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "again", Agent: "again", Task: "go"})
		s := w.ended("again")
		if n := w.count("again"); n["call.deferred"] != 1 || n["call.failed"] != 1 || w.inWorkspace(s, "died") != "x\nx\n" {
			t.Errorf("%v %q", n, w.inWorkspace(s, "died"))
		}
	})
	t.Run("ECO-3 a tool that changed since it was pinned is disabled, and the error says what an operator does", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "changed", Agent: "changed", Task: "go"})
		s := w.ended("changed")
		r := s.ToolCallHistory.At(0)
		if r.Code != "denied" || !strings.Contains(r.Hint, "--pin") || !strings.Contains(s.Result.Output, "from its pin") {
			t.Errorf("%+v", r)
		}
	})
}

func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	w := mcpWorld(t)
	server := mcptest.New(mcptest.Good, t.TempDir())
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != theSecret {
			http.Error(rw, "no", http.StatusForbidden)
			return
		}
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(web.Close)
	w.pinned("remote", "tools: [\"mcp:web/*\"]\nmcp:\n  web: {url: \""+web.URL+"\", headers: {Authorization: \"secret:token\"}}\n", calling("mcp__web__echo", "{text: over HTTP}"))
	w.start()
	t.Run("ECO-3 TOOL-13 an agent calls a tool of a server over HTTP, with a header that no event holds", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "remote", Agent: "remote", Task: "go"})
		s := w.ended("remote")
		if s.Status != events.Completed || s.Result.Output != "Result: over HTTP" {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
		doc, err := json.Marshal(s)
		if err != nil || strings.Contains(string(doc), "a-token-that-nobody-sees") {
			t.Errorf("the state holds the secret: %v", err)
		}
	})
}
