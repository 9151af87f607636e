package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mcp/mcptest"
)

func TestMCPCommands(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	const text = "---\n# The agent.\nmodel: scripted/served # no key\nharness: agentic\ntools:\n  - read\n  - bash # careful\nsandbox: {mode: host}\n---\nWork.\n"
	file := filepath.Join(d.dir, "agents", "served.prompt")
	write := func(t *testing.T, at, text string) {
		t.Helper()
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is := func(t *testing.T, want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("the file is now\n%s\n%v, want\n%s", got, err, want)
		}
	}
	write(t, file, text)
	add := func(more ...string) []string {
		return append(append([]string{"mcp", "add", "test", "--agent", file}, more...), "--", self)
	}
	t.Run("CLI-7 a server that does not answer, or is described wrongly, leaves the file as it is", func(t *testing.T) {
		d.want(1, nil, add("--env", mcptest.Var+"="+mcptest.Crash)...)
		d.want(1, nil, add("--env", "A_TOKEN=plain")...)
		for _, args := range [][]string{{"mcp", "add", "test", "--agent", file}, {"mcp", "add", "test", "--", self}, add("--url", "https://a.example"),
			{"mcp", "add", "x", "--agent", file, "--url", "https://a.example", "--header", "no"}, add("--install")} {
			d.want(2, nil, args...)
		}
		d.want(5, nil, "mcp", "add", "test", "--agent", filepath.Join(d.dir, "none.prompt"), "--", self)
		is(t, text)
	})
	t.Run("ECO-3 CLI-7 a server is added, its tools are pinned and shown, and the rest of the file stays", func(t *testing.T) {
		var got struct {
			Tools []struct{ Name, Call, Effect, Disabled string }
		}
		s := d.want(0, nil, add("--env", mcptest.Var+"="+mcptest.Good, "--tools", "e*,count", "--effects", "echo=read", "--json")...)
		if err := json.Unmarshal([]byte(s.out), &got); err != nil {
			t.Fatalf("%v: %s", err, s.out)
		}
		found := map[string]string{}
		for _, r := range got.Tools {
			if r.Disabled == "" {
				found[r.Call] = r.Effect
			}
		}
		if len(found) != 3 || found["mcp__test__echo"] != "read" || found["mcp__test__count"] != "once" || found["mcp__test__env"] != "once" {
			t.Errorf("the agent gets %v", found)
		}
		is(t, strings.Replace(strings.Replace(text, "careful\n", "careful\n  - mcp:test/e*\n  - mcp:test/count\n", 1), "sandbox: {mode: host}\n",
			"sandbox: {mode: host}\nmcp:\n  test:\n    command: ["+self+"]\n    env: {"+mcptest.Var+": good}\n    effects: {echo: read}\n", 1))
		d.want(0, []string{"mcp__test__echo"}, "tools", "--agent", file, "--check")
		d.want(2, nil, add()...) // it is there
	})
	t.Run("CLI-7 servers are listed with transport, tools and state", func(t *testing.T) {
		d.want(0, []string{"served", "stdio", "3 of ", "pinned"}, "mcp", "list", "--dir", filepath.Join(d.dir, "agents"))
		s := d.want(0, nil, "mcp", "list", "--dir", filepath.Join(d.dir, "agents"), "--json")
		if !strings.Contains(s.out, `"transport": "stdio"`) {
			t.Error(s.out)
		}
	})
	t.Run("CLI-7 a server is tried: started, listed and called, with times", func(t *testing.T) {
		d.want(0, []string{"start", "list", "call", "hello there", "mcptest"}, "mcp", "test", "test", "--agent", file, "--call", "echo", "--input", `{"text":"hello there"}`)
		d.want(1, []string{"the disk is full"}, "mcp", "test", "test", "--agent", file, "--call", "fail")
		d.want(2, nil, "mcp", "test", "test", "--agent", file, "--call", "echo", "--input", `[]`)
		d.want(5, nil, "mcp", "test", "other", "--agent", file)
	})
	t.Run("CLI-7 a server is removed with its tools and pins, and the file is as it was", func(t *testing.T) {
		d.want(0, []string{"no longer"}, "mcp", "remove", "test", "--agent", file)
		is(t, text)
		if _, err := os.Stat(strings.TrimSuffix(file, ".prompt") + ".mcp.json"); err == nil {
			t.Error("its pins are still there")
		}
		d.want(5, nil, "mcp", "remove", "test", "--agent", file)
	})
}

// browsing runs a command, and opens the address that it shows in a browser.
func browsing(t *testing.T, args ...string) said {
	t.Helper()
	var out, errOut buffer
	ended := make(chan int, 1)
	go func() { ended <- mainWith(t.Context(), &out, &errOut, args...) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	opened := false
	for {
		select {
		case code := <-ended:
			return said{code, out.String(), errOut.String()}
		case <-tick.C:
		}
		_, after, ok := strings.Cut(errOut.String(), "\n\n  ")
		address, _, whole := strings.Cut(after, "\n")
		if opened || !ok || !whole {
			continue
		}
		opened = true
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = resp.Body.Close()
	}
}

// TestMCPLogin signs in at a server with OAuth, as a person with a browser does.
func TestMCPLogin(t *testing.T) {
	g := mcptest.NewGrants(mcptest.New(mcptest.Good, t.TempDir()), 3600)
	defer g.Close()
	d := newDesk(t)
	file := filepath.Join(d.dir, "agents", "signed.prompt")
	text := "---\nmodel: scripted/served\nharness: agentic\ntools: [read]\nsandbox: {mode: host}\n---\nWork.\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	add := []string{"mcp", "add", "tracker", "--agent", file, "--url", g.URL + "/mcp", "--login"}
	t.Run("ECO-3 CLI-7 without a folder for the grant it says what to set, and the file stays", func(t *testing.T) {
		s := d.want(2, nil, add...)
		if !strings.Contains(s.err, "export INSPAN_MCP_SECRETS=DIR") {
			t.Errorf("%s", s.err)
		}
		d.want(2, nil, append(add, "--header", "Authorization: secret:x")...)
	})
	secrets := filepath.Join(d.dir, "secrets")
	t.Setenv("INSPAN_MCP_SECRETS", secrets)
	t.Setenv("INSPAN_AGENTS", filepath.Join(d.dir, "agents"))
	t.Run("ECO-3 CLI-7 SAFE-11 a person signs in with a browser, the tools are pinned, and nothing shows a token", func(t *testing.T) {
		s := browsing(t, add...)
		if s.code != 0 || !strings.Contains(s.err, "is renewed without you") {
			t.Fatalf("%d %s %s", s.code, s.out, s.err)
		}
		got, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(got), "headers: {Authorization: secret:tracker}") {
			t.Errorf("%s, %v", got, err)
		}
		shown := s.out + s.err + d.want(0, []string{`"pinned": 19`}, "mcp", "list", "--json").out +
			d.want(0, []string{"hello"}, "mcp", "test", "tracker", "--agent", file, "--call", "echo", "--input", `{"text":"hello"}`).out
		if strings.Contains(shown, "access-") || strings.Contains(shown, "refresh-") {
			t.Errorf("a token is shown:\n%s", shown)
		}
	})
	t.Run("ECO-3 CLI-7 a grant that has ended is said, and signing in again mends it", func(t *testing.T) {
		g.RevokeAll()
		s := d.want(1, nil, "mcp", "test", "tracker", "--agent", file)
		if !strings.Contains(s.err, "inspan mcp login") {
			t.Errorf("%s", s.err)
		}
		if s := browsing(t, "mcp", "login", "tracker", "--agent", file, "--json"); s.code != 0 || !strings.Contains(s.out, `"secret": "tracker"`) {
			t.Fatalf("%d %s %s", s.code, s.out, s.err)
		}
		d.want(0, nil, "mcp", "test", "tracker", "--agent", file)
	})
	t.Run("ECO-3 CLI-7 a person who refuses is told so", func(t *testing.T) {
		g.Refuse = true
		if s := browsing(t, "mcp", "login", "tracker", "--agent", file); s.code != 1 || !strings.Contains(s.err, "access_denied") {
			t.Errorf("%d %s", s.code, s.err)
		}
	})
}
