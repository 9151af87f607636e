package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
)

// fence is a call's fence that a test takes away.
type fence struct {
	lost, away atomic.Bool
	asked      atomic.Int64
}

func (f *fence) current(context.Context) error {
	f.asked.Add(1)
	switch {
	case f.lost.Load():
		return fmt.Errorf("call c1: %w", egress.ErrStale)
	case f.away.Load():
		return errors.New("no answer")
	}
	return nil
}

// after waits until the last answer about a fence is old.
func after(t *testing.T, f *fence, try func()) {
	t.Helper()
	n := f.asked.Load()
	eventually(t, func() bool { try(); return f.asked.Load() > n })
}

func TestFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.site(t, "a.example", "93.184.215.1", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "a") })
	w.echo(t, "echo.example", "93.184.215.3", 7)

	t.Run("SAFE-7 a door whose fence was lost reaches nothing", func(t *testing.T) {
		t.Parallel()
		f := &fence{}
		f.lost.Store(true)
		g := open(t, w.config(), f.current, "a.example", "echo.example:7")
		if resp, err := g.client(t, nil).Get("http://a.example/"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("got %d", resp.StatusCode)
			}
		}
		if _, err := g.RoundTrip(httptest.NewRequest(http.MethodGet, "http://a.example/", nil)); err == nil {
			t.Error("a tool's own request was let through")
		}
		if a := g.seen.await(t, func(egress.Attempt) bool { return true }); a.Code != policy.Revoked || a.Sent != 0 {
			t.Errorf("reported %+v", a)
		}
	})
	t.Run("SAFE-7 a connection that is open is cut before it carries a byte more", func(t *testing.T) {
		t.Parallel()
		f := &fence{}
		g := open(t, w.config(), f.current, "echo.example:7")
		conn, _ := g.connect(t, "echo.example:7")
		var b [1]byte
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			t.Fatal(err)
		}
		// The process sleeps here for so long that the answer about its fence is old; meanwhile the call is begun
		// again.
		after(t, f, func() {
			_, _ = conn.Write([]byte("y"))
			_, _ = io.ReadFull(conn, b[:])
		})
		f.lost.Store(true)
		n := f.asked.Load()
		echoed := 0
		eventually(t, func() bool {
			if _, err := conn.Write([]byte("z")); err != nil {
				return true
			}
			if _, err := io.ReadFull(conn, b[:]); err != nil {
				return true
			}
			echoed++
			return false
		})
		if f.asked.Load() == n {
			t.Error("no one asked about the fence")
		}
		sent := g.seen.await(t, func(a egress.Attempt) bool { return a.Target.Port == 7 }).Sent
		if _, status := g.connectAgain(t, "echo.example:7"); !strings.Contains(status, "403") && status != "" {
			t.Errorf("a new connection: %s", status)
		}
		if again := g.seen.await(t, func(a egress.Attempt) bool { return a.Target.Port == 7 }).Sent; again != sent {
			t.Errorf("%d bytes went out after that", again-sent)
		}
	})
	t.Run("SAFE-7 where no one can tell, new connections are refused and open ones live for a while", func(t *testing.T) {
		t.Parallel()
		f := &fence{}
		g := open(t, w.config(), f.current, "echo.example:7")
		conn, _ := g.connect(t, "echo.example:7")
		var b [1]byte
		f.away.Store(true)
		after(t, f, func() {
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, b[:]); err != nil {
				t.Fatal(err)
			}
		})
		if _, status := g.connect(t, "echo.example:7"); !strings.Contains(status, "403") {
			t.Errorf("a new connection: %s", status)
		}
		f.away.Store(false)
		if _, status := g.connect(t, "echo.example:7"); !strings.Contains(status, "200") {
			t.Errorf("after that: %s", status)
		}
	})
	t.Run("SAFE-7 one answer holds for a second and not for each connection", func(t *testing.T) {
		t.Parallel()
		f := &fence{}
		g := open(t, w.config(), f.current, "a.example")
		begin := time.Now()
		for range 50 {
			get(t, g.client(t, nil), "http://a.example/")
		}
		if most := int64(time.Since(begin)/time.Second) + 1; f.asked.Load() > most {
			t.Errorf("asked %d times, want at most %d", f.asked.Load(), most)
		}
	})
}

// connectAgain is connect where the gate may be shut altogether.
func (g gate) connectAgain(t *testing.T, target string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		return nil, ""
	}
	t.Cleanup(func() { _ = c.Close() })
	_, _ = io.WriteString(c, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	line, _ := bufio.NewReader(c).ReadString('\n')
	return c, strings.TrimSpace(line)
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.echo(t, "echo.example", "93.184.215.3", 7)
	begun, hang := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(hang) })
	w.site(t, "slow.example", "93.184.215.4", func(rw http.ResponseWriter, r *http.Request) {
		close(begun)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	t.Run("SAFE-7 Close cuts what is open at once and leaves nothing running", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "echo.example:7", "slow.example")
		var conns []net.Conn
		for range 20 {
			c, _ := g.connect(t, "echo.example:7")
			conns = append(conns, c)
		}
		var work sync.WaitGroup
		work.Go(func() {
			if resp, err := g.client(t, nil).Get("http://slow.example/"); err == nil {
				_ = resp.Body.Close()
			}
		})
		<-begun
		g.Close() // comes back although nothing that is open would end by itself
		for _, c := range conns {
			if n, err := c.Read(make([]byte, 1)); err == nil || n > 0 {
				t.Error("a connection is still open")
			}
		}
		work.Wait()
		g.Close() // again
		// The connection of the request is closed by the library, which may do so a moment later.
		for late := time.Now().Add(time.Minute); len(g.seen.all()) < 21 && time.Now().Before(late); {
			<-time.After(time.Millisecond)
		}
		if n := len(g.seen.all()); n != 21 {
			t.Errorf("reported %d attempts, want 21", n)
		}
		if c, err := net.Dial("tcp", g.addr); err == nil {
			_ = c.Close()
			t.Error("the port is still open")
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.echo(t, "echo.example", "93.184.215.3", 7)
	with := func(l egress.Limits) egress.Config {
		cfg := w.config()
		cfg.Limits = l
		return cfg
	}
	t.Run("SBX-13 connections at the limit and above, of a call and of all", func(t *testing.T) {
		t.Parallel()
		for _, l := range []egress.Limits{{Connections: 3}, {All: 3}} {
			g := open(t, with(l), nil, "echo.example:7")
			var first net.Conn
			for i := range 4 {
				c, status := g.connect(t, "echo.example:7")
				if want := map[bool]string{true: "200", false: "503"}[i < 3]; !strings.Contains(status, want) {
					t.Errorf("%+v: connection %d: %s, want %s", l, i, status, want)
				}
				if i == 0 {
					first = c
				}
			}
			_ = first.Close()
			eventually(t, func() bool {
				_, status := g.connect(t, "echo.example:7")
				return strings.Contains(status, "200")
			})
		}
	})
	t.Run("SBX-13 bytes at the limit and above", func(t *testing.T) {
		t.Parallel()
		g := open(t, with(egress.Limits{Bytes: 1000}), nil, "echo.example:7")
		conn, _ := g.connect(t, "echo.example:7")
		if _, err := conn.Write(make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 500)); err != nil {
			t.Error("at the limit:", err)
		}
		_, _ = conn.Write([]byte("x"))
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("above it: got %d bytes", n)
		}
		if a := g.seen.await(t, func(egress.Attempt) bool { return true }); a.Code != policy.Limit || a.Sent != 500 {
			t.Errorf("reported %+v", a)
		}
	})
	t.Run("SBX-13 silence ends a connection, and one side that speaks keeps both", func(t *testing.T) {
		t.Parallel()
		g := open(t, with(egress.Limits{Idle: 2 * time.Second}), nil, "echo.example:7", "sink.example:9")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		w.put("sink.example", "93.184.215.9", 9, l.Addr().String())
		conn, _ := g.connect(t, "sink.example:9")
		begin := time.Now()
		tick := time.NewTicker(20 * time.Millisecond) // a hundredth of what would be silence
		defer tick.Stop()
		for time.Since(begin) < 3*time.Second {
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatalf("after %s: %v", time.Since(begin), err)
			}
			<-tick.C
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %s of silence: %v", time.Since(begin), err)
		}
	})
}

func TestShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.site(t, "a.example", "93.184.215.1", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "a") })
	p, err := egress.New(w.config())
	if err != nil {
		t.Fatal(err)
	}
	one, two := openAt(t, p, nil, "a.example"), openAt(t, p, nil, "b.example")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	try := func(t *testing.T, scheme, token string) string {
		at := &url.URL{Scheme: scheme, Host: l.Addr().String()}
		if token != "" {
			at.User = url.UserPassword("call", token)
		}
		tr := &http.Transport{Proxy: http.ProxyURL(at), DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: tr}).Get("http://a.example/")
		if err != nil {
			return "error"
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(body[:min(len(body), 1)]))
	}
	t.Run("SAFE-7 on a shared port each call has its own token, and its own hosts", func(t *testing.T) {
		for _, tc := range []struct{ scheme, token, want string }{
			{"http", one.Token(), "200 a"}, {"http", two.Token(), "403 i"}, {"http", "", "407 i"}, {"http", "wrong", "407 i"},
			{"socks5", one.Token(), "200 a"}, {"socks5", two.Token(), "error"}, {"socks5", "", "error"}, {"socks5", "wrong", "error"},
		} {
			if got := try(t, tc.scheme, tc.token); got != tc.want {
				t.Errorf("%s with token %.3s: got %s, want %s", tc.scheme, tc.token, got, tc.want)
			}
		}
		one.Close()
		if got := try(t, "http", one.Token()); got != "407 i" {
			t.Errorf("a token whose door is closed: %s", got)
		}
	})
}
