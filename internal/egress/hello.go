package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

const (
	// recordHandshake is the first byte of TLS.
	recordHandshake = 0x16
	// extensionECH is the number of the extension that hides the true greeting (RFC 9849).
	extensionECH = 0xfe0d
	// maxHello is the most bytes of a greeting that are read.
	maxHello = 64 << 10
)

// hello is what the greeting of a TLS client tells.
type hello struct {
	name string
	// hidden is true where another name may be hidden in it.
	hidden bool
}

var errHello = errors.New("not a TLS greeting")

// readHello reads a TLS greeting and returns all bytes that it took, which may be more than the greeting. The reading
// is that of crypto/tls, which refuses what is not clear, such as a name given twice.
func readHello(r io.Reader) (taken []byte, h hello, err error) {
	peek := &peeking{in: io.LimitReader(r, maxHello)}
	seen := false
	err = tls.Server(peek, &tls.Config{MinVersion: tls.VersionTLS10,
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = true
			h = hello{name: info.ServerName, hidden: slices.Contains(info.Extensions, extensionECH)}
			return nil, errHello // enough was seen
		}}).Handshake()
	if !seen {
		return nil, hello{}, fmt.Errorf("%w: %w", errHello, err)
	}
	return peek.taken.Bytes(), h, nil
}

// peeking is a connection that keeps what is read and says nothing.
type peeking struct {
	in    io.Reader
	taken bytes.Buffer
}

func (p *peeking) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.taken.Write(b[:n])
	return n, err
}

func (*peeking) Write(b []byte) (int, error)      { return len(b), nil }
func (*peeking) Close() error                     { return nil }
func (*peeking) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*peeking) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*peeking) SetDeadline(time.Time) error      { return nil }
func (*peeking) SetReadDeadline(time.Time) error  { return nil }
func (*peeking) SetWriteDeadline(time.Time) error { return nil }
