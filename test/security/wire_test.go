package security

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet/jettest"
)

// patience bounds every wait for the server.
const patience = 5 * time.Minute

// wire is a client that speaks the protocol by hand, as an attacker would.
type wire struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
	sid  int
}

// heard is a message that came.
type received struct {
	subject, reply string
	header         string
	body           []byte
}

// dial connects to a server as a user; without a name as no one.
func dial(t testing.TB, url, user, password string) *wire {
	t.Helper()
	return dialAs(t, url, func(string) map[string]any {
		if user == "" {
			return nil
		}
		return map[string]any{"user": user, "pass": password}
	})
}

// dialCreds connects as the user of a credentials file.
func dialCreds(t testing.TB, url, creds string) *wire {
	t.Helper()
	return dialAs(t, url, func(info string) map[string]any {
		token, signature := jettest.SignNonce(t, creds, info)
		return map[string]any{"jwt": token, "sig": signature}
	})
}

// dialAs connects with what login makes of the first line of the server.
func dialAs(t testing.TB, url string, login func(info string) map[string]any) *wire {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be gone already
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, conn: conn, r: bufio.NewReader(conn)}
	hello := map[string]any{"verbose": false, "headers": true, "no_responders": true, "protocol": 1, "lang": "attacker", "version": "1"}
	maps.Copy(hello, login(jettest.FirstLine(t, conn, w.r)))
	b, err := json.Marshal(hello)
	if err != nil {
		t.Fatal(err)
	}
	w.send("CONNECT %s\r\n", b)
	if refused, _ := w.settle(); len(refused) > 0 {
		t.Fatalf("connect: %v", refused)
	}
	return w
}

func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.conn, format, args...); err != nil {
		w.t.Fatal(err)
	}
}

// publish says something; header is lines without their ends, or empty.
func (w *wire) publish(subject, reply, header, body string) {
	w.t.Helper()
	if reply != "" {
		reply += " "
	}
	if header == "" {
		w.send("PUB %s %s%d\r\n%s\r\n", subject, reply, len(body), body)
		return
	}
	header = "NATS/1.0\r\n" + strings.ReplaceAll(header, "\n", "\r\n") + "\r\n\r\n"
	w.send("HPUB %s %s%d %d\r\n%s%s\r\n", subject, reply, len(header), len(header)+len(body), header, body)
}

// publishBlock says something with a header block as it is, which need not be a sound one.
func (w *wire) publishBlock(subject, block, body string) {
	w.t.Helper()
	if block == "" {
		w.send("PUB %s %d\r\n%s\r\n", subject, len(body), body)
		return
	}
	w.send("HPUB %s %d %d\r\n%s%s\r\n", subject, len(block), len(block)+len(body), block, body)
}

// denied reports whether the server lets nothing of it through.
func (w *wire) denied(subject, reply, header, body string) bool {
	w.t.Helper()
	w.publish(subject, reply, header, body)
	refused, _ := w.settle()
	return len(refused) > 0
}

// deaf reports whether the server refuses a subscription.
func (w *wire) deaf(subject string) bool {
	w.t.Helper()
	w.sid++
	w.send("SUB %s %d\r\n", subject, w.sid)
	refused, _ := w.settle()
	w.send("UNSUB %d\r\n", w.sid)
	return len(refused) > 0
}

// settle waits until the server has dealt with all that was sent, and returns its refusals and what came meanwhile.
func (w *wire) settle() (refusals []string, got []received) {
	w.t.Helper()
	w.send("PING\r\n")
	for {
		line := w.line()
		switch {
		case line == "PONG":
			return refusals, got
		case strings.HasPrefix(line, "-ERR"):
			refusals = append(refusals, line)
		default:
			if m, ok := w.message(line); ok {
				got = append(got, m)
			}
		}
	}
}

// ask publishes with an inbox of the user's own for the answer and returns the answer.
func (w *wire) ask(inbox, subject, header, body string) (received, error) {
	w.t.Helper()
	w.sid++
	reply := fmt.Sprintf("%s.a%d", inbox, w.sid)
	w.send("SUB %s %d\r\n", reply, w.sid)
	w.publish(subject, reply, header, body)
	for {
		line := w.line()
		if strings.HasPrefix(line, "-ERR") {
			return received{}, fmt.Errorf("refused: %s", line)
		}
		if m, ok := w.message(line); ok && m.subject == reply {
			return m, nil
		}
	}
}

func (w *wire) line() string {
	w.t.Helper()
	line, err := w.r.ReadString('\n')
	if err != nil {
		w.t.Fatalf("the server went away: %v", err)
	}
	return strings.TrimRight(line, "\r\n")
}

// message reads the rest of MSG and HMSG; everything else is not a message.
func (w *wire) message(line string) (received, bool) {
	w.t.Helper()
	f := strings.Fields(line)
	if len(f) == 0 || f[0] != "MSG" && f[0] != "HMSG" {
		return received{}, false
	}
	numbers := map[string]int{"MSG": 1, "HMSG": 2}[f[0]]
	m := received{subject: f[1]}
	if len(f) == 4+numbers {
		m.reply = f[3]
	}
	total, err := strconv.Atoi(f[len(f)-1])
	if err != nil {
		w.t.Fatalf("not a length: %q", line)
	}
	data := make([]byte, total+2)
	if _, err := io.ReadFull(w.r, data); err != nil {
		w.t.Fatal(err)
	}
	data = data[:total]
	if numbers == 2 {
		n, err := strconv.Atoi(f[len(f)-2])
		if err != nil || n > total {
			w.t.Fatalf("not a length: %q", line)
		}
		m.header, data = string(data[:n]), data[n:]
	}
	m.body = data
	return m, true
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}
