package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// remote serves the test's tools over HTTP behind a token.
func remote(t *testing.T, opts *sdk.StreamableHTTPOptions) (s events.MCPServer, secrets map[string]secret.Value, asked *atomic.Int64) {
	t.Helper()
	server, asked := mcptest.New(mcptest.Good, t.TempDir()), new(atomic.Int64)
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "Bearer token-of-the-test" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return events.MCPServer{Name: "test", URL: web.URL, Headers: map[string]string{"Authorization": "secret:token"}},
		map[string]secret.Value{"token": secret.New("Bearer token-of-the-test")}, asked
}

func TestCalls(t *testing.T) {
	t.Parallel()
	results := func(t *testing.T, b *bench) {
		for _, c := range []struct {
			name, input, want string
			failed            bool
		}{
			{"echo", `{"text":"hello"}`, "hello", false},
			{"fail", `{}`, "the disk is full", true},
			{"structured", `{}`, `{"degrees":21}`, false},
			{"mixed", `{}`, "a picture:\n[image image/png, 20 bytes: stored with the full result]\n[resource file:///a.txt text/plain]\ninside of a.txt\n[link to https://example.com/b: b]", false},
			{"picture", `{}`, "look:\n[image image/gif, 1x1 pixels, 35 bytes]", false},
			{strings.TrimPrefix(agentfile.CallName("test", "Rub bish/näme!"), "mcp__test__"), `{}`, "called by a bad name", false},
		} {
			r, err := b.call(within(t), "mcp__test__"+c.name, c.input)
			if err != nil || r.Output != c.want || r.Failed != c.failed {
				t.Errorf("%s: %q failed=%t, %v; want %q failed=%t", c.name, r.Output, r.Failed, err, c.want, c.failed)
			}
			if c.name == "picture" && (len(r.Images) != 1 || !bytes.Equal(r.Images[0].Data, mcptest.Gif()) || r.Full != nil) {
				t.Errorf("PLUS-2 the picture does not reach the model: %+v", r)
			}
			if c.name == "mixed" && !strings.Contains(string(r.Full), `"mimeType":"image/png"`) {
				t.Errorf("the picture is not kept: %.200s", r.Full)
			}
		}
		r, err := b.call(within(t), "mcp__test__big", `{}`)
		if err != nil || len(r.Output) > 20<<10 || len(r.Full) != 340_000 {
			t.Errorf("big: %d bytes shown, %d kept, %v", len(r.Output), len(r.Full), err)
		}
		if _, err := b.call(within(t), "mcp__test__refuse", `{}`); tool.ClassOf(err) != tool.Permanent || !strings.Contains(err.Error(), "no such thing") {
			t.Errorf("refuse: %v", err)
		}
		r, err = b.call(within(t), "mcp__test__ask", `{}`)
		if err != nil || strings.Contains(r.Output, "GRANTED") || strings.Count(r.Output, "refused") != 3 {
			t.Errorf("ask: %q %v", r.Output, err)
		}
	}
	t.Run("TOOL-13 ECO-3 a program in the sandbox answers with every kind of content, and what it asks of us is refused", func(t *testing.T) {
		t.Parallel()
		results(t, pinned(t, program(t, mcptest.Good), nil))
	})
	for name, opts := range map[string]*sdk.StreamableHTTPOptions{"with sessions": nil, "without sessions": {Stateless: true}} {
		t.Run("ECO-3 a server over HTTP "+name+" answers with every kind of content", func(t *testing.T) {
			t.Parallel()
			s, secrets, _ := remote(t, opts)
			b := pinned(t, s, secrets)
			results(t, b)
		})
	}
	t.Run("ECO-3 the newest revision is spoken with who knows it, an older one with who does not", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		if got := b.agent.MCP[0].Protocol; got != "2026-07-28" {
			t.Errorf("spoke %s", got)
		}
		old := pinned(t, program(t, mcptest.Old), nil)
		if got := old.agent.MCP[0].Protocol; got != "2025-06-18" {
			t.Errorf("spoke %s with an old server", got)
		}
		r, err := old.call(within(t), "mcp__test__tool0", `{}`)
		if err != nil || r.Output != "old but working" {
			t.Errorf("the old server: %q %v", r.Output, err)
		}
	})
	t.Run("SAFE-11 TOOL-17 a program works in the workspace and sees nothing of the service's environment", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		r, err := b.call(within(t), "mcp__test__env", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(r.Output, "\n")
		if lines[0] != b.sandbox.Workspace() {
			t.Errorf("it works in %s", lines[0])
		}
		for _, l := range lines[1:] {
			name, _, _ := strings.Cut(l, "=")
			switch name {
			case "PATH", "HOME", "LANG", "TMPDIR", "TERM", "PWD", mcptest.Var, "INSPAN_SANDBOX_ID":
			default:
				t.Errorf("it sees %s", name)
			}
		}
	})
	t.Run("SAFE-11 a header's secret is sent and stands in no definition; a wrong or missing one says what to do", func(t *testing.T) {
		t.Parallel()
		s, secrets, asked := remote(t, nil)
		b := pinned(t, s, secrets)
		doc, err := json.Marshal(b.agent)
		if err != nil || strings.Contains(string(doc), "token-of-the-test") {
			t.Errorf("the definition: %s %v", doc, err)
		}
		_, err = mcp.Ask(within(t), s, map[string]secret.Value{"token": secret.New("Bearer wrong-token")}, b.sandbox)
		if tool.ClassOf(err) != tool.Denied || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "wrong-token") {
			t.Errorf("a wrong token: %v", err)
		}
		before := asked.Load()
		_, err = mcp.Ask(within(t), s, nil, b.sandbox)
		if err == nil || !strings.Contains(err.Error(), "INSPAN_MCP_SECRETS") || asked.Load() != before {
			t.Errorf("a missing token: %v, %d requests", err, asked.Load()-before)
		}
	})
	t.Run("SAFE-11 a redirect does not carry the header elsewhere", func(t *testing.T) {
		t.Parallel()
		var stolen atomic.Int64
		thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
		defer thief.Close()
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		}))
		defer web.Close()
		_, err := mcp.Ask(within(t), events.MCPServer{Name: "test", URL: web.URL, Headers: map[string]string{"X-Key": "secret:k"}},
			map[string]secret.Value{"k": secret.New("the-key-of-it")}, nil)
		if err == nil || stolen.Load() != 0 || !strings.Contains(err.Error(), "307") {
			t.Errorf("%v, the thief was asked %d times", err, stolen.Load())
		}
	})
}

func TestPins(t *testing.T) {
	t.Parallel()
	t.Run("ECO-3 a tool whose description changed is not called until an operator pins it again", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		b.become(program(t, mcptest.Changed))
		_, err := b.call(within(t), "mcp__test__echo", `{"text":"x"}`)
		if tool.ClassOf(err) != tool.Denied || !strings.Contains(err.Error(), "inspan tools --agent FILE --pin") {
			t.Errorf("got %v", err)
		}
		if r, err := b.call(within(t), "mcp__test__write", `{}`); err != nil || r.Output != "written" {
			t.Errorf("the tool that did not change: %q %v", r.Output, err)
		}
		x, _ := b.tools.Get("mcp__test__echo")
		if strings.Contains(x.Spec().Description, "id_rsa") {
			t.Error("the model is shown the new description")
		}
	})
	t.Run("SAFE-12 tools with hidden characters or a schema that is none are left out, with the reason", func(t *testing.T) {
		t.Parallel()
		pins, err := mcp.Ask(within(t), program(t, mcptest.Good), nil, instance(t))
		if err != nil {
			t.Fatal(err)
		}
		why := map[string]string{}
		for _, l := range pins.LeftOut {
			why[l.Name] = l.Why
		}
		if !strings.Contains(why["smuggle"], "U+E0041") || why["schema"] == "" || len(why) != 2 {
			t.Errorf("left out: %q", why)
		}
	})
	t.Run("ECO-3 the effect class is the operator's word: what the server says of itself decides nothing", func(t *testing.T) {
		t.Parallel()
		s := program(t, mcptest.Good)
		s.Effects = []events.MCPEffect{{Tool: "e*", Effect: "read"}, {Tool: "env", Effect: "idempotent"}}
		b := pinned(t, s, nil)
		for name, want := range map[string]tool.Effect{"echo": tool.Read, "env": tool.Idempotent, "big": tool.Once} {
			x, _ := b.tools.Get("mcp__test__" + name)
			if got := x.Spec().EffectOf(); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	})
	t.Run("SAFE-12 a pin with an effect class that no one knows, or with the name of another tool, is not offered", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		s := b.agent.MCP[0]
		for i := range s.Tools {
			switch s.Tools[i].Name {
			case "echo":
				s.Tools[i].Effect = "harmless"
			case "big":
				s.Tools[i].Call = "bash"
			}
		}
		b.become(program(t, mcptest.Good))
		for _, name := range []string{"mcp__test__echo", "mcp__test__big"} {
			if _, ok := b.tools.Get(name); ok {
				t.Errorf("%s is offered", name)
			}
		}
		if x, _ := b.tools.Get("bash"); x.Spec().Description == "Say much." {
			t.Error("bash is the server's")
		}
	})
}

func TestHostile(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{mcptest.Flood: "more than", mcptest.Garbage: "", mcptest.Crash: "no database<U+001B>[31m found",
		mcptest.Huge: "", mcptest.Endless: "pages"} {
		t.Run("SAFE-12 a server that is "+kind+" is an error within bounds, and nothing of it is left", func(t *testing.T) {
			t.Parallel()
			_, err := mcp.Ask(within(t), program(t, kind), nil, instance(t))
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 4<<10 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("TOOL-3 a server that cannot be started before a call was sent may be tried again, whatever the tool does", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		b.become(program(t, mcptest.Crash))
		if _, err := b.call(within(t), "mcp__test__write", `{}`); tool.ClassOf(err) != tool.Transient {
			t.Errorf("got %v", err)
		}
		b.become(events.MCPServer{Name: "test", Command: []string{"no-such-program-here"}})
		if _, err := b.call(within(t), "mcp__test__write", `{}`); tool.ClassOf(err) != tool.Permanent || !strings.Contains(err.Error(), "must install it") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-7 a server that dies in the middle of a call leaves an unknown outcome, unless the tool may run twice", func(t *testing.T) {
		t.Parallel()
		for effect, want := range map[string]tool.Class{"once": tool.Unknown, "read": tool.Transient, "idempotent": tool.Transient} {
			s := program(t, mcptest.Good)
			s.Effects = []events.MCPEffect{{Tool: "die", Effect: effect}}
			b := pinned(t, s, nil)
			_, err := b.call(within(t), "mcp__test__die", `{}`)
			if tool.ClassOf(err) != want || b.file("died") != "x\n" {
				t.Errorf("%s: %v, it began %q", effect, err, b.file("died"))
			}
		}
	})
	t.Run("SAFE-7 SAFE-12 a flood in the middle of a call ends the session, and the outcome is unknown", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		if _, err := b.call(within(t), "mcp__test__spam", `{}`); tool.ClassOf(err) != tool.Unknown || !strings.Contains(err.Error(), "more than") {
			t.Errorf("a program: %v", err)
		}
		s, secrets, _ := remote(t, nil)
		h := pinned(t, s, secrets)
		if _, err := h.call(within(t), "mcp__test__spam", `{}`); tool.ClassOf(err) != tool.Unknown || !strings.Contains(err.Error(), "more than") {
			t.Errorf("over HTTP: %v", err)
		}
	})
	t.Run("SAFE-7 a server over HTTP that is lost in the middle of a call leaves an unknown outcome", func(t *testing.T) {
		t.Parallel()
		s, secrets, _ := remote(t, nil)
		target, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		forward := httputil.NewSingleHostReverseProxy(target)
		between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil || bytes.Contains(data, []byte(`"tools/call"`)) {
				panic(http.ErrAbortHandler) // the connection breaks after the call has come
			}
			r.Body = io.NopCloser(bytes.NewReader(data))
			forward.ServeHTTP(w, r)
		}))
		defer between.Close()
		s.URL = between.URL
		s.Effects = []events.MCPEffect{{Tool: "echo", Effect: "read"}}
		b := pinned(t, s, secrets)
		if _, err := b.call(within(t), "mcp__test__write", `{}`); tool.ClassOf(err) != tool.Unknown {
			t.Errorf("a once call: %v", err)
		}
		if _, err := b.call(within(t), "mcp__test__echo", `{"text":"x"}`); tool.ClassOf(err) != tool.Transient {
			t.Errorf("a read call: %v", err)
		}
	})
	t.Run("TOOL-22 a call that is cancelled tells the server, and ends it", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		ctx, cancel := context.WithCancelCause(within(t))
		reason := errors.New("the run has ended")
		go func() {
			for b.file("began") == "" && ctx.Err() == nil {
				<-time.After(5 * time.Millisecond)
			}
			cancel(reason)
		}()
		_, err := b.call(ctx, "mcp__test__hang", `{}`)
		if !errors.Is(err, context.Canceled) || b.file("cancelled") != "x\n" {
			t.Errorf("got %v, the server noticed: %q", err, b.file("cancelled"))
		}
	})
	t.Run("TOOL-22 a call that is cancelled tells a server over HTTP", func(t *testing.T) {
		t.Parallel()
		told := make(chan string, 8)
		s, secrets, _ := remote(t, nil)
		target, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		between := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			data, err := io.ReadAll(r.In.Body)
			if err != nil {
				t.Error(err)
			}
			if r.Out.Body = io.NopCloser(bytes.NewReader(data)); bytes.Contains(data, []byte("notifications/cancelled")) {
				told <- "cancelled"
			}
			if bytes.Contains(data, []byte(`"tools/call"`)) {
				told <- "called"
			}
		}})
		defer between.Close()
		s.URL = between.URL
		b := pinned(t, s, secrets)
		ctx, cancel := context.WithCancel(within(t))
		go func() {
			<-told
			cancel()
		}()
		if _, err := b.call(ctx, "mcp__test__hang", `{}`); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		select {
		case <-told:
		case <-within(t).Done():
			t.Error("the server was not told")
		}
	})
	t.Run("TOOL-6 TOOL-22 a server that never answers is ended with the call's time", func(t *testing.T) {
		t.Parallel()
		b := pinned(t, program(t, mcptest.Good), nil)
		b.become(program(t, mcptest.Silent))
		ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := b.call(ctx, "mcp__test__write", `{}`)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 20*time.Second {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
	})
}
