package egress_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
)

// greeting is what a TLS client says first.
func greeting(t testing.TB, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan []byte, 1)
	go func() {
		var b bytes.Buffer
		_ = server.SetReadDeadline(time.Now().Add(5 * time.Second))
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err == nil {
			b.Write(head)
			_, _ = io.CopyN(&b, server, int64(head[3])<<8|int64(head[4]))
		}
		_ = server.Close()
		done <- b.Bytes()
	}()
	_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() //nolint:gosec // there is no server
	_ = client.Close()
	return <-done
}

func TestHello(t *testing.T) {
	t.Parallel()
	whole := greeting(t, "a.example")
	t.Run("SBX-13 the name is read, also from a greeting in many records, and nothing is lost", func(t *testing.T) {
		t.Parallel()
		split := []byte{}
		for body := whole[5:]; len(body) > 0; {
			n := min(len(body), 7)
			split = append(split, 0x16, 3, 1, 0, byte(n))
			split = append(split, body[:n]...)
			body = body[n:]
		}
		for _, data := range [][]byte{whole, append(bytes.Clone(whole), "more"...)} {
			name, taken, err := egress.ReadHello(data)
			if err != nil || name != "a.example" || !bytes.HasPrefix(data, taken) || len(taken) < len(whole) {
				t.Errorf("got %q, %d bytes, %v", name, len(taken), err)
			}
		}
		// Records of a few bytes are more than crypto/tls takes without progress, or it reads them: never another name.
		if name, _, err := egress.ReadHello(split); err == nil && name != "a.example" {
			t.Errorf("got %q", name)
		}
	})
	t.Run("SBX-13 one that is cut, changed or too long is none", func(t *testing.T) {
		t.Parallel()
		for i := range whole {
			if name, _, err := egress.ReadHello(whole[:i]); err == nil {
				t.Fatalf("%d bytes are read as %q", i, name)
			}
		}
		if _, _, err := egress.ReadHello(bytes.Repeat([]byte{0x16, 3, 1, 0x40, 0}, 1<<15)); err == nil {
			t.Error("noise is read")
		}
	})
}

func TestSocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.site(t, "a.example", "93.184.215.1", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "a %s", r.Host) })
	w.echo(t, "echo.example", "93.184.215.3", 7)
	ask := func(t *testing.T, g gate, text string) (net.Conn, []byte) {
		t.Helper()
		c := g.dial(t)
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 12)
		n, _ := io.ReadFull(c, head)
		return c, head[:n]
	}
	name := func(host string, port byte) string {
		return "\x05\x01\x00\x05\x01\x00\x03" + string(rune(len(host))) + host + "\x00" + string(rune(port))
	}
	t.Run("SBX-13 a tunnel by SOCKS5 carries bytes", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "echo.example:7")
		c, head := ask(t, g, name("echo.example", 7))
		if string(head[:4]) != "\x05\x00\x05\x00" {
			t.Fatalf("got %x", head)
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		back := make([]byte, 5)
		if _, err := io.ReadFull(c, back); err != nil || string(back) != "hello" {
			t.Errorf("got %q %v", back, err)
		}
	})
	for _, tc := range []struct {
		what, text string
		answer     byte
		code       policy.Code
	}{
		{"a host that is not allowed", name("b.example", 80), 2, policy.NotAllowed},
		{"an address in another spelling", name("127.1", 80), 2, policy.BadHost},
		{"loopback", "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", 2, policy.NotPublic},
		{"loopback as IPv6", "\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x00\x50", 2, policy.NotPublic},
		{"loopback in IPv6", "\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x01\x00\x50", 2, policy.NotPublic},
		{"a listener", "\x05\x01\x00\x05\x02\x00\x03\x09a.example\x00\x50", 7, policy.BadRequest},
		{"UDP", "\x05\x01\x00\x05\x03\x00\x03\x09a.example\x00\x50", 7, policy.BadRequest},
		{"port 0", "\x05\x01\x00\x05\x01\x00\x03\x09a.example\x00\x00", 2, policy.BadHost},
		{"no address at all", "\x05\x01\x00\x05\x01\x00\x07", 8, policy.Unreachable},
	} {
		t.Run("SBX-13 refused by SOCKS5: "+tc.what, func(t *testing.T) {
			t.Parallel()
			g := open(t, w.config(), nil, "a.example")
			_, head := ask(t, g, tc.text)
			if len(head) != 12 || head[3] != tc.answer {
				t.Errorf("got %x, want answer %d", head, tc.answer)
			}
			if a := g.seen.await(t, func(egress.Attempt) bool { return true }); a.Code != tc.code || a.Via != "socks" {
				t.Errorf("reported %+v", a)
			}
		})
	}
	t.Run("SBX-13 a client that offers no method that is known is sent away", func(t *testing.T) {
		t.Parallel()
		g := open(t, w.config(), nil, "a.example")
		if _, head := ask(t, g, "\x05\x01\x01"); string(head) != "\x05\xff" {
			t.Errorf("got %x", head)
		}
		if back := g.raw(t, "\x04\x01\x00\x50\x7f\x00\x00\x01\x00"); strings.Contains(back, "\x00\x5a") { // SOCKS4
			t.Errorf("got %q", back)
		}
		if _, _, _, err := egress.ReadSocks([]byte("\x05")); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	})
}
