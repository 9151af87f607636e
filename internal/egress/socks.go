package egress

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
)

// SOCKS5 as in RFC 1928, with names and passwords as in RFC 1929.
const (
	socksVersion  = 5
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
	methodNone    = 0
	methodUser    = 2
	methodRefused = 0xff
	userVersion   = 1

	replyOK          = 0
	replyFailed      = 1
	replyNotAllowed  = 2
	replyUnreachable = 4
	replyNoCommand   = 7
	replyNoAddress   = 8
)

var errSocks = errors.New("not SOCKS5")

// socks serves one client of SOCKS5.
func (c client) socks(in *bufio.Reader) {
	token, ok, err := greetSocks(struct {
		io.Reader
		io.Writer
	}{in, c.conn})
	if err != nil {
		return
	}
	d := c.find(token)
	if ok { // a user was asked for
		verdict := byte(0)
		if d == nil {
			verdict = 1
		}
		if _, err := c.conn.Write([]byte{userVersion, verdict}); err != nil {
			return
		}
	}
	if d == nil {
		return
	}
	t, code, err := readSocks(in)
	if err != nil {
		d.refused(t, "socks", "", err)
		_, _ = c.conn.Write(socksReply(code))
		return
	}
	_ = c.conn.SetReadDeadline(time.Time{})
	d.tunnel(context.Background(), t, "socks", func(err error) (net.Conn, *bufio.Reader) {
		code := byte(replyOK)
		if err != nil {
			code = socksCode(err)
		}
		if _, wrong := c.conn.Write(socksReply(code)); wrong != nil || err != nil {
			return nil, nil
		}
		return c.conn, in
	})
}

// greetSocks agrees on a method: user and password where the client offers them, else none. The token is the password.
func greetSocks(rw io.ReadWriter) (token string, user bool, err error) {
	var head [2]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil || head[0] != socksVersion {
		return "", false, errSocks
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(rw, methods); err != nil {
		return "", false, errSocks
	}
	switch {
	case slices.Contains(methods, methodUser):
		if _, err := rw.Write([]byte{socksVersion, methodUser}); err != nil {
			return "", false, err
		}
		token, err = readUser(rw)
		return token, true, err
	case slices.Contains(methods, methodNone):
		_, err := rw.Write([]byte{socksVersion, methodNone})
		return "", false, err
	}
	_, _ = rw.Write([]byte{socksVersion, methodRefused})
	return "", false, errSocks
}

// readUser reads a name, which says nothing, and a password.
func readUser(r io.Reader) (password string, err error) {
	var version [1]byte
	if _, err := io.ReadFull(r, version[:]); err != nil || version[0] != userVersion {
		return "", errSocks
	}
	for range 2 {
		if password, err = readShort(r); err != nil {
			return "", err
		}
	}
	return password, nil
}

// readShort reads a text of at most 255 bytes.
func readShort(r io.Reader) (string, error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", errSocks
	}
	text := make([]byte, n[0])
	if _, err := io.ReadFull(r, text); err != nil {
		return "", errSocks
	}
	return string(text), nil
}

// readSocks reads a request; code is the answer where it is refused.
func readSocks(r io.Reader) (t policy.Target, code byte, err error) {
	var head [4]byte // version, command, reserved, type of the address
	if _, err := io.ReadFull(r, head[:]); err != nil || head[0] != socksVersion || head[2] != 0 {
		return t, replyFailed, errSocks
	}
	var text string
	switch head[3] {
	case socksIPv4, socksIPv6:
		raw := make([]byte, map[byte]int{socksIPv4: 4, socksIPv6: 16}[head[3]])
		if _, err := io.ReadFull(r, raw); err != nil {
			return t, replyFailed, errSocks
		}
		addr, _ := netip.AddrFromSlice(raw) // it has one of the two lengths
		text = addr.Unmap().String()
	case socksName:
		if text, err = readShort(r); err != nil {
			return t, replyFailed, err
		}
	default:
		return t, replyNoAddress, fmt.Errorf("%w: address of type %d", errSocks, head[3])
	}
	var port [2]byte
	if _, err := io.ReadFull(r, port[:]); err != nil {
		return t, replyFailed, errSocks
	}
	if t, err = policy.ParseHost(text); err != nil {
		return t, replyNotAllowed, err
	}
	if t.Port = binary.BigEndian.Uint16(port[:]); t.Port == 0 {
		return t, replyNotAllowed, policy.Refuse(policy.BadHost, t, "want a port of 1 to 65535", "")
	}
	if head[1] != socksConnect {
		return t, replyNoCommand, policy.Refuse(policy.BadRequest, t, "only TCP connections are supported", "")
	}
	return t, replyOK, nil
}

func socksCode(err error) byte {
	r := refusalOf(err)
	switch {
	case r == nil:
		return replyFailed
	case r.Code == policy.NoAddress, r.Code == policy.Unreachable:
		return replyUnreachable
	case r.Code == policy.Limit:
		return replyFailed
	}
	return replyNotAllowed
}

func socksReply(code byte) []byte {
	return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}
