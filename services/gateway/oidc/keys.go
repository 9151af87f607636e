package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"
)

// keys are those of the provider.
type keys struct {
	issuer string
	client *http.Client
	now    func() time.Time

	// fetching is held by who asks the provider.
	fetching sync.Mutex
	mu       sync.Mutex
	// Guarded by mu: the keys, when they came, when they were asked for last, and what went wrong then.
	all           []key
	came, askedAt time.Time
	err           error
}

// key that signs.
type key struct {
	id, alg string
	public  crypto.PublicKey
}

// jwk is a key as providers publish it.
type jwk struct {
	Kind  string `json:"kty"`
	ID    string `json:"kid"`
	Use   string `json:"use"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	N     string `json:"n"`
	E     string `json:"e"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

// find is the key of an id for an algorithm.
func (k *keys) find(ctx context.Context, id, alg string) (crypto.PublicKey, error) {
	if found, fresh := k.known(id, alg); found != nil && fresh {
		return found, nil
	}
	k.refresh(ctx)
	found, _ := k.known(id, alg)
	if found != nil {
		return found, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, k.err)
	}
	return nil, errors.New("none of the provider's keys is that of the token")
}

// known is the key among those that are known; fresh is false where the provider must be asked first.
func (k *keys) known(id, alg string) (found crypto.PublicKey, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if age := k.now().Sub(k.came); age > keptFor {
		k.all = nil
	} else {
		fresh = age < freshFor
	}
	for _, one := range k.all {
		if (one.id == id || id == "" && len(k.all) == 1) && fits(one, alg) {
			return one.public, fresh
		}
	}
	return nil, fresh
}

// fits reports whether a key is one of an algorithm: a key for one is never used with another.
func fits(k key, alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch p := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == "ES256" && p.Curve == elliptic.P256() || alg == "ES384" && p.Curve == elliptic.P384()
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// refresh asks the provider, unless it was asked a moment ago. One asks; the others wait for it.
func (k *keys) refresh(ctx context.Context) {
	k.fetching.Lock()
	defer k.fetching.Unlock()
	k.mu.Lock()
	soon := k.now().Sub(k.askedAt) < fetchEvery
	if !soon {
		k.askedAt = k.now()
	}
	k.mu.Unlock()
	if soon {
		return
	}
	all, err := k.fetch(context.WithoutCancel(ctx)) // others wait for the answer, too
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err == nil {
		k.all, k.came = all, k.now()
	}
}

// fetch gets the keys.
func (k *keys) fetch(ctx context.Context) ([]key, error) {
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := read(ctx, k.client, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration",
		&about); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", k.issuer, err)
	}
	if about.Issuer != k.issuer {
		return nil, fmt.Errorf("the provider calls itself %.200q, and %q is configured", about.Issuer, k.issuer)
	}
	if err := safe(about.Keys); err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := read(ctx, k.client, about.Keys, &set); err != nil {
		return nil, fmt.Errorf("keys of %s: %w", k.issuer, err)
	}
	var all []key
	for _, j := range set.Keys {
		if public := j.public(); public != nil && (j.Use == "" || j.Use == "sig") {
			all = append(all, key{j.ID, j.Alg, public})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no key that can be used", about.Keys)
	}
	return all, nil
}

// minRSA is the fewest bits of a modulus.
const minRSA = 2048

// public is the key; nil where it is of no use here.
func (j jwk) public() crypto.PublicKey {
	switch j.Kind {
	case "RSA":
		n, e := number(j.N), number(j.E)
		if n == nil || e == nil || n.BitLen() < minRSA || n.BitLen() > 4*minRSA || !e.IsInt64() || e.Int64() < 3 ||
			e.Int64() > 1<<31-1 || e.Int64()%2 == 0 {
			return nil
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384()}[j.Curve]
		x, errX := base64.RawURLEncoding.DecodeString(j.X)
		y, errY := base64.RawURLEncoding.DecodeString(j.Y)
		if curve == nil || errX != nil || errY != nil || len(x) != curve.Params().BitSize/8 || len(y) != len(x) {
			return nil
		}
		public, err := ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
		if err != nil { // the point is not on the curve
			return nil
		}
		return public
	case "OKP":
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		if err != nil || j.Curve != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return nil
		}
		return ed25519.PublicKey(x)
	}
	return nil
}

// number in base64url; nil where it is none.
func number(s string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) == 0 {
		return nil
	}
	return new(big.Int).SetBytes(b)
}
