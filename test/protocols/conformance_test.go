//go:build slow

package protocols

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// conformance is the suite of the authors of MCP, with the Node.js that it needs.
var conformance = []string{"@modelcontextprotocol/conformance@0.1.16", "node@22"}

// served are the scenarios for servers that need nothing but a server. The others call tools, prompts and resources of
// the suite's own example, such as test_simple_text, and completion, which no tool of an agent has.
var served = []string{"server-initialize", "logging-set-level", "ping", "tools-list",
	"server-sse-multiple-streams", "resources-list", "prompts-list", "dns-rebinding-protection"}

// used are the scenarios for clients, with what is wrong where one cannot hold.
var used = map[string]string{
	"initialize": "", "tools_call": "", "sse-retry": "",
	"auth/metadata-default": "", "auth/metadata-var1": "", "auth/metadata-var2": "", "auth/metadata-var3": "",
	"auth/scope-from-www-authenticate": "", "auth/scope-from-scopes-supported": "", "auth/scope-omitted-when-undefined": "",
	"auth/scope-step-up": "", "auth/scope-retry-limit": "", "auth/token-endpoint-auth-basic": "",
	"auth/token-endpoint-auth-post": "", "auth/token-endpoint-auth-none": "", "auth/pre-registration": "",
	"auth/2025-03-26-oauth-endpoint-fallback": "", "auth/resource-mismatch": "", "auth/offline-access-scope": "",
	"auth/offline-access-not-supported":         "",
	"elicitation-sep1034-client-defaults":       "what a server asks of a client is refused",
	"auth/basic-cimd":                           "it warns: a client that has no page on the web has no id that is one",
	"auth/2025-03-26-oauth-metadata-backcompat": "its issuer is not where it is published, which RFC 8414 has clients refuse",
}

// suite runs a scenario, and returns what it printed and whether all of its checks passed.
func (p place) suite(t *testing.T, env []string, args ...string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bin := filepath.Join(p.clients, "node_modules/.bin")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "conformance"), args...)
	cmd.Env, cmd.Dir = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), env...), t.TempDir()
	out, err := cmd.CombinedOutput()
	out = out[max(0, len(out)-8<<10):] // the end has what failed
	return string(out), err == nil && strings.Contains(string(out), ", 0 failed, 0 warnings")
}

func TestConformance(t *testing.T) {
	p := open(t, conformance...)
	target, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	// The suite cannot send a token, and what it sends as its Host and Origin are those of the address that it was given.
	before := httptest.NewServer(nil)
	defer before.Close()
	before.Config.Handler = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = strings.ReplaceAll(r.In.Host, before.Listener.Addr().String(), target.Host)
		if origin := r.In.Header.Get("Origin"); origin != "" {
			r.Out.Header.Set("Origin", strings.ReplaceAll(origin, before.Listener.Addr().String(), target.Host))
		}
		r.Out.Header.Set("Authorization", "Bearer "+p.token)
	}}
	for _, name := range served {
		t.Run("ECO-4 the gateway as a server: "+name, func(t *testing.T) {
			if out, ok := p.suite(t, nil, "server", "--url", before.URL+"/mcp", "--scenario", name); !ok {
				t.Errorf("%s", out)
			}
		})
	}
	program := filepath.Join(p.dir, "inspan")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/inspan").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, why := range used {
		t.Run("ECO-3 agents as a client: "+name, func(t *testing.T) {
			out, ok := p.suite(t, []string{"INSPAN_PROGRAM=" + program}, "client", "--scenario", name, "--command",
				"node "+filepath.Join(p.clients, "conformance.mjs"))
			switch {
			case why == "" && !ok:
				t.Errorf("%s", out)
			case why != "" && ok:
				t.Errorf("it passes, so %q is not so", why)
			case why != "":
				t.Logf("does not hold, as expected: %s", why)
			}
		})
	}
}
