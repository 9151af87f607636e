package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
)

const (
	// hush is how long a tunnel to a port of no known protocol waits for its client to speak first.
	hush = 250 * time.Millisecond
	// copyBuffer is what each direction of a tunnel holds.
	copyBuffer = 16 << 10
)

// tunnel carries a connection to a target. reply tells the client whether it may begin, and returns its connection
// then.
func (d *Session) tunnel(ctx context.Context, t policy.Target, via string, reply func(error) (net.Conn,
	*bufio.Reader)) {
	ends := d.ends(t)
	if ends || t.Port == policy.PortHTTP {
		if _, err := d.allow(ctx, t); err != nil {
			d.refused(t, via, "", err)
			reply(err)
			return
		}
		if conn, in := reply(nil); conn != nil {
			defer func() { _ = conn.Close() }()
			if ends {
				d.terminate(ctx, &buffered{conn, in}, t, via)
				return
			}
			d.inside(&buffered{conn, in}, t, "http")
		}
		return
	}
	l, err := d.reach(ctx, t, via)
	if err != nil {
		reply(err)
		return
	}
	defer func() { _ = l.Close() }()
	conn, in := reply(nil)
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	head, sort, refused := d.begin(conn, in, t)
	switch {
	case refused != nil:
		_ = l.end(refused)
	case sort == plainHTTP:
		_ = l.Close() // requests are carried one by one, each on a connection that was judged for it
		d.inside(&buffered{conn, in}, t, "http")
	default:
		d.join(conn, in, l, head, sort)
	}
}

// sort is what the first bytes of a tunnel look like.
type sort int

const (
	silent sort = iota
	unknown
	plainHTTP
	overTLS
)

// begin looks at the first bytes of a client. head are those that were taken from in.
func (d *Session) begin(conn net.Conn, in *bufio.Reader, t policy.Target) (head []byte, s sort,
	refused *policy.Refusal) {
	wait := hush
	if t.Port == policy.PortHTTPS {
		wait = d.proxy.cfg.Limits.Greet
	}
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	s = look(in)
	if s == overTLS {
		_ = conn.SetReadDeadline(time.Now().Add(d.proxy.cfg.Limits.Greet))
		head, refused = greet(in, t)
	} else if t.Port == policy.PortHTTPS {
		refused = policy.Refuse(policy.Hidden, t, "the connection is not TLS",
			"other protocols need a port of their own in allowed_hosts")
	}
	_ = conn.SetReadDeadline(time.Time{})
	return head, s, refused
}

// look waits for the first bytes and tells what they look like.
func look(in *bufio.Reader) sort {
	first, err := in.Peek(1)
	switch {
	case err != nil:
		return silent
	case first[0] == recordHandshake:
		return overTLS
	case first[0] < 'A' || first[0] > 'Z':
		return unknown
	}
	const longest = len("CONNECT ")
	begin, _ := in.Peek(longest)
	if method, _, ok := strings.Cut(string(begin), " "); ok && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return plainHTTP
	}
	return unknown
}

// greet reads the greeting of a TLS client and compares the name in it with the target.
func greet(in io.Reader, t policy.Target) (head []byte, refused *policy.Refusal) {
	head, hello, err := readHello(in)
	switch {
	case err != nil:
		return nil, policy.Refuse(policy.Hidden, t, "the TLS greeting cannot be read", "")
	case hello.hidden:
		return nil, policy.Refuse(policy.Hidden, t, "the TLS greeting hides its name (ECH)", "disable ECH in the client")
	case t.Addr.IsValid() && hello.name == "":
		return head, nil
	case !t.Addr.IsValid() && strings.EqualFold(hello.name, t.Name):
		return head, nil
	}
	return nil, policy.Refuse(policy.Differs, t, "the TLS greeting does not name it",
		"connect to the intended host directly")
}

// join copies both ways until both have ended.
func (d *Session) join(conn net.Conn, in *bufio.Reader, l *line, head []byte, s sort) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		if refused := send(in, l, head, s); refused != nil {
			_ = l.end(refused)
			_ = conn.Close()
			return
		}
		_ = l.CloseWrite()
	}()
	// Only what the line has is hidden from the copy: its own way would pass the checks by.
	_, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{l}, make([]byte, copyBuffer))
	if half, ok := conn.(interface{ CloseWrite() error }); err == nil && ok && half.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(d.proxy.cfg.Limits.Idle))
	} else {
		_ = conn.Close()
	}
	if err != nil {
		_ = l.Close()
	}
	<-up
}

// send copies a client's bytes. Where nothing had come at the beginning, what comes first is looked at now.
func send(in *bufio.Reader, l *line, head []byte, s sort) *policy.Refusal {
	if s == silent {
		var refused *policy.Refusal
		switch look(in) {
		case overTLS:
			head, refused = greet(in, l.target)
		case plainHTTP:
			refused = policy.Refuse(policy.Hidden, l.target, "an unencrypted request arrived too late to be checked",
				"try again")
		case silent, unknown:
		}
		if refused != nil {
			return refused
		}
	}
	if _, err := l.Write(head); err != nil {
		return refusalOf(err)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{l}, struct{ io.Reader }{in}, make([]byte, copyBuffer))
	return refusalOf(err)
}

func refusalOf(err error) *policy.Refusal {
	r, _ := errors.AsType[*policy.Refusal](err)
	return r
}

// terminate ends the TLS of a client here and serves its requests.
func (d *Session) terminate(ctx context.Context, conn net.Conn, t policy.Target, via string) {
	ctx, done := d.within(ctx, d.proxy.cfg.Limits.Greet)
	defer done()
	server := tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		SessionTicketsDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if !strings.EqualFold(hello.ServerName, t.Name) {
				return nil, policy.Refuse(policy.Differs, t, "the TLS greeting does not name it", "")
			}
			return nil, nil //nolint:nilnil // go on with this configuration
		},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return d.trust.leaf(t.Name) }})
	if err := server.HandshakeContext(ctx); err != nil {
		refused := refusalOf(err)
		if refused == nil {
			refused = policy.Refuse(policy.Hidden, t, "the client does not speak TLS with the proxy",
				"it must trust the certificates of SSL_CERT_FILE")
		}
		d.refused(t, via, "", refused)
		return
	}
	d.inside(server, t, "https")
}
