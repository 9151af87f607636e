package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/internal/oauth"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// browse is a person who opens an address and does what the page says.
func browse(t *testing.T) func(string) {
	return func(address string) {
		go func() {
			req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, address, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		}()
	}
}

// signedIn is a server whose grant lies in a folder of secrets.
func signedIn(t *testing.T, life int) (g *mcptest.Grants, file string) {
	t.Helper()
	g = mcptest.NewGrants(mcptest.New(mcptest.Good, t.TempDir()), life)
	t.Cleanup(g.Close)
	grant, err := mcp.Login{Server: g.URL + "/mcp", Show: browse(t)}.Run(within(t))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "tracker")
	if err := grant.Write(file); err != nil {
		t.Fatal(err)
	}
	return g, file
}

// granted are the server of a test and its secrets, as a toolrunner has them.
func granted(t *testing.T, url, file string) (events.MCPServer, map[string]secret.Value) {
	t.Helper()
	v, err := stored(t, file).Secret(file)
	if err != nil {
		t.Fatal(err)
	}
	return events.MCPServer{Name: "test", URL: url, Headers: map[string]string{"Authorization": "secret:tracker"}},
		map[string]secret.Value{"tracker": v}
}

func stored(t *testing.T, file string) oauth.Grant {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, ok := oauth.Parse(string(text))
	if !ok {
		t.Fatalf("%s is no grant", text)
	}
	return g
}

func TestGrants(t *testing.T) {
	t.Parallel()
	t.Run("ECO-3 SAFE-11 a person signs in once, and tools are called with the token, which no result shows", func(t *testing.T) {
		t.Parallel()
		g, file := signedIn(t, 3600)
		s, secrets := granted(t, g.URL+"/mcp", file)
		b := pinned(t, s, secrets)
		r, err := b.call(within(t), "mcp__test__echo", `{"text":"I saw `+stored(t, file).Access+`"}`)
		if err != nil || r.Failed || r.Output != "I saw ***" {
			t.Errorf("%+v, %v", r, err)
		}
		if renewed, _ := g.Counts(); renewed != 0 {
			t.Errorf("renewed %d times", renewed)
		}
	})
	t.Run("ECO-3 a token at its end is renewed and stored, by one of many at a time", func(t *testing.T) {
		t.Parallel()
		g, file := signedIn(t, 1) // at its end as soon as it is there
		first := stored(t, file)
		before, _ := g.Counts() // the sign-in itself may have renewed it
		g.Life = 3600
		s, secrets := granted(t, g.URL+"/mcp", file)
		var all sync.WaitGroup
		for range 8 { // each as a process of its own, which knows the first token alone
			all.Go(func() {
				if _, err := mcp.Ask(within(t), s, secrets, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		renewed, reused := g.Counts()
		if now := stored(t, file); renewed != before+1 || reused != 0 || now.Access == first.Access || now.Refresh == first.Refresh {
			t.Errorf("renewed %d times, %d with a used token", renewed, reused)
		}
	})
	t.Run("ECO-3 a token that the server takes back is renewed by the next call", func(t *testing.T) {
		t.Parallel()
		g, file := signedIn(t, 3600)
		s, secrets := granted(t, g.URL+"/mcp", file)
		b := pinned(t, s, secrets)
		g.Revoke()
		if _, err := b.call(within(t), "mcp__test__echo", `{"text":"x"}`); err == nil || !strings.Contains(err.Error(), "mcp login") {
			t.Errorf("%v", err)
		}
		g.RevokeAll()
		if _, err := b.call(within(t), "mcp__test__echo", `{"text":"x"}`); tool.ClassOf(err) != tool.Denied ||
			!strings.Contains(err.Error(), "inspan mcp login") || strings.Contains(err.Error(), stored(t, file).Refresh) {
			t.Errorf("%v", err)
		}
	})
	t.Run("ECO-3 a call that needs more than was granted says which scopes to sign in for, and goes with them", func(t *testing.T) {
		t.Parallel()
		g, file := signedIn(t, 3600)
		g.Scope = "files:write"
		s, secrets := granted(t, g.URL+"/mcp", file)
		b := pinned(t, s, secrets)
		if _, err := b.call(within(t), "mcp__test__echo", `{"text":"x"}`); tool.ClassOf(err) != tool.Denied || !strings.Contains(err.Error(), "--scope 'files:write'") {
			t.Errorf("%v", err)
		}
		grant, err := mcp.Login{Server: g.URL + "/mcp", Scopes: []string{"files:write"}, Show: browse(t)}.Run(within(t))
		if err == nil {
			err = grant.Write(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, secrets = granted(t, g.URL+"/mcp", file)
		if r, err := pinned(t, s, secrets).call(within(t), "mcp__test__echo", `{"text":"x"}`); err != nil || r.Output != "x" {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("ECO-3 what a server names as scopes is shown where a person can copy it, and only there", func(t *testing.T) {
		t.Parallel()
		for _, scope := range []string{"a' && rm -rf ~ '", strings.Repeat("x", 257), "s\u00fc"} {
			g, file := signedIn(t, 3600)
			g.Scope = scope
			s, secrets := granted(t, g.URL+"/mcp", file)
			if _, err := pinned(t, s, secrets).call(within(t), "mcp__test__echo", `{"text":"x"}`); tool.ClassOf(err) != tool.Denied || strings.Contains(err.Error(), "--scope") {
				t.Errorf("%q: %v", scope, err)
			}
		}
	})
	t.Run("SAFE-11 a grant is not sent to another server, and in no other header", func(t *testing.T) {
		t.Parallel()
		_, file := signedIn(t, 3600)
		var asked sync.Map
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.Header.Get("Authorization"), true) }))
		defer other.Close()
		s, secrets := granted(t, other.URL, file)
		if _, err := mcp.Ask(within(t), s, secrets, nil); err == nil || !strings.Contains(err.Error(), "for another server") {
			t.Errorf("%v", err)
		}
		s.Headers = map[string]string{"X-Key": "secret:tracker"}
		if _, err := mcp.Ask(within(t), s, secrets, nil); err == nil || !strings.Contains(err.Error(), "the header X-Key") {
			t.Errorf("%v", err)
		}
		asked.Range(func(k, _ any) bool { t.Errorf("it was sent %q", k); return true })
	})
	t.Run("ECO-3 who refuses, who never comes back and who asks for nothing are told apart", func(t *testing.T) {
		t.Parallel()
		g := mcptest.NewGrants(mcptest.New(mcptest.Good, t.TempDir()), 60)
		defer g.Close()
		g.Refuse = true
		shown := 0
		_, err := mcp.Login{Server: g.URL + "/mcp", Show: func(a string) { shown++; browse(t)(a) }}.Run(within(t))
		if err == nil || !strings.Contains(err.Error(), "access_denied") || shown != 1 {
			t.Errorf("asked %d times: %v", shown, err)
		}
		ctx, cancel := context.WithCancel(within(t))
		if _, err := (mcp.Login{Server: g.URL + "/mcp", Show: func(string) { cancel() }}).Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		s, _, _ := remote(t, nil)
		short, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := (mcp.Login{Server: s.URL, Show: browse(t)}).Run(short); err == nil {
			t.Error("a server that knows no OAuth was signed in to")
		}
	})
}
