package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
)

const (
	// maxHead is the most bytes of a request's line and headers.
	maxHead = 64 << 10
	// accepted is how many clients of one listener are served at once; others wait to be accepted.
	accepted = 1024
)

// Serve answers the clients of a listener that only this Session's call can reach: HTTP requests, HTTP CONNECT and
// SOCKS5 on the same port. It returns when the listener or the Door is closed, and closes the listener.
func (d *Session) Serve(l net.Listener) error {
	return serve(l, d.keep, func(string) *Session { return d })
}

// Serve answers the clients of a listener that several calls can reach. A client names its call by the token of its
// Session, as the password of any user: of HTTP proxies and of SOCKS5. It returns when ctx has ended, and everybody is
// gone.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	err := serve(l, func(cut func()) (func(), bool) {
		clients.Add(1)
		stop := context.AfterFunc(ctx, cut)
		return sync.OnceFunc(func() { stop(); clients.Done() }), ctx.Err() == nil
	}, func(token string) *Session {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.tokens[token]
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end
	}
	return err
}

// Token of the Session, for clients of a shared listener. It cannot be guessed.
func (d *Session) Token() string { return d.token }

// serve accepts clients; keep remembers how to end something and when it has ended, find returns the Session of a
// token.
func serve(l net.Listener, keep func(cut func()) (forget func(), ok bool), find func(token string) *Session) error {
	forget, _ := keep(func() { _ = l.Close() })
	defer forget()
	defer func() { _ = l.Close() }()
	places := make(chan struct{}, accepted)
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		leave, ok := keep(func() { _ = conn.Close() })
		if !ok {
			_ = conn.Close()
			leave()
			continue
		}
		places <- struct{}{}
		go func() { // keep counts it, and whoever ends the Session waits for it
			defer leave()
			defer func() { <-places }()
			client{conn: conn, find: find}.serve()
		}()
	}
}

// client is somebody who connected.
type client struct {
	conn net.Conn
	find func(token string) *Session
}

func (c client) serve() {
	defer func() { _ = c.conn.Close() }()
	_ = c.conn.SetReadDeadline(time.Now().Add(greeting))
	in := bufio.NewReader(c.conn)
	first, err := in.Peek(1)
	if err != nil {
		return
	}
	if first[0] == socksVersion {
		c.socks(in)
		return
	}
	_ = c.conn.SetReadDeadline(time.Time{})
	serveHTTP(&buffered{c.conn, in}, http.HandlerFunc(c.request))
}

// greeting is how long a client may take for its first byte; those who wait are of the sandbox, and few.
const greeting = 2 * time.Minute

// request serves one request of a client of the proxy.
func (c client) request(w http.ResponseWriter, r *http.Request) {
	d := c.find(password(r.Header.Get("Proxy-Authorization")))
	if d == nil {
		w.Header().Set("Proxy-Authenticate", `Basic realm="inspan"`)
		http.Error(w, "inspan: the token of a running call is missing", http.StatusProxyAuthRequired)
		return
	}
	if r.Method == http.MethodConnect {
		d.connect(w, r)
		return
	}
	if r.URL.Host == "" && d.grant.Local != nil {
		d.grant.Local.ServeHTTP(w, r)
		return
	}
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		d.refuse(w, policy.Target{}, &policy.Refusal{Code: policy.BadRequest, Target: "request",
			Reason: "this is a proxy: it accepts requests for http://host/path, and CONNECT for everything else"})
		return
	}
	t, err := policy.ParseTarget(r.URL.Host, policy.PortHTTP)
	if err != nil {
		d.refuse(w, t, err)
		return
	}
	d.forward(w, r, t, "http")
}

// connect opens a tunnel.
func (d *Session) connect(w http.ResponseWriter, r *http.Request) {
	t, err := policy.ParseTarget(r.Host, 0)
	if err != nil || r.URL.Host != r.Host || r.URL.Path != "" {
		if err == nil {
			err = policy.Refuse(policy.BadRequest, t, "CONNECT wants host:port", "")
		}
		d.refuse(w, t, err)
		return
	}
	d.tunnel(r.Context(), t, "connect", func(err error) (net.Conn, *bufio.Reader) {
		if err != nil {
			answer(w, err)
			return nil, nil
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return nil, nil
		}
		_ = conn.SetDeadline(time.Time{})
		if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			_ = conn.Close()
			return nil, nil
		}
		return conn, both.Reader
	})
}

// refuse answers a request that is refused before anything was reached for, and reports it.
func (d *Session) refuse(w http.ResponseWriter, t policy.Target, err error) {
	d.refused(t, "http", "", err)
	answer(w, err)
}

// answer writes a refusal as an answer.
func answer(w http.ResponseWriter, err error) {
	status, code := http.StatusBadGateway, policy.Unreachable
	r, ok := errors.AsType[*policy.Refusal](err)
	if ok {
		code = r.Code
	}
	switch code {
	case policy.BadHost, policy.BadRequest:
		status = http.StatusBadRequest
	case policy.NotAllowed, policy.NotPublic, policy.Revoked, policy.Hidden:
		status = http.StatusForbidden
	case policy.Differs:
		status = http.StatusMisdirectedRequest
	case policy.Limit:
		status = http.StatusServiceUnavailable
	case policy.NoAddress, policy.Unreachable:
	}
	text := "invalid response from the host"
	if ok {
		text = r.Error()
	}
	w.Header().Set("Inspan-Refused", string(code))
	http.Error(w, "inspan: "+text, status)
}

// password of an Authorization header; empty where there is none.
func password(header string) string {
	text, ok := strings.CutPrefix(header, "Basic ")
	if !ok {
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	_, pass, _ := strings.Cut(string(plain), ":")
	return pass
}

// buffered is a connection of which something was read already.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

// serveHTTP serves one connection until it is closed.
func serveHTTP(conn net.Conn, h http.Handler) {
	one := &single{conn: make(chan net.Conn, 1), over: make(chan struct{})}
	one.conn <- &closing{Conn: conn, over: one.over}
	quiet := log.New(io.Discard, "", 0)
	s := &http.Server{Handler: h, ReadHeaderTimeout: greeting, IdleTimeout: greeting, MaxHeaderBytes: maxHead,
		ErrorLog: quiet, DisableGeneralOptionsHandler: true}
	_ = s.Serve(one) // it ends with the connection
}

// single is a listener for one connection.
type single struct {
	conn chan net.Conn // has one, and is never closed
	over chan struct{} // closed when that one is
}

func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.over:
		return nil, net.ErrClosed
	}
}

func (s *single) Close() error   { return nil }
func (s *single) Addr() net.Addr { return &net.TCPAddr{} }

// closing tells when a connection is closed.
type closing struct {
	net.Conn
	once sync.Once
	over chan struct{}
}

func (c *closing) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.over) })
	return err
}
