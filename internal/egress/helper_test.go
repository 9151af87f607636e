package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/egress/policy"
)

func TestMain(m *testing.M) {
	if !inside.Main() { // sandboxes start this program as their helper
		m.Run()
	}
}

// world is a network: names with public addresses, and servers of this machine behind them.
type world struct {
	mu    sync.Mutex
	names map[string][]netip.Addr
	at    map[netip.AddrPort]string
	// dialled collects what was reached for, asked how often names were.
	dialled []netip.AddrPort
	asked   map[string]int
	roots   *x509.CertPool
	key     *ecdsa.PrivateKey
	ca      *x509.Certificate
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{names: map[string][]netip.Addr{}, at: map[netip.AddrPort]string{}, asked: map[string]int{}, roots: x509.NewCertPool()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "world"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if w.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	w.key = key
	w.roots.AddCert(w.ca)
	return w
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[name]++
	if a := w.names[name]; a != nil {
		return a, nil
	}
	return nil, errors.New("no such host")
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, to)
	at := w.at[to]
	w.mu.Unlock()
	if at == "" {
		return nil, errors.New("connection refused")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", at)
}

func (w *world) reached() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]netip.AddrPort{}, w.dialled...)
}

// put gives a name an address, and the address a server at a port.
func (w *world) put(name, addr string, port uint16, server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := netip.MustParseAddr(addr)
	w.names[name] = []netip.Addr{a}
	w.at[netip.AddrPortFrom(a, port)] = server
}

// site serves HTTP for a name on port 80.
func (w *world) site(t testing.TB, name, addr string, h http.HandlerFunc) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	w.put(name, addr, 80, s.Listener.Addr().String())
}

// secure serves HTTPS for a name on port 443, with a certificate of the world.
func (w *world) secure(t testing.TB, name, addr string, h http.HandlerFunc) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, w.ca, &w.key.PublicKey, w.key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: w.key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	w.put(name, addr, 443, s.Listener.Addr().String())
}

// echo answers each connection with what it is sent.
func (w *world) echo(t testing.TB, name, addr string, port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	w.put(name, addr, port, l.Addr().String())
}

func (w *world) config() egress.Config {
	return egress.Config{Resolve: w.resolve, Dial: w.dial, Roots: w.roots}
}

// seen collects attempts.
type seen struct {
	mu   sync.Mutex
	list []egress.Attempt
}

func (s *seen) report(a egress.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, a)
}

func (s *seen) all() []egress.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]egress.Attempt{}, s.list...)
}

// await returns the first attempt that fits.
func (s *seen) await(t testing.TB, fits func(egress.Attempt) bool) egress.Attempt {
	t.Helper()
	var found egress.Attempt
	eventually(t, func() bool {
		for _, a := range s.all() {
			if fits(a) {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// eventually waits until a condition holds.
func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come to hold within 20 s")
		}
	}
}

// gate is an open Session on a port of this machine.
type gate struct {
	*egress.Session
	seen *seen
	addr string
}

// open opens a Session for a list of hosts.
func open(t testing.TB, cfg egress.Config, current func(context.Context) error, allowed ...string) gate {
	t.Helper()
	p, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return openAt(t, p, current, allowed...)
}

func openAt(t testing.TB, p *egress.Proxy, current func(context.Context) error, allowed ...string) gate {
	t.Helper()
	list, err := policy.ParseList(allowed)
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{}
	return serve(t, p, egress.Grant{Allow: list, Current: current, Report: s.report}, s)
}

// serve opens a Session and serves it on a port of this machine.
func serve(t testing.TB, p *egress.Proxy, g egress.Grant, s *seen) gate {
	t.Helper()
	d, err := p.Open(g)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(l) }()
	t.Cleanup(func() {
		d.Close()
		if err := <-served; err != nil {
			t.Error("serve:", err)
		}
	})
	return gate{d, s, l.Addr().String()}
}

// client is an HTTP client that uses the gate as its proxy and trusts roots.
func (g gate) client(t testing.TB, roots *x509.CertPool) *http.Client {
	t.Helper()
	at := &url.URL{Scheme: "http", Host: g.addr}
	tr := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func get(t testing.TB, c *http.Client, at string) (int, string) {
	t.Helper()
	resp, err := c.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// raw sends text to the gate and returns all that comes back.
func (g gate) raw(t testing.TB, text string) string {
	t.Helper()
	c := g.dial(t)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "Connection: close") { // then no one else ends it
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	back, _ := io.ReadAll(c) // a reset is an end too
	return string(back)
}

func (g gate) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// connect opens a tunnel and returns its connection and the status line.
func (g gate) connect(t testing.TB, target string) (net.Conn, string) {
	t.Helper()
	c := g.dial(t)
	if _, err := io.WriteString(c, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var head strings.Builder
	var b [1]byte
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			t.Fatalf("%v after %q", err, head.String())
		}
		head.WriteByte(b[0])
	}
	line, _, _ := strings.Cut(head.String(), "\r\n")
	return c, line
}

// tlsGet asks for / with a Host, in TLS whose greeting has a name; the error tells what went wrong, or the status.
func tlsGet(conn net.Conn, name, host string) error {
	c := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // names are what is tried
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	all, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	if line, _, _ := strings.Cut(string(all), "\r\n"); line != "HTTP/1.1 200 OK" {
		return errors.New(line)
	}
	return nil
}
