// Package oidctest has an OpenID Connect provider for tests, in the process of the test.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// Provider has one key, which signs what a test wants.
type Provider struct {
	*httptest.Server
	// Away has it answer nothing.
	Away atomic.Bool
	key  *ecdsa.PrivateKey
}

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
	half, p := base64.RawURLEncoding.EncodeToString, &Provider{key: key}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if p.Away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "keys": []any{
			map[string]string{"kty": "EC", "kid": "k", "crv": "P-256", "x": half(public[1:33]), "y": half(public[33:])}}})
	}))
	t.Cleanup(p.Close)
	return p
}

// Token signs claims, with its own issuer.
func (p *Provider) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	claims["iss"] = p.URL
	one := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims(claims))
	one.Header["kid"] = "k"
	s, err := one.SignedString(p.key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
