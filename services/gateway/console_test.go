package gateway_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/console"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// withConsole has a gateway serve the console of its station.
func (w *world) withConsole(c *gateway.Config) {
	rights := map[tokens.Scope]topology.Right{tokens.Read: topology.MayWatch, tokens.Write: topology.MayDispatch,
		tokens.Answer: topology.MayApprove}
	c.Console = &gateway.Console{Address: station.Consoles(w.station).Address, UserCookie: topology.UserCookie,
		PasswordCookie: topology.PasswordCookie,
		About:          gateway.ConsoleAbout{Station: w.station.Name(), State: topology.StateBucket, Files: topology.FilesBucket},
		Login: func(scopes []tokens.Scope) (user, password string) {
			var may []topology.Right
			for _, s := range scopes {
				may = append(may, rights[s])
			}
			return station.Consoles(w.station).Login(may...)
		}}
}

// tab is a browser's side of a WebSocket that speaks NATS.
type tab struct {
	conn net.Conn
	in   *bufio.Reader
	text string
}

// dial asks for a WebSocket; the status is that of a refusal.
func dial(t *testing.T, address, path string, headers ...string) (p *tab, status int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ask := "GET " + path + " HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	host := "Host: " + address + "\r\n"
	for i := 0; i < len(headers); i += 2 {
		line := headers[i] + ": " + headers[i+1] + "\r\n"
		if headers[i] == "Host" {
			host = line
		} else {
			ask += line
		}
	}
	if _, err := io.WriteString(conn, ask+host+"\r\n"); err != nil {
		t.Fatal(err)
	}
	p = &tab{conn: conn, in: bufio.NewReader(conn)}
	res, err := http.ReadResponse(p.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == http.StatusSwitchingProtocols && path != "/" &&
		res.Header.Get("Sec-Websocket-Protocol") != "nats.inspan" {
		t.Errorf("subprotocol %q: a browser would not go on", res.Header.Get("Sec-Websocket-Protocol"))
	}
	return p, res.StatusCode
}

// say sends a frame, masked as a browser does with a mask of zeros.
func (p *tab) say(t *testing.T, text string) {
	t.Helper()
	head := []byte{0x82, 0x80 | 126, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(head[2:], uint16(len(text)))
	if _, err := p.conn.Write(append(head, text...)); err != nil {
		t.Fatal(err)
	}
}

// hear reads frames until what came contains a text, and returns all that came; the error is that of the connection.
func (p *tab) hear(until string) (string, error) {
	for !strings.Contains(p.text, until) {
		head := make([]byte, 2)
		if _, err := io.ReadFull(p.in, head); err != nil {
			return p.text, err
		}
		size := int64(head[1] & 0x7f)
		if more := map[int64]int{126: 2, 127: 8}[size]; more > 0 {
			b := make([]byte, 8)
			if _, err := io.ReadFull(p.in, b[8-more:]); err != nil {
				return p.text, err
			}
			size = int64(binary.BigEndian.Uint64(b))
		}
		body, err := io.ReadAll(io.LimitReader(p.in, size))
		if err != nil {
			return p.text, err
		}
		p.text += string(body)
	}
	return p.text, nil
}

// in signs in and returns what the server answers.
func (p *tab) signIn(t *testing.T, connect string) string {
	t.Helper()
	if _, err := p.hear("INFO "); err != nil {
		t.Fatal(err)
	}
	p.say(t, "CONNECT "+connect+"\r\nPING\r\n")
	text, err := p.hear("PONG")
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !isReset(err) {
		t.Fatal(err)
	}
	return text
}

func isReset(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

const nothing = `{"verbose":false,"headers":true,"no_responders":true}`

func TestConsole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(t, nil, w.withConsole, func(c *gateway.Config) { c.Origins = []string{"https://console.example.com"} })
	address := strings.TrimPrefix(d.url, "http://")
	own := []string{"Origin", d.url}
	// join opens the WebSocket of a page with a token.
	join := func(t *testing.T, token string, headers ...string) (*tab, int) {
		t.Helper()
		protocols := "nats.inspan"
		if token != "" {
			protocols += ", token." + token
		}
		return dial(t, address, "/console/nats", append([]string{"Sec-WebSocket-Protocol", protocols}, headers...)...)
	}
	t.Run("PLUS-9 the files are served with a policy that runs nothing else, to anyone", func(t *testing.T) {
		t.Parallel()
		for path, kind := range map[string]string{"/console/": "text/html; charset=utf-8",
			"/console/app.js": "text/javascript; charset=utf-8", "/console/style.css": "text/css; charset=utf-8"} {
			a := d.want(t, 200, "GET", path, "", "", "Sec-Fetch-Site", "cross-site")
			policy := a.header.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self';", "frame-ancestors 'none'",
				"require-trusted-types-for 'script'"} {
				if !strings.Contains(policy, part) {
					t.Errorf("%s: policy %q lacks %q", path, policy, part)
				}
			}
			if strings.Contains(policy, "unsafe") || a.header.Get("X-Content-Type-Options") != "nosniff" ||
				a.header.Get("Content-Type") != kind || a.header.Get("X-Frame-Options") != "DENY" {
				t.Errorf("%s: %v", path, a.header)
			}
			d.want(t, 304, "GET", path, "", "", "If-None-Match", a.header.Get("ETag"))
		}
		if a := d.want(t, 302, "GET", "/", "", ""); a.header.Get("Location") != "/console/" {
			t.Errorf("/ leads to %q", a.header.Get("Location"))
		}
		d.want(t, 404, "GET", "/console/none.js", "", "")
		for _, path := range []string{"/console/../api/v1/runs", "/console/%2e%2e/api/v1/runs", "/console//app.js"} {
			d.want(t, 401, "GET", path, "", "")
		}
		d.want(t, 401, "POST", "/console/", "", "")
	})
	t.Run("PLUS-9 no file of the console makes markup or code of text, and all are small", func(t *testing.T) {
		t.Parallel()
		files, err := console.Files()
		if err != nil {
			t.Fatal(err)
		}
		bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|createContextualFragment|` +
			`DOMParser|javascript:|\son[a-z]+=|\sstyle=|setTimeout\(['"]|https?://[a-z]`)
		total, count := 0, 0
		if err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := fs.ReadFile(files, name)
			text := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", "")
			if found := bad.FindString(text); found != "" {
				t.Errorf("%s has %q", name, found)
			}
			total, count = total+len(b), count+1
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if total > 300<<10 || count < 8 {
			t.Errorf("%d files with %d bytes, want at least 8 with at most %d", count, total, 300<<10)
		}
	})
	t.Run("PLUS-9 a page learns the station, and whether its token is good", func(t *testing.T) {
		t.Parallel()
		if a := in[gateway.ConsoleAbout](t, d.want(t, 200, "GET", "/console/about", "", "")); a.Station != w.station.Name() || a.Token != "" {
			t.Errorf("%+v", a)
		}
		if a := in[gateway.ConsoleAbout](t, d.want(t, 200, "GET", "/console/about", "reader", "")); a.Token != "reader" || len(a.Scopes) != 1 {
			t.Errorf("%+v", a)
		}
		d.want(t, 401, "GET", "/console/about", "wrong", "")
		d.want(t, 403, "GET", "/console/about", "writer", "")
		d.want(t, 403, "GET", "/console/about", "reader", "", "Origin", "https://evil.example")
	})
	t.Run("PLUS-9 a WebSocket is opened for pages of this gateway and for no other", func(t *testing.T) {
		t.Parallel()
		secret := w.secrets["reader"]
		for _, c := range []struct {
			what    string
			headers []string
			want    int
		}{
			{"this page", own, 101},
			{"a listed page", []string{"Origin", "https://console.example.com"}, 101},
			{"no page", nil, 403},
			{"another page", []string{"Origin", "https://evil.example"}, 403},
			{"another port of this machine", []string{"Origin", "http://127.0.0.1:1"}, 403},
			{"a name that leads here", []string{"Origin", "http://evil.example:8222", "Host", "evil.example:8222"}, 403},
			{"no origin", []string{"Origin", "null"}, 403},
			{"two origins", []string{"Origin", d.url, "Origin", "https://evil.example"}, 403},
		} {
			if _, status := join(t, secret, c.headers...); status != c.want {
				t.Errorf("%s: got %d, want %d", c.what, status, c.want)
			}
		}
		if _, status := dial(t, address, "/console/nats", own...); status != 400 {
			t.Errorf("without the subprotocol: %d", status)
		}
		d.want(t, 426, "GET", "/console/nats", "", "", own...)
	})
	t.Run("PLUS-9 the listener of the NATS server takes no page, also of this gateway", func(t *testing.T) {
		t.Parallel()
		for _, origin := range []string{d.url, "http://" + station.Consoles(w.station).Address(), "https://console.example.com", "https://evil.example"} {
			if _, status := dial(t, station.Consoles(w.station).Address(), "/", "Origin", origin); status != 403 {
				t.Errorf("%s: got %d, want 403", origin, status)
			}
		}
		if host, _, _ := net.SplitHostPort(station.Consoles(w.station).Address()); host != "127.0.0.1" {
			t.Errorf("it listens at %s", host)
		}
	})
	t.Run("PLUS-9 without a token or a key no one comes in, also where the station has a guest", func(t *testing.T) {
		t.Parallel()
		for _, connect := range []string{nothing, `{"user":"","pass":""}`, `{"user":"guest","pass":"guest"}`, `{"user":"console","pass":""}`} {
			p, status := join(t, "", own...)
			if status != 101 {
				t.Fatalf("got %d", status)
			}
			if text := p.signIn(t, connect); !strings.Contains(text, "Authorization Violation") || strings.Contains(text, "PONG") {
				t.Errorf("%s: %q", connect, text)
			}
		}
		// The headers of a page say nothing of who it is.
		p, status := join(t, "", append([]string{"Cookie", topology.UserCookie + "=guest"}, own...)...)
		if status != 101 {
			t.Fatalf("got %d", status)
		}
		if text := p.signIn(t, nothing); !strings.Contains(text, "Authorization Violation") {
			t.Errorf("with a cookie: %q", text)
		}
	})
	t.Run("PLUS-9 a token has the rights of its scopes and no more", func(t *testing.T) {
		t.Parallel()
		for token, want := range map[string]int{"wrong": 401, w.secrets["writer"]: 403} {
			if _, status := join(t, token, own...); status != want {
				t.Errorf("%.10s: got %d, want %d", token, status, want)
			}
		}
		subject := "station." + w.station.Name()
		closed := []string{subject + ".session.s.control", subject + ".session.s.sweep", subject + ".schedule.s.control",
			subject + ".work.w.control", subject + ".agent.a.control", subject + ".harness.h.control", subject + ".run.r.gate.g.gateway",
			subject + ".run.r.evt.run.failed", "$JS.API.STREAM.DELETE.LOG_" + w.station.Name()}
		for token, denied := range map[string][]string{"all": closed, "both": slices.Concat(closed, []string{subject + ".run.r.gate.g"}),
			"reader": slices.Concat(closed, []string{subject + ".run.r.gate.g", subject + ".task", subject + ".run.r.control"})} {
			p, status := join(t, w.secrets[token], own...)
			if status != 101 {
				t.Fatalf("%s: got %d", token, status)
			}
			if text := p.signIn(t, nothing); !strings.Contains(text, "PONG") {
				t.Fatalf("%s: not let in: %q", token, text)
			}
			for _, subject := range denied {
				p.text = ""
				p.say(t, "PUB "+subject+" 2\r\n{}\r\nPING\r\n")
				if text, err := p.hear("PONG"); err != nil || !strings.Contains(text, "Permissions Violation for Publish") {
					t.Errorf("%s: %s: %q, %v", token, subject, text, err)
				}
			}
		}
	})
	t.Run("OBS-16 PLUS-9 a page sees a run that it starts, event by event", func(t *testing.T) {
		t.Parallel()
		p, status := join(t, w.secrets["both"], own...)
		if status != 101 {
			t.Fatalf("got %d", status)
		}
		if text := p.signIn(t, nothing); !strings.Contains(text, "PONG") {
			t.Fatalf("not let in: %q", text)
		}
		subject := "station." + w.station.Name()
		task := `{"id":"from-a-page","agent":"helper","task":"<script>x</script>"}`
		p.say(t, fmt.Sprintf("SUB %s.run.from-a-page.stream 1\r\nPUB %s.task %d\r\n%s\r\n", subject, subject, len(task), task))
		text, err := p.hear("dev.inspan.run.completed")
		if err != nil || !strings.Contains(text, "dev.inspan.run.created") || !strings.Contains(text, "Nats-Sequence") {
			t.Errorf("%v: %q", err, text)
		}
	})
	t.Run("PLUS-9 a page with a token that is removed is disconnected", func(t *testing.T) {
		t.Parallel()
		w.token("leaving", tokens.Read)
		p, status := join(t, w.secrets["leaving"], own...)
		if status != 101 {
			t.Fatalf("got %d", status)
		}
		if text := p.signIn(t, nothing); !strings.Contains(text, "PONG") {
			t.Fatalf("not let in: %q", text)
		}
		if _, err := tokens.Change(w.list, func(l tokens.List) (tokens.List, error) { return l.Without("leaving") }); err != nil {
			t.Fatal(err)
		}
		if text, err := p.hear("nothing that ever comes"); err == nil {
			t.Errorf("still connected: %q", text)
		} else if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			t.Errorf("still connected after a minute: %v", err)
		}
	})
	t.Run("PLUS-9 a gateway without a console serves none", func(t *testing.T) {
		t.Parallel()
		bare := w.open(t, nil)
		for _, path := range []string{"/", "/console/", "/console/nats", "/console/about"} {
			bare.want(t, 401, "GET", path, "", "")
		}
	})
}

// The form of what a page learns is fixed: its scripts read it.
func TestConsoleAbout(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(gateway.ConsoleAbout{Station: "s", State: "a", Files: "b", Version: "v"})
	if want := `{"station":"s","state":"a","files":"b","version":"v"}`; err != nil || string(b) != want {
		t.Errorf("PLUS-9 got %s, want %s, %v", b, want, err)
	}
}
