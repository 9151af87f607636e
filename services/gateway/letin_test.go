package gateway_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/oidc"
	"github.com/inspan/inspan/services/gateway/oidc/oidctest"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// certificate makes one for 127.0.0.1 in the files of a folder, and returns it.
func certificate(t *testing.T, dir string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(serial),
		Subject:   pkix.Name{CommonName: "gateway"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0,
			1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}, &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gateway"}}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: raw},
		"key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name+".new"), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestTLS(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	first := certificate(t, dir, 1)
	var failures atomic.Int64
	c, err := gateway.LoadCertificate(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"),
		func(error) { failures.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	d := w.open(t, nil, func(cfg *gateway.Config) { cfg.TLS = c.TLS() })
	address := strings.TrimPrefix(d.url, "http://")
	// serial is that of the certificate that the gateway shows to who trusts some.
	serial := func(trusted ...*x509.Certificate) (int64, error) {
		pool := x509.NewCertPool()
		for _, one := range trusted {
			pool.AddCert(one)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
			DisableKeepAlives: true}}
		req := d.request(t, "GET", "/api/v1/agents", "reader", "")
		req.URL.Scheme = "https"
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%d", res.StatusCode)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	t.Run("SAFE-6 TRIG-3 the gateway speaks TLS, with no old version and no plain HTTP beside it", func(t *testing.T) {
		if n, err := serial(first); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true,
			MaxVersion: tls.VersionTLS11}); err == nil {
			_ = conn.Close()
			t.Error("TLS 1.1 is taken")
		}
		res, err := web.Do(d.request(t, "GET", "/api/v1/agents", "reader", ""))
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest {
				t.Errorf("plain HTTP is answered with %d", res.StatusCode)
			}
		}
	})
	t.Run("TRIG-3 files that change are read again; what cannot be read leaves the certificate as it was",
		func(t *testing.T) {
			second := certificate(t, dir, 2)
			until(t, func() bool { n, err := serial(first, second); return err == nil && n == 2 })
			if err := os.WriteFile(filepath.Join(dir, "key.pem"), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
			until(t, func() bool {
				if n, err := serial(first, second); err != nil || n != 2 {
					t.Fatalf("%d, %v", n, err)
				}
				return failures.Load() > 0
			})
			third := certificate(t, dir, 3)
			until(t, func() bool { n, err := serial(third, second); return err == nil && n == 3 })
			if _, err := gateway.LoadCertificate(filepath.Join(dir, "none.pem"), filepath.Join(dir, "key.pem"), nil); err == nil {
				t.Error("a certificate that there is not")
			}
		})
}

func TestBearer(t *testing.T) {
	t.Parallel()
	provider, all := oidctest.New(t), []string{"runs:read", "runs:write"}
	v, err := oidc.New(oidc.Config{Issuer: provider.URL, Audience: "inspan", Claim: "scope", Name: "email", Scopes: all,
		Grants: map[string][]string{"run": {"runs:read", "runs:write"}, "look": {"runs:read"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	token := func(t *testing.T, email, scope string, expires time.Duration) string {
		t.Helper()
		return provider.Token(t, map[string]any{"aud": "inspan", "sub": email, "email": email, "scope": scope,
			"exp": time.Now().Add(expires).Unix()})
	}
	bearer := func(v *oidc.Verifier) func(context.Context, string) (tokens.Token, error) {
		return func(ctx context.Context, secret string) (tokens.Token, error) {
			one, err := v.Verify(ctx, secret)
			return tokens.Token{Name: one.Name, Scopes: tokens.ScopesOf(one.Scopes)}, err
		}
	}
	d := w.open(t, nil, func(c *gateway.Config) { c.Bearer = bearer(v) })
	const task = `{"agent_id":"helper","task":"x"}`
	t.Run("TRIG-3 DLV-6 a token of a provider starts runs in the name of its owner, as far as it may", func(t *testing.T) {
		a := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/harness/run?wait=2m", token(t, "ann@example.com",
			"openid run", time.Hour), task, "Idempotency-Key", "1"))
		b := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/harness/run?wait=2m", token(t, "ann@example.com",
			"run", 2*time.Hour), task, "Idempotency-Key", "1"))
		c := in[gateway.RunAnswer](t, d.want(t, 200, "POST", "/api/v1/harness/run?wait=2m", token(t, "bob@example.com",
			"run", time.Hour), task, "Idempotency-Key", "1"))
		if a.Run != b.Run || a.Run == c.Run {
			t.Errorf("runs %s, %s of ann with the same key, %s of bob", a.Run, b.Run, c.Run)
		}
		s, err := w.client.State(t.Context(), a.Run)
		if err != nil || !strings.HasPrefix(s.Created.By, "ann-example-com-") {
			t.Errorf("%+v, %v", s.Created, err)
		}
		d.want(t, 403, "POST", "/api/v1/harness/run", token(t, "ann@example.com", "look", time.Hour), task)
		d.want(t, 403, "GET", "/api/v1/runs", token(t, "ann@example.com", "openid", time.Hour), "")
		d.want(t, 200, "GET", "/api/v1/runs", "reader", "") // tokens of the list count as before
	})
	t.Run("SAFE-6 TRIG-3 one that does not count is refused", func(t *testing.T) {
		good := token(t, "ann@example.com", "run", time.Hour)
		for what, secret := range map[string]string{"expired": token(t, "ann@example.com", "run", -time.Hour),
			"cut": good[:len(good)-4], "none": "a.b.c"} {
			if a := d.want(t, 401, "GET", "/api/v1/runs", secret, ""); a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %v", what, a.header)
			}
		}
	})
	t.Run("TRIG-3 where the keys cannot be had, the caller is told to come back", func(t *testing.T) {
		provider.Away.Store(true)
		fresh, err := oidc.New(oidc.Config{Issuer: provider.URL, Audience: "inspan", Claim: "scope", Name: "email",
			Scopes: all, Grants: map[string][]string{"run": {"runs:read"}}})
		if err != nil {
			t.Fatal(err)
		}
		other := w.open(t, nil, func(c *gateway.Config) { c.Bearer = bearer(fresh) })
		if a := other.want(t, 503, "GET", "/api/v1/runs", token(t, "ann@example.com", "run", time.Hour),
			""); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		d.want(t, 200, "GET", "/api/v1/runs", token(t, "ann@example.com", "run", time.Hour), "")
	})
}
