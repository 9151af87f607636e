package egress_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.site(t, "a.example", "93.184.215.1", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "of the host") })
	list, err := policy.ParseList([]string{"a.example"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := egress.New(w.config())
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{}
	local := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "served here: %s", r.URL.Path) })
	g := serve(t, p, egress.Grant{Allow: list, Report: s.report, Local: local}, s)

	t.Run("PLUS-12e SBX-13 what is asked of the proxy itself is served there, and reaches no host", func(t *testing.T) {
		if code, body := get(t, http.DefaultClient, "http://"+g.addr+"/v1/messages"); code != http.StatusOK || body != "served here: /v1/messages" {
			t.Errorf("got %d %q", code, body)
		}
		if code, body := get(t, g.client(t, nil), "http://a.example/v1/messages"); code != http.StatusOK || body != "of the host" {
			t.Errorf("got %d %q", code, body)
		}
		if reached := w.reached(); len(reached) != 1 {
			t.Errorf("reached %v", reached)
		}
	})
	t.Run("PLUS-12e SBX-13 where nothing is served it is a bad request", func(t *testing.T) {
		bare := openAt(t, p, nil, "a.example")
		if code, _ := get(t, http.DefaultClient, "http://"+bare.addr+"/v1/messages"); code != http.StatusBadRequest {
			t.Errorf("got %d", code)
		}
	})
}

func TestForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.site(t, "a.example", "93.184.215.1", func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/to-b":
			http.Redirect(rw, r, "http://b.example/secret", http.StatusFound)
		case "/headers":
			for name, values := range r.Header {
				fmt.Fprintf(rw, "%s=%v\n", name, values)
			}
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s %s %s %q", r.Method, r.Host, r.URL, body)
		}
	})
	w.site(t, "b.example", "93.184.215.2", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "b") })
	w.put("inner.example", "192.168.1.1", 80, "127.0.0.1:1")

	t.Run("SBX-13 a plain request is passed on to an allowed host", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "a.example")
		if code, body := get(t, g.client(t, nil), "http://A.example./x?y=z"); code != 200 || body != `GET a.example /x?y=z ""` {
			t.Errorf("got %d %q", code, body)
		}
		resp, err := g.client(t, nil).Post("http://a.example/p", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != `POST a.example /p "hello"` {
			t.Errorf("got %q", body)
		}
	})
	t.Run("SBX-13 one that is refused gets 403 and the setting that would allow it", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "a.example")
		code, body := get(t, g.client(t, nil), "http://b.example/")
		if code != http.StatusForbidden || !strings.Contains(body, `"b.example" to sandbox.network.allowed_hosts`) {
			t.Errorf("got %d %q", code, body)
		}
		a := g.seen.await(t, func(a egress.Attempt) bool { return a.Target.Name == "b.example" })
		if a.Code != policy.NotAllowed || a.Via != "http" || a.Rule != "" || a.Sent != 0 {
			t.Errorf("reported %+v", a)
		}
	})
	t.Run("SBX-13 what the station listens on is refused, also where the list allows it", func(t *testing.T) {
		t.Parallel()
		cfg := w.config()
		cfg.Closed = func(to netip.AddrPort) bool { return to == netip.MustParseAddrPort("93.184.215.2:80") }
		g := open(t, cfg, nil, "a.example", "b.example")
		if code, body := get(t, g.client(t, nil), "http://b.example/"); code != http.StatusForbidden || !strings.Contains(body, "the station listens there") {
			t.Errorf("got %d %q", code, body)
		}
		if code, _ := get(t, g.client(t, nil), "http://a.example/x"); code != http.StatusOK {
			t.Errorf("another host: got %d", code)
		}
	})
	t.Run("SBX-13 a redirect is a new request, judged like any", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "a.example")
		c := g.client(t, nil)
		c.CheckRedirect = nil
		if code, body := get(t, c, "http://a.example/to-b"); code != http.StatusForbidden || strings.HasPrefix(body, "b") {
			t.Errorf("got %d %q", code, body)
		}
	})
	t.Run("SBX-13 a name that leads inside is refused and not dialled", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "inner.example")
		if code, body := get(t, g.client(t, nil), "http://inner.example/"); code != http.StatusForbidden || !strings.Contains(body, "not public") {
			t.Errorf("got %d %q", code, body)
		}
		for _, a := range w.reached() {
			if a.Addr().IsPrivate() {
				t.Errorf("it reached for %s", a)
			}
		}
	})
	t.Run("SBX-13 what the client says to the proxy alone is not passed on", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "a.example")
		back := g.raw(t, "GET http://a.example/headers HTTP/1.1\r\nHost: b.example\r\nProxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: close\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-Forwarded-For: 1.2.3.4\r\nX-End: 2\r\n\r\n")
		if !strings.Contains(back, "X-End=[2]") || strings.Contains(back, "Proxy-") || strings.Contains(back, "X-Hop") || strings.Contains(back, "Forwarded") {
			t.Errorf("got %s", back)
		}
	})
	t.Run("SBX-13 the Host that is passed on is that of the address, whatever the header says", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "a.example")
		back := g.raw(t, "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\nConnection: close\r\n\r\n")
		if !strings.Contains(back, "GET a.example /") {
			t.Errorf("got %s", back)
		}
	})
	t.Run("SBX-13 the bytes and the address of an attempt are reported", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "*.example")
		c := g.client(t, nil)
		get(t, c, "http://a.example/count")
		g.Close()
		a := g.seen.await(t, func(a egress.Attempt) bool { return a.Target.Name == "a.example" })
		if a.Code != "" || a.Rule != "*.example" || a.Addr != netip.MustParseAddr("93.184.215.1") || a.Sent < 50 || a.Received < 50 || a.Took <= 0 {
			t.Errorf("reported %+v", a)
		}
	})
}

// TestSmuggling sends what two readers could understand in two ways. Whatever arrives at the host was said by the
// proxy.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	arrived := make(chan string, 64)
	w.site(t, "a.example", "93.184.215.1", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- fmt.Sprintf("%s %s %s %q", r.Method, r.Host, r.URL.Path, body)
	})
	g := open(t, w.config(), nil, "a.example")
	for name, text := range map[string]string{
		"two lengths":               "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"a folded header":           "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: a\r\n b\r\nTransfer-Encoding : chunked\r\n\r\n",
		"an unknown encoding":       "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"a negative length":         "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: -1\r\n\r\n",
		"two hosts":                 "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
		"a line feed in the target": "GET http://a.example/\nX: y HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"a tab in the target":       "GET http://a.example/ x\tHTTP/1.1\r\nHost: a.example\r\n\r\n",
		"a NUL in a header":         "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: a\x00b\r\n\r\n",
		"no scheme":                 "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"https to a proxy":          "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"a long head":               "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n",
		"connect without a port":    "CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"connect with a path":       "CONNECT /x HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
		"another host in connect":   "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n",
		"an address as host inside": "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\nGET http://127.0.0.1/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
	} {
		t.Run("SBX-13 refused: "+name, func(t *testing.T) {
			back := g.raw(t, text)
			back = strings.TrimPrefix(back, "HTTP/1.1 200 Connection established\r\n\r\n")
			if !strings.HasPrefix(back, "HTTP/1.1 4") && !strings.HasPrefix(back, "HTTP/1.1 5") {
				t.Errorf("got %q", back)
			}
			select {
			case got := <-arrived:
				t.Errorf("the host was asked %s", got)
			default:
			}
		})
	}
	t.Run("SBX-13 a request hidden in the body of another stays a body", func(t *testing.T) {
		hidden := "GET /admin HTTP/1.1\r\nHost: a.example\r\n\r\n"
		g.raw(t, fmt.Sprintf("POST http://a.example/one HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden))
		if got, want := <-arrived, fmt.Sprintf("POST a.example /one %q", hidden); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		select {
		case got := <-arrived:
			t.Errorf("the host was also asked %s", got)
		default:
		}
	})
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secure(t, "safe.example", "93.184.215.1", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "safe %s", r.Host) })
	w.secure(t, "other.example", "93.184.215.2", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "other %s", r.Host) })
	w.echo(t, "echo.example", "93.184.215.3", 7)
	w.echo(t, "odd.example", "93.184.215.4", 443)
	all := []string{"safe.example", "other.example", "echo.example:7", "odd.example", "93.184.215.1"}

	t.Run("SBX-13 TLS passes where its greeting names the host", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, all...)
		if code, body := get(t, g.client(t, w.roots), "https://safe.example/"); code != 200 || body != "safe safe.example" {
			t.Errorf("got %d %q", code, body)
		}
	})
	greetings := []struct {
		name, target, sni string
		want              policy.Code
	}{
		{"another name", "safe.example:443", "other.example", policy.Differs},
		{"no name", "safe.example:443", "", policy.Differs},
		{"a name where an address was asked for", "93.184.215.1:443", "safe.example", policy.Differs},
		{"no name where an address was asked for", "93.184.215.1:443", "", ""},
		{"the name in other letters", "safe.example:443", "SAFE.example", ""},
	}
	for _, tc := range greetings {
		t.Run("SBX-13 the greeting of TLS has "+tc.name, func(t *testing.T) {
			t.Parallel()
			g := open(t, w.config(), nil, all...)
			conn, status := g.connect(t, tc.target)
			if status != "HTTP/1.1 200 Connection established" {
				t.Fatal(status)
			}
			err := tls.Client(conn, &tls.Config{ServerName: tc.sni, InsecureSkipVerify: true}).Handshake() //nolint:gosec // the name is what is tried
			if (err == nil) != (tc.want == "") {
				t.Errorf("handshake: %v", err)
			}
			_ = conn.Close()
			a := g.seen.await(t, func(a egress.Attempt) bool { return a.Code == tc.want })
			if tc.want != "" && a.Sent != 0 {
				t.Errorf("%d bytes were sent", a.Sent)
			}
		})
	}
	t.Run("SBX-13 a greeting that may hide its name is refused", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, all...)
		conn, _ := g.connect(t, "safe.example:443")
		config := &tls.Config{ServerName: "hidden.example", MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, EncryptedClientHelloConfigList: echList("safe.example")} //nolint:gosec // as above
		if err := tls.Client(conn, config).Handshake(); err == nil {
			t.Error("it passed")
		}
		a := g.seen.await(t, func(a egress.Attempt) bool { return a.Code != "" })
		if a.Code != policy.Hidden || a.Sent != 0 {
			t.Errorf("reported %+v", a)
		}
	})
	t.Run("SBX-13 port 443 carries nothing but TLS", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: odd.example\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01\x00\x05hello", "\x00"} {
			g := open(t, w.config(), nil, all...)
			conn, _ := g.connect(t, "odd.example:443")
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			_ = conn.(*net.TCPConn).CloseWrite()
			if back, _ := io.ReadAll(conn); len(back) > 0 {
				t.Errorf("%q came back as %q", text, back)
			}
			if a := g.seen.await(t, func(a egress.Attempt) bool { return a.Code != "" }); a.Code != policy.Hidden || a.Sent != 0 {
				t.Errorf("reported %+v", a)
			}
		}
	})
	t.Run("SBX-13 another port that is written carries what it carries, both ways and to the end", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, all...)
		conn, _ := g.connect(t, "echo.example:7")
		text := strings.Repeat("some bytes ", 100_000)
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(conn, text)
			sent <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
		}()
		back, err := io.ReadAll(conn)
		if err != nil || string(back) != text || <-sent != nil {
			t.Errorf("got %d bytes, %v", len(back), err)
		}
		a := g.seen.await(t, func(a egress.Attempt) bool { return a.Target.Port == 7 })
		if a.Sent != int64(len(text)) || a.Received != int64(len(text)) {
			t.Errorf("counted %d and %d, want %d", a.Sent, a.Received, len(text))
		}
	})
	t.Run("SBX-13 a host that does not answer is told so", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "safe.example:*", "nowhere.example")
		if _, status := g.connect(t, "safe.example:9999"); !strings.Contains(status, "502") {
			t.Error(status)
		}
		if _, status := g.connect(t, "nowhere.example:443"); !strings.Contains(status, "502") {
			t.Error(status)
		}
	})
}

// TestRebinding lets a name lead elsewhere each time it is asked for.
func TestRebinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.site(t, "a.example", "93.184.215.1", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "a") })
	cfg := w.config()
	n := 0
	answers := [][]string{{"93.184.215.1"}, {"127.0.0.1"}, {"::ffff:127.0.0.1", "169.254.169.254"}, {"10.0.0.1", "93.184.215.1"}}
	t.Run("SBX-13 the address that was judged is the one that is dialled, and each connection is judged", func(t *testing.T) {
		resolve := func() []netip.Addr {
			var out []netip.Addr
			for _, s := range answers[n%len(answers)] {
				out = append(out, netip.MustParseAddr(s))
			}
			n++
			return out
		}
		for i, want := range []int{200, 403, 403, 200} {
			w.mu.Lock()
			w.names["a.example"] = resolve()
			w.asked["a.example"] = 0
			w.mu.Unlock()
			g := open(t, cfg, nil, "a.example")
			if code, _ := get(t, g.client(t, nil), "http://a.example/"); code != want {
				t.Errorf("answer %d: got %d, want %d", i, code, want)
			}
			w.mu.Lock()
			if w.asked["a.example"] != 1 {
				t.Errorf("the name was asked for %d times, want once", w.asked["a.example"])
			}
			w.mu.Unlock()
		}
		for _, a := range w.reached() {
			if a.Addr() != netip.MustParseAddr("93.184.215.1") {
				t.Errorf("it reached for %s", a)
			}
		}
	})
}
