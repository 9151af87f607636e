package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/inspan/inspan/services/gateway/oidc"
)

// issuer is a provider whose keys change.
type issuer struct {
	*httptest.Server
	mu sync.Mutex
	// Guarded by mu.
	keys  []map[string]string
	name  string // what it calls itself
	away  bool
	asked int
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v func() any) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.asked++; i.away {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(v())
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, func() any { return map[string]string{"issuer": i.name, "jwks_uri": i.URL + "/keys"} })
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, func() any { return map[string]any{"keys": i.keys} })
	})
	i.Server = httptest.NewServer(mux)
	i.name = i.URL
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// published is a public key as a provider publishes it.
func published(t *testing.T, id string, public crypto.PublicKey) map[string]string {
	t.Helper()
	switch p := public.(type) {
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "kid": id, "use": "sig", "n": b64(p.N.Bytes()), "e": "AQAB"}
	case *ecdsa.PublicKey:
		raw, err := p.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		half := (len(raw) - 1) / 2
		return map[string]string{"kty": "EC", "kid": id, "crv": p.Params().Name, "x": b64(raw[1 : 1+half]),
			"y": b64(raw[1+half:])}
	case ed25519.PublicKey:
		return map[string]string{"kty": "OKP", "kid": id, "crv": "Ed25519", "x": b64(p)}
	}
	t.Fatalf("%T", public)
	return nil
}

// clock goes when it is told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

type world struct {
	*issuer
	clock *clock
	v     *oidc.Verifier
	rsa   *rsa.PrivateKey
}

// signer is the key of all providers: they cost time to make.
var signer = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newWorld(t *testing.T) *world {
	t.Helper()
	key, err := signer()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{issuer: newIssuer(t), clock: &clock{now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}, rsa: key}
	w.keys = []map[string]string{published(t, "one", &key.PublicKey)}
	w.v, err = oidc.New(oidc.Config{Issuer: w.URL, Audience: "inspan", Scopes: []string{"runs:read", "runs:write", "gates:answer"}, Claim: "groups", Name: "email", Now: w.clock.Now,
		Grants: map[string][]string{"engineers": {"runs:read", "runs:write"}, "leads": {"runs:read", "gates:answer"}}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// claims of a good token, with changes.
func (w *world) claims(change jwt.MapClaims) jwt.MapClaims {
	now := w.clock.Now()
	c := jwt.MapClaims{"iss": w.URL, "aud": "inspan", "sub": "u-17", "email": "ann@example.com",
		"groups": []string{"engineers"},
		"iat":    now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign makes a token.
func sign(t *testing.T, method jwt.SigningMethod, key any, id string, c jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if id != "" {
		token.Header["kid"] = id
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) good(t *testing.T) string {
	return sign(t, jwt.SigningMethodRS256, w.rsa, "one", w.claims(nil))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("TRIG-3 a token of the provider has the scopes that the operator says, and a name that is only its owner's",
		func(t *testing.T) {
			got, err := w.v.Verify(t.Context(), w.good(t))
			if err != nil || !slices.Equal(got.Scopes, []string{"runs:read", "runs:write"}) || !strings.HasPrefix(got.Name,
				"ann-example-com-") {
				t.Fatalf("%+v, %v", got, err)
			}
			for change, same := range map[string]bool{"email": true, "sub": false} {
				other, err := w.v.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "one",
					w.claims(jwt.MapClaims{change: "ann.example.com"})))
				if err != nil || (other.Name == got.Name) != same {
					t.Errorf("another %s: %+v, %v", change, other, err)
				}
			}
			both, err := w.v.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "one",
				w.claims(jwt.MapClaims{"groups": "leads engineers x"})))
			if err != nil || len(both.Scopes) != 3 {
				t.Errorf("%+v, %v", both, err)
			}
			none, err := w.v.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "one",
				w.claims(jwt.MapClaims{"groups": nil})))
			if err != nil || len(none.Scopes) != 0 {
				t.Errorf("%+v, %v", none, err)
			}
		})
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	bad := map[string]string{
		"another issuer": sign(t, jwt.SigningMethodRS256, w.rsa, "one",
			w.claims(jwt.MapClaims{"iss": "https://login.example.com"})),
		"no issuer": sign(t, jwt.SigningMethodRS256, w.rsa, "one", w.claims(jwt.MapClaims{"iss": nil})),
		"another audience": sign(t, jwt.SigningMethodRS256, w.rsa, "one",
			w.claims(jwt.MapClaims{"aud": []string{"shop"}})),
		"no audience": sign(t, jwt.SigningMethodRS256, w.rsa, "one", w.claims(jwt.MapClaims{"aud": nil})),
		"expired": sign(t, jwt.SigningMethodRS256, w.rsa, "one",
			w.claims(jwt.MapClaims{"exp": w.clock.Now().Add(-2 * time.Minute).Unix()})),
		"no expiry": sign(t, jwt.SigningMethodRS256, w.rsa, "one", w.claims(jwt.MapClaims{"exp": nil})),
		"not yet": sign(t, jwt.SigningMethodRS256, w.rsa, "one",
			w.claims(jwt.MapClaims{"nbf": w.clock.Now().Add(day).Unix()})),
		"issued later": sign(t, jwt.SigningMethodRS256, w.rsa, "one",
			w.claims(jwt.MapClaims{"iat": w.clock.Now().Add(day).Unix()})),
		"no subject":              sign(t, jwt.SigningMethodRS256, w.rsa, "one", w.claims(jwt.MapClaims{"sub": nil})),
		"no name":                 sign(t, jwt.SigningMethodRS256, w.rsa, "one", w.claims(jwt.MapClaims{"email": nil})),
		"another key":             sign(t, jwt.SigningMethodRS256, other, "one", w.claims(nil)),
		"a key that is not known": sign(t, jwt.SigningMethodRS256, other, "two", w.claims(nil)),
		"no signature":            sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "one", w.claims(nil)),
		"a public key as a shared secret": sign(t, jwt.SigningMethodHS256, []byte(w.keys[0]["n"]), "one",
			w.claims(nil)),
		"nothing": "..", "text": "a.b.c",
		"too large": w.good(t) + strings.Repeat("x", 12<<10),
	}
	parts := strings.Split(w.good(t), ".")
	bad["another payload"] = parts[0] + "." + b64([]byte(strings.Replace(fmt.Sprintf(`{"iss":%q,"aud":"inspan","sub":"root","email":"x","groups":["leads"],"exp":%d}`,
		w.URL, w.clock.Now().Add(day).Unix()), " ", "", -1))) + "." + parts[2]
	crit := jwt.NewWithClaims(jwt.SigningMethodRS256, w.claims(nil))
	crit.Header["kid"], crit.Header["crit"] = "one", []string{"b64"}
	if bad["a header that must be understood"], err = crit.SignedString(w.rsa); err != nil {
		t.Fatal(err)
	}
	for what, raw := range bad {
		t.Run("SAFE-6 TRIG-3 a token does not count: "+what, func(t *testing.T) {
			if got, err := w.v.Verify(t.Context(), raw); !errors.Is(err, oidc.ErrInvalid) || len(got.Scopes) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	t.Run("TRIG-3 clocks may differ by a minute", func(t *testing.T) {
		if _, err := w.v.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, w.rsa, "one",
			w.claims(jwt.MapClaims{"exp": w.clock.Now().Add(-50 * time.Second).Unix()}))); err != nil {
			t.Error(err)
		}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("TRIG-3 keys come and go at the provider: new ones are found at once, those taken away are forgotten",
		func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, err := w.v.Verify(t.Context(), w.good(t)); err != nil {
				t.Fatal(err)
			}
			w.set(func() {
				w.keys = []map[string]string{published(t, "ec", &ec.PublicKey), published(t, "ed", edPublic)}
			})
			w.clock.add(11 * time.Second)
			for id, raw := range map[string]string{"ec": sign(t, jwt.SigningMethodES256, ec, "ec", w.claims(nil)), "ed": sign(t,
				jwt.SigningMethodEdDSA, ed, "ed", w.claims(nil))} {
				if _, err := w.v.Verify(t.Context(), raw); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			if _, err := w.v.Verify(t.Context(), w.good(t)); !errors.Is(err, oidc.ErrInvalid) {
				t.Errorf("a key that was taken away: %v", err)
			}
		})
	t.Run("TRIG-3 a key that is taken away counts for an hour at most where nothing asks for another one",
		func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, err := w.v.Verify(t.Context(), w.good(t)); err != nil {
				t.Fatal(err)
			}
			w.set(func() { w.keys = []map[string]string{published(t, "ec", &ec.PublicKey)} })
			w.clock.add(59 * time.Minute)
			if _, err := w.v.Verify(t.Context(), w.good(t)); err != nil {
				t.Error(err)
			}
			w.clock.add(2 * time.Minute)
			if _, err := w.v.Verify(t.Context(), w.good(t)); !errors.Is(err, oidc.ErrInvalid) {
				t.Errorf("%v", err)
			}
		})
	t.Run("TRIG-3 while the provider is away its keys count for a day, then no one is let in", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		if _, err := w.v.Verify(t.Context(), w.good(t)); err != nil {
			t.Fatal(err)
		}
		w.set(func() { w.away = true })
		w.clock.add(23 * time.Hour)
		if _, err := w.v.Verify(t.Context(), w.good(t)); err != nil {
			t.Error(err)
		}
		w.clock.add(2 * time.Hour)
		if _, err := w.v.Verify(t.Context(), w.good(t)); !errors.Is(err, oidc.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		w.set(func() { w.away = false })
		w.clock.add(11 * time.Second)
		if _, err := w.v.Verify(t.Context(), w.good(t)); err != nil {
			t.Errorf("it is back: %v", err)
		}
	})
	t.Run("SAFE-6 TRIG-3 tokens with keys that are not known have the provider asked once in ten seconds",
		func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var all sync.WaitGroup
			for n := range 50 {
				raw := sign(t, jwt.SigningMethodEdDSA, ed, fmt.Sprint("k", n), w.claims(nil))
				all.Go(func() {
					if _, err := w.v.Verify(t.Context(), raw); !errors.Is(err, oidc.ErrInvalid) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			w.set(func() {
				if w.asked != 2 {
					t.Errorf("asked %d times, want once for its configuration and once for its keys", w.asked)
				}
			})
		})
	t.Run("SAFE-6 TRIG-3 a provider that calls itself otherwise, or has weak keys only, lets no one in",
		func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.set(func() { w.name = "https://login.example.com" })
			if _, err := w.v.Verify(t.Context(), w.good(t)); !errors.Is(err, oidc.ErrUnavailable) {
				t.Errorf("%v", err)
			}
			weak := newWorld(t)
			weak.set(func() {
				weak.keys[0]["n"] = b64(weak.rsa.N.Bytes()[:128])
				weak.keys = append(weak.keys, map[string]string{"kty": "oct", "kid": "one", "k": "c2VjcmV0"},
					map[string]string{"kty": "EC", "kid": "one", "crv": "P-256", "x": b64(make([]byte, 32)), "y": b64(make([]byte,
						32))})
			})
			if _, err := weak.v.Verify(t.Context(), weak.good(t)); !errors.Is(err, oidc.ErrUnavailable) {
				t.Errorf("%v", err)
			}
		})
	t.Run("SAFE-6 TRIG-3 a configuration that would let anybody in, or no one, is refused", func(t *testing.T) {
		t.Parallel()
		good := oidc.Config{Issuer: "https://login.example.com", Audience: "inspan", Scopes: []string{"runs:read", "runs:write", "gates:answer"}, Claim: "scope", Name: "sub",
			Grants: map[string][]string{"a": {"runs:read"}}}
		for what, change := range map[string]func(*oidc.Config){"http": func(c *oidc.Config) { c.Issuer = "http://login.example.com" }, "no audience": func(c *oidc.Config) { c.Audience = "" },
			"no grants": func(c *oidc.Config) { c.Grants = nil }, "scope": func(c *oidc.Config) { c.Grants = map[string][]string{"a": {"runs:all"}} }, "none": func(c *oidc.Config) { c.Issuer = "login" }} {
			cfg := good
			if change(&cfg); true {
				if _, err := oidc.New(cfg); err == nil {
					t.Error(what)
				}
			}
		}
		if _, err := oidc.New(good); err != nil {
			t.Error(err)
		}
		for _, text := range []string{"engineers", "=runs:read", "engineers="} {
			if _, err := oidc.Grants([]string{text}); err == nil {
				t.Error(text)
			}
		}
	})
}
