package cli_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/cli"
)

func TestGateway(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	up := func(do func(), more ...string) (code int, out, errs string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		said := &ending{on: "Ctrl+C stops"}
		said.end = func() { said.end = func() {}; defer cancel(); do() }
		var wrong bytes.Buffer
		code = cli.MainAlone(ctx, append([]string{"up", "--store", store, "--listen", "127.0.0.1:0", "--sandbox", "host", "--accept-lazy-fsync"}, more...), strings.NewReader(""), said, &wrong)
		return code, said.text.String(), wrong.String()
	}
	t.Run("TRIG-3 a token is printed once, listed without what it is, and removed", func(t *testing.T) {
		s := inspan(t, "token", "add", "ci", "--store", store, "--scope", "runs:read", "--expires", "1h")
		if s.code != 0 || !strings.HasPrefix(s.out, "inspan_") || !strings.Contains(s.err, "not shown again") {
			t.Fatalf("%+v", s)
		}
		for want, args := range map[int][]string{1: {"add", "ci"}, 2: {"add", "x", "--scope", "all"}, 5: {"remove", "none"}} {
			if s := inspan(t, append(append([]string{"token"}, args...), "--store", store)...); s.code != want {
				t.Errorf("%v: %+v", args, s)
			}
		}
		if l := inspan(t, "token", "list", "--store", store); l.code != 0 || !strings.Contains(l.out, "runs:read") || strings.Contains(l.out, strings.TrimSpace(s.out)) {
			t.Errorf("%+v", l)
		}
		inspan(t, "token", "remove", "ci", "--store", store)
	})
	t.Run("CLI-11b a webhook is made with a secret, listed without it, and checked", func(t *testing.T) {
		dir := t.TempDir()
		at := []string{"--dir", filepath.Join(dir, "hooks"), "--secrets", filepath.Join(dir, "secrets")}
		made := inspan(t, append([]string{"webhook", "create", "pr", "--event", "push", "--agent", "a", "--task", "see {{ref}}", "--json"}, at...)...)
		if made.code != 0 {
			t.Fatalf("%+v", made)
		}
		secret := decode[struct{ Secret, Path string }](t, made.out)
		l := inspan(t, append([]string{"webhook", "list"}, at...)...)
		if l.code != 0 || secret.Path != "/hooks/pr" || !strings.Contains(l.out, "github") || len(secret.Secret) != 64 || strings.Contains(l.out, secret.Secret) {
			t.Errorf("%+v\n%+v", made, l)
		}
		if s := inspan(t, append([]string{"webhook", "create", "pr", "--event", "push", "--agent", "a", "--task", "x"}, at...)...); s.code != 1 {
			t.Errorf("it was written over: %+v", s)
		}
	})
	t.Run("TRIG-3 CLI-9 inspan up --http names its address and lets in who has a token", func(t *testing.T) {
		secret := decode[struct{ Token string }](t, inspan(t, "token", "add", "ci", "--store", store, "--json").out).Token
		code, out, errs := up(func() {}, "--http", "127.0.0.1:0")
		if code != 0 || !strings.Contains(out, "(tokens: ci)") {
			t.Fatalf("exit %d\n%s%s", code, out, errs)
		}
		statuses := map[string]int{}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		if code, _, errs := up(func() {}, "--http", address); code != 1 || !strings.Contains(errs, address+" of --http is in use") {
			t.Errorf("exit %d\n%s", code, errs)
		}
		_ = l.Close()
		said := ""
		for range 10 { // another program may take a free port
			code, out, errs = up(func() {
				for _, token := range []string{"", secret} {
					req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address+"/api/v1/agents", nil)
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+token)
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					_ = res.Body.Close()
					statuses[token] = res.StatusCode
				}
				said = consoleSays(t, address, secret)
			}, "--http", address)
			if code == 0 || !strings.Contains(errs, "is in use") {
				break
			}
			address = free(t)
		}
		if !strings.Contains(said, "INFO {") || !strings.Contains(said, "PONG") {
			t.Errorf("PLUS-9 a console with a token is answered %q", said)
		}
		if !regexp.MustCompile(`console +http://` + regexp.QuoteMeta(address) + `/console/`).MatchString(out) {
			t.Errorf("PLUS-9 the console is not named:\n%s", out)
		}
		if code != 0 || statuses[""] != 401 || statuses[secret] != 200 || !regexp.MustCompile(`gateway +http://`+regexp.QuoteMeta(address)).MatchString(out) {
			t.Errorf("exit %d %v\n%s%s", code, statuses, out, errs)
		}
		if code, _, errs := up(func() {}, "--http", "8222"); code != 2 || !strings.Contains(errs, "host:port") {
			t.Errorf("exit %d\n%s", code, errs)
		}
	})
}

// consoleSays signs in as a console does and returns what NATS answers.
func consoleSays(t *testing.T, address, token string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	const connect = "CONNECT {\"verbose\":false}\r\nPING\r\n"
	frame := append([]byte{0x82, 0x80 | byte(len(connect)), 0, 0, 0, 0}, connect...)
	if _, err := io.WriteString(conn, "GET /console/nats HTTP/1.1\r\nHost: "+address+"\r\nOrigin: http://"+address+
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"+
		"Sec-WebSocket-Protocol: nats.inspan, token."+token+"\r\n\r\n"); err != nil {
		t.Error(err)
	}
	said, b := "", make([]byte, 4096)
	until := func(text string) bool {
		for !strings.Contains(said, text) {
			n, err := conn.Read(b)
			if said += string(b[:n]); err != nil {
				t.Error(err)
				return false
			}
		}
		return true
	}
	if until("INFO {") { // no one sends before that
		if _, err := conn.Write(frame); err != nil {
			t.Error(err)
		}
		until("PONG")
	}
	return said
}

// free is an address that nothing listened on a moment ago.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
