package egress_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/secret"
)

const canary = "canary-4f1d9b7e2c"

// reflecting repeats all that it is told, in every place that an answer has.
func reflecting(rw http.ResponseWriter, r *http.Request) {
	held := r.Header.Get("Authorization")
	rw.Header().Set("Link", "<"+held+">")
	rw.WriteHeader(http.StatusEarlyHints)
	rw.Header().Set("X-Reflected", held)
	rw.Header().Set("Trailer", "X-Last")
	if r.URL.Path == "/zip" {
		rw.Header().Set("Content-Encoding", "gzip")
	}
	if r.URL.Path == "/away" {
		rw.Header().Set("Location", "https://other.example/?k="+held)
		rw.WriteHeader(http.StatusFound)
	}
	fmt.Fprintf(rw, "%s %d ", r.Host, len(held))
	for _, c := range held { // one byte at a time, so that no read has it whole
		fmt.Fprintf(rw, "%c", c)
		rw.(http.Flusher).Flush()
	}
	fmt.Fprint(rw, " end")
	rw.Header().Set("X-Last", held)
}

func TestCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, name := range []string{"api.example", "other.example", "sub.api.example"} {
		w.secure(t, name, fmt.Sprintf("93.184.215.%d", 10+i), reflecting)
	}
	w.site(t, "plain.example", "93.184.215.20", reflecting)
	w.names["api.example"] = append(w.names["api.example"], w.names["api.example"][0])
	cfg := w.config()
	cfg.Credentials = []egress.Credential{
		{Host: "api.example", Header: "Authorization", Value: secret.New("Bearer " + canary)},
		{Host: "plain.example", Plain: true, Header: "Authorization", Value: secret.New("Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+canary)))},
	}
	trusting := func(t *testing.T, g gate) *x509.CertPool {
		t.Helper()
		for _, e := range g.Env() {
			if at, ok := strings.CutPrefix(e, "SSL_CERT_FILE="); ok {
				data, err := os.ReadFile(at)
				if err != nil {
					t.Fatal(err)
				}
				pool := w.roots.Clone()
				pool.AppendCertsFromPEM(data)
				return pool
			}
		}
		t.Fatal("there is no SSL_CERT_FILE")
		return nil
	}
	dump := func(t *testing.T, c *http.Client, method, at string) string {
		t.Helper()
		req, err := http.NewRequest(method, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer of-the-tool")
		resp, err := c.Do(req)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, resp.Header, resp.Trailer, string(body), err)
	}
	t.Run("SAFE-11 the host is given the credential, and the tool sees nothing of it", func(t *testing.T) {
		t.Parallel()
		g := open(t, cfg, nil, "*.example", "api.example")
		c := g.client(t, trusting(t, g))
		for at, want := range map[string]string{
			"https://api.example/":     "api.example 24 ",
			"http://plain.example/":    "plain.example 34 ",
			"https://api.example/zip":  "compressed although",
			"https://api.example/away": "302",
			"https://other.example/":   "Bearer of-the-tool",
			"https://sub.api.example/": "Bearer of-the-tool",
		} {
			got := dump(t, c, http.MethodGet, at)
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %q", at, got, want)
			}
			if strings.Contains(got, canary) || strings.Contains(got, base64.StdEncoding.EncodeToString([]byte("me:"+canary))) {
				t.Errorf("%s shows the secret: %s", at, got)
			}
		}
		if got := dump(t, c, http.MethodTrace, "https://api.example/"); !strings.Contains(got, "400") {
			t.Errorf("TRACE: got %s", got)
		}
		back := g.raw(t, "GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\nConnection: close\r\n\r\n")
		if strings.Contains(back, base64.StdEncoding.EncodeToString([]byte("me:"+canary))) || !strings.Contains(back, "103 Early Hints") {
			t.Errorf("early hints: got %s", back)
		}
	})
	t.Run("SAFE-11 a credential is for its host alone, by its scheme, and where the list lets it through", func(t *testing.T) {
		t.Parallel()
		w.site(t, "api.example.", "93.184.215.30", nil)
		g := open(t, cfg, nil, "other.example")
		for _, e := range g.Env() {
			if strings.HasPrefix(e, "SSL_CERT_FILE=") {
				t.Error("an authority was made for hosts that cannot be reached")
			}
		}
		if got := dump(t, g.client(t, w.roots), http.MethodGet, "https://api.example/"); !strings.Contains(got, "Forbidden") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("SAFE-11 a tool's own request is given it too, and its answer is masked", func(t *testing.T) {
		t.Parallel()
		g := open(t, cfg, nil, "api.example")
		resp, err := g.RoundTrip(httptest.NewRequest(http.MethodGet, "https://api.example/", nil))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := fmt.Sprint(resp.Header, resp.Trailer, string(body)); err != nil || !strings.HasPrefix(string(body), "api.example 24 ****") || strings.Contains(got, canary) {
			t.Errorf("got %s %v", got, err)
		}
	})
	t.Run("SAFE-11 whom the machine does not trust gets no credential", func(t *testing.T) {
		t.Parallel()
		other := cfg
		other.Credentials = append([]egress.Credential{}, cfg.Credentials...)
		other.Roots = x509.NewCertPool()
		g := open(t, other, nil, "api.example")
		if got := dump(t, g.client(t, trusting(t, g)), http.MethodGet, "https://api.example/"); !strings.Contains(got, "could not be verified") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("SAFE-11 the authority is good for the hosts of credentials, and gone with the door", func(t *testing.T) {
		t.Parallel()
		g := open(t, cfg, nil, "api.example", "other.example")
		var at string
		for _, e := range g.Env() {
			if v, ok := strings.CutPrefix(e, "SSL_CERT_FILE="); ok {
				at = v
			}
		}
		data, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil || len(ca.PermittedDNSDomains) != 1 || ca.PermittedDNSDomains[0] != "api.example" || !ca.PermittedDNSDomainsCritical || bytes.Contains(data, []byte("PRIVATE")) {
			t.Errorf("%v %v", ca.PermittedDNSDomains, err)
		}
		if g.Close(); !missing(at) {
			t.Error("the bundle is still there")
		}
	})
	t.Run("SAFE-11 nothing that is reported, printed or wrong shows it", func(t *testing.T) {
		t.Parallel()
		g := open(t, cfg, nil, "*.example", "api.example")
		c := g.client(t, trusting(t, g))
		for _, at := range []string{"https://api.example/", "https://api.example/zip", "http://plain.example/x", "https://nowhere.example/"} {
			dump(t, c, http.MethodGet, at)
		}
		g.Close()
		var said bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&said, nil))
		for _, a := range g.seen.all() {
			logger.Info("attempt", "a", a)
			fmt.Fprintf(&said, "%v %+v %#v", a, a, a)
		}
		fmt.Fprintf(&said, "%v %+v", cfg.Credentials, g.Env())
		if b, err := json.Marshal(cfg.Credentials); err != nil || said.Len() == 0 {
			t.Error(err)
		} else {
			said.Write(b)
		}
		for _, bad := range []egress.Credential{{Host: canary + "/", Header: "A", Value: secret.New(canary)}, {Host: "a.example", Header: canary + " x", Value: secret.New(canary)},
			{Host: "a.example", Header: "Authorization", Value: secret.New(canary + "\r\nX: y")}, {Host: "a.example", Header: "Host", Value: secret.New(canary)}, {Host: "10.0.0.1", Header: "A", Value: secret.New(canary)},
			{Host: "a.example", Header: "A", Value: secret.New("short")}} {
			_, err := egress.New(egress.Config{Credentials: []egress.Credential{bad}})
			if err == nil {
				t.Errorf("%+v is accepted", bad)
			}
			fmt.Fprint(&said, err)
		}
		if strings.Contains(said.String(), canary) {
			t.Errorf("the secret is shown: %s", said.String())
		}
	})
	t.Run("SAFE-11 in a sandbox curl speaks TLS with the proxy, and the environment, files and answers have no secret", func(t *testing.T) {
		t.Parallel()
		sandboxtest.Need(t, bwrap.New("", ""))
		cell := newCell(t, cfg, "api.example")
		out, code := cell.sh(t, `curl -sS -i https://api.example/; env; cat "$SSL_CERT_FILE" | head -5; cat /proc/*/environ /proc/*/cmdline | tr '\0' '\n'`)
		if code != 0 || !strings.Contains(out, "api.example 24 ****") || strings.Contains(out, canary) {
			t.Errorf("status %d: %s", code, out)
		}
	})
	t.Run("SBX-13 a greeting for another host does not pass where TLS ends", func(t *testing.T) {
		t.Parallel()
		g := open(t, cfg, nil, "api.example", "other.example")
		conn, _ := g.connect(t, "api.example:443")
		req := tlsGet(conn, "other.example", "other.example")
		if req == nil {
			t.Error("it passed")
		}
		conn, _ = g.connect(t, "api.example:443")
		if err := tlsGet(conn, "api.example", "other.example"); err == nil || !strings.Contains(err.Error(), "421") {
			t.Errorf("another Host inside: %v", err)
		}
		g.seen.await(t, func(a egress.Attempt) bool { return a.Code == policy.Differs })
	})
}

func missing(at string) bool {
	_, err := os.Stat(at)
	return os.IsNotExist(err)
}

// TestMask looks for secrets across all ways of cutting an answer in two and in bytes.
func TestMask(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-11 a secret is masked wherever an answer is cut", func(t *testing.T) {
		t.Parallel()
		parts := []string{"Bearer " + canary, canary}
		for _, text := range []string{canary, "x" + canary + canary + "y", "Bearer " + canary, "Bearer canary-4f1d Bearer " + canary, "canary-4f1d9b7e2", strings.Repeat("canary-", 9000) + canary} {
			want := strings.ReplaceAll(strings.ReplaceAll(text, parts[0], strings.Repeat("*", len(parts[0]))), parts[1], strings.Repeat("*", len(parts[1])))
			readers := []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))}
			for i := range min(len(text), 40) {
				readers = append(readers, io.MultiReader(strings.NewReader(text[:i]), strings.NewReader(text[i:])))
			}
			for _, r := range readers {
				got, err := io.ReadAll(egress.Masked(io.NopCloser(r), parts...))
				if err != nil || string(got) != want {
					t.Fatalf("%.60q: got %.80q, %v", text, got, err)
				}
			}
		}
	})
}
