package mcptest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Grants is an MCP server behind an authorization server, both at one address. It grants whatever is asked, gives each
// access token for Life seconds, and takes a refresh token once: whoever sends one twice loses the grant.
type Grants struct {
	*httptest.Server
	// Life of access tokens in seconds. Set before the first request.
	Life int
	// Scope is what calls of tools need; "" is nothing. Set before the first request.
	Scope string
	// Refuse makes the authorization server refuse who asks.
	Refuse bool

	mu sync.Mutex
	// codes and their challenges, access tokens that are good, and refresh tokens with whether they were used. Guarded by
	// mu.
	codes   map[string]string
	access  map[string]bool
	scopes  map[string]string // of codes and access tokens
	refresh map[string]bool
	// Renewed counts the exchanges of refresh tokens, Reused those of used ones. Guarded by mu.
	renewed, reused int
}

// NewGrants starts one with the tools of a server.
func NewGrants(server *sdk.Server, life int) *Grants {
	g := &Grants{Life: life, codes: map[string]string{}, access: map[string]bool{}, refresh: map[string]bool{},
		scopes: map[string]string{}}
	mcp := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	mux := http.NewServeMux()
	g.Server = httptest.NewServer(mux)
	mux.HandleFunc("/.well-known/oauth-protected-resource", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"resource": g.URL + "/mcp", "authorization_servers": []string{g.URL}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"issuer": g.URL, "authorization_endpoint": g.URL + "/authorize",
			"token_endpoint": g.URL + "/token", "registration_endpoint": g.URL + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}})
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]any
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
			return
		}
		asked["client_id"] = "client-of-the-test"
		answer(w, http.StatusCreated, asked)
	})
	mux.HandleFunc("GET /authorize", g.authorize)
	mux.HandleFunc("POST /token", g.token)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		g.mu.Lock()
		good, scope := g.access[token], g.scopes[token]
		g.mu.Unlock()
		if !good {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+g.URL+`/.well-known/oauth-protected-resource"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		data, err := io.ReadAll(r.Body)
		if err == nil && g.Scope != "" && bytes.Contains(data, []byte(`"tools/call"`)) && !slices.Contains(strings.Fields(scope), g.Scope) {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+g.Scope+`"`)
			http.Error(w, "not that", http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		mcp.ServeHTTP(w, r)
	})
	return g
}

// Counts returns how often a grant was renewed, and how often with a token that was used before.
func (g *Grants) Counts() (renewed, reused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.renewed, g.reused
}

// Revoke ends all access tokens, as a server may at any time.
func (g *Grants) Revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.access)
}

// RevokeAll ends the grants, too.
func (g *Grants) RevokeAll() {
	g.Revoke()
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.refresh)
}

func (g *Grants) authorize(w http.ResponseWriter, r *http.Request) {
	q, back := r.URL.Query(), url.Values{}
	back.Set("state", q.Get("state"))
	if g.Refuse {
		back.Set("error", "access_denied")
	} else {
		code := rand.Text()
		g.mu.Lock()
		g.codes[code], g.scopes[code] = q.Get("code_challenge"), q.Get("scope")
		g.mu.Unlock()
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (g *Grants) token(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	good, scope := false, g.scopes[r.FormValue("code")]
	switch r.FormValue("grant_type") {
	case "authorization_code":
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		challenge, ok := g.codes[r.FormValue("code")]
		good = ok && challenge == base64.RawURLEncoding.EncodeToString(sum[:])
		delete(g.codes, r.FormValue("code"))
	case "refresh_token":
		used, ok := g.refresh[r.FormValue("refresh_token")]
		good = ok && !used
		g.renewed++
		if used {
			g.reused++
			clear(g.refresh)
			clear(g.access)
		}
		if good {
			g.refresh[r.FormValue("refresh_token")] = true
		}
	}
	if !good {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	g.access[access], g.refresh[refresh], g.scopes[access] = true, false, scope
	answer(w, http.StatusOK, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer",
		"expires_in": g.Life})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
