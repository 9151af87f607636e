// Package oidctest has an OpenID Connect provider for tests, in the process of the test.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// Provider has one key, which signs what a test wants, and signs people in for clients without a secret.
type Provider struct {
	*httptest.Server
	// Away has it answer nothing.
	Away atomic.Bool
	key  *ecdsa.PrivateKey

	mu sync.Mutex
	// Guarded by mu: where clients are sent back to, codes that were not exchanged, and what a test wants of answers.
	clients map[string]string
	codes   map[string]code
	who     func(client, nonce string) map[string]any
	change  func(answer map[string]any) (status int)
}

// code of an authorization.
type code struct{ client, redirect, challenge, nonce string }

// New starts a provider, which ends with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	half := base64.RawURLEncoding.EncodeToString
	p := &Provider{key: key, clients: map[string]string{}, codes: map[string]code{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize",
			"token_endpoint": p.URL + "/token", "keys": []any{map[string]string{"kty": "EC", "kid": "k", "crv": "P-256", "x": half(public[1:33]), "y": half(public[33:])}}})
	})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.Away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Register registers a client. who says who signs in: the claims of the ID token of a client.
func (p *Provider) Register(client, redirect string, who func(client, nonce string) map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[client], p.who = redirect, who
}

// Answer has what the provider gives for a code be changed, and its status; nil leaves it as it is.
func (p *Provider) Answer(change func(answer map[string]any) (status int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// authorize signs in at once, and sends the browser back.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	redirect, known := p.clients[q.Get("client_id")]
	if !known || redirect != q.Get("redirect_uri") { // whoever is not known is sent nowhere
		http.Error(w, "the client is not registered with this address", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 ||
		!strings.Contains(" "+q.Get("scope")+" ", " openid ") || q.Get("client_secret") != "" {
		back.Set("error", "invalid_request")
	} else {
		back.Set("code", rand.Text())
		p.codes[back.Get("code")] = code{q.Get("client_id"), redirect, q.Get("code_challenge"), q.Get("nonce")}
	}
	http.Redirect(w, r, redirect+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, known := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	proof := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !known || r.PostFormValue("grant_type") != "authorization_code" || c.client != r.PostFormValue("client_id") ||
		c.redirect != r.PostFormValue("redirect_uri") || c.challenge != base64.RawURLEncoding.EncodeToString(proof[:]) {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	token, err := p.Sign(p.who(c.client, c.nonce))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	given, status := map[string]any{"token_type": "Bearer", "id_token": token, "access_token": "opaque"}, http.StatusOK
	if p.change != nil {
		status = p.change(given)
	}
	answer(w, status, given)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Token signs claims, with its own issuer.
func (p *Provider) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	s, err := p.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Sign is Token without a test.
func (p *Provider) Sign(claims map[string]any) (string, error) {
	claims["iss"] = p.URL
	one := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims(claims))
	one.Header["kid"] = "k"
	return one.SignedString(p.key)
}
