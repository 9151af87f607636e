package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/services/gateway"
)

func onlySigned(c *service.Config) { c.OnlySigned = true }

func TestAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(t, nil, func(c *gateway.Config) {
		c.Origins, c.RequestWait = []string{"https://console.example.com"}, time.Second
	})
	id := d.start(t, `{"agent_id":"helper","task":"x","autonomy":1}`)
	t.Run("TRIG-3 without a token nothing is told, whatever is asked for", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/", "/api/v1/runs", "/api/v1/runs/" + id, "/api/v1/runs/none", "/api/v1/openapi.json", "/none", "/api/v1/../v1/runs", "/metrics", "/healthz"} {
			for _, token := range []string{"", "wrong", d.secrets["all"] + "x", strings.ToUpper(d.secrets["all"])} {
				a := d.want(t, 401, "GET", path, token, "")
				if p := in[gateway.Problem](t, a); p.Detail != "" || (p.Hint != "") != (token == "") || a.header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s: %+v", path, p)
				}
			}
		}
		for _, auth := range []string{d.secrets["all"], "Basic " + d.secrets["all"], "Bearer", "Bearer  " + d.secrets["all"]} {
			d.want(t, 401, "GET", "/api/v1/runs", "", "", "Authorization", auth)
		}
		d.want(t, 401, "GET", "/api/v1/runs?access_token="+d.secrets["all"], "", "")
	})
	t.Run("TRIG-3 a token does what its scopes say and no more", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ method, path, token, body string }{
			{"POST", "/api/v1/harness/run", "reader", run5}, {"POST", "/api/v1/runs/" + id + "/stop", "reader", ""}, {"POST", "/api/v1/runs/" + id + "/gates/g", "reader", `{"decision":"approve"}`},
			{"POST", "/api/v1/runs/" + id + "/gates/g", "writer", `{"decision":"approve"}`}, {"GET", "/api/v1/runs", "writer", ""}, {"GET", "/api/v1/runs/" + id + "/events", "writer", ""},
			{"POST", "/api/v1/harness/run?wait=1s", "writer", run5},
		} {
			if p := in[gateway.Problem](t, d.want(t, 403, c.method, c.path, c.token, c.body)); p.Code != "scope" || p.Hint == "" {
				t.Errorf("%s %s: %+v", c.method, c.path, p)
			}
		}
	})
	t.Run("TRIG-3 paths that are written otherwise lead nowhere", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/api/v1/runs/../agents", "/api/v1//runs", "//api/v1/runs", "/api/v1/./runs", "/api/v1/runs/%2e%2e/agents", "/api/v1/runs/%2E%2E%2Fagents", "/api/v1/runs/a%2Fb",
			"/api/v1/runs/a%00b", "/api/v1/runs/..%5cx", "/api/v1/runs/*", "/api/v1/runs/a.b", "/api/v1/runs/%3E", "/api/v1/runs/", "/API/v1/runs", "/api/v1/runs/" + strings.Repeat("a", 200),
			"/api/v1/runs/" + id + "/artifacts/..%2f..%2fetc%2fpasswd"} {
			if a := d.do(t, "GET", path, "all", ""); a.status != 404 && a.status != 400 {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
		if a := d.want(t, 405, "DELETE", "/api/v1/runs/"+id, "all", ""); a.header.Get("Allow") != "GET" {
			t.Errorf("%v", a.header)
		}
	})
	t.Run("TRIG-3 bodies that are not as they must be start nothing", func(t *testing.T) {
		t.Parallel()
		for body, want := range map[string]int{`{`: 400, `[]`: 400, `"x"`: 400, `{"agent_id":"helper","task":"x","sudo":true}`: 400, `{"agent_id":"helper","task":"x","task":"y"}`: 400, run5 + run5: 400,
			`{"agent_id":7}`: 400, strings.Repeat("[", 5000): 400, `{"agent_id":"helper","task":"` + strings.Repeat("x", 70<<10) + `"}`: 400, `{"agent_id":"helper","task":"` + strings.Repeat("x", 300<<10) + `"}`: 413,
			`{"agent_id":"helper","task":"x","session_id":"../x"}`: 400, `{"agent_id":"helper","task":"x","autonomy":9}`: 400, `{"agent_id":"helper","task":""}`: 400, "\x00\xff": 400} {
			if a := d.do(t, "POST", "/api/v1/harness/run", "all", body); a.status != want || !strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json") {
				t.Errorf("%.60q: %d %s", body, a.status, a.body)
			}
		}
		d.want(t, 415, "POST", "/api/v1/harness/run", "all", run5, "Content-Type", "text/plain")
		d.want(t, 415, "POST", "/api/v1/harness/run", "all", run5, "Content-Encoding", "gzip")
		d.want(t, 415, "POST", "/api/v1/harness/run", "all", "")
		d.want(t, 400, "POST", "/api/v1/harness/run", "all", run5, "Idempotency-Key", strings.Repeat("k", 256))
		d.want(t, 400, "POST", "/api/v1/harness/run?wait=1h", "all", run5)
	})
	t.Run("TRIG-3 pages of other origins are refused, and the listed one gets what a browser needs", func(t *testing.T) {
		t.Parallel()
		for _, origin := range []string{"https://evil.example.com", "null", "http://console.example.com", "https://console.example.com.evil.com", "https://console.example.com:444", d.url} {
			a := d.want(t, 403, "GET", "/api/v1/runs", "all", "", "Origin", origin)
			if a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %v", origin, a.header)
			}
			d.want(t, 403, "OPTIONS", "/api/v1/harness/run", "", "", "Origin", origin, "Access-Control-Request-Method", "POST")
		}
		d.want(t, 403, "GET", "/api/v1/runs", "all", "", "Sec-Fetch-Site", "cross-site")
		a := d.want(t, 204, "OPTIONS", "/api/v1/harness/run", "", "", "Origin", "https://console.example.com", "Access-Control-Request-Method", "POST")
		if a.header.Get("Access-Control-Allow-Origin") != "https://console.example.com" || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%v", a.header)
		}
		if a := d.want(t, 200, "GET", "/api/v1/agents", "reader", "", "Origin", "https://console.example.com"); a.header.Get("Access-Control-Allow-Origin") == "" || a.header.Get("Vary") != "Origin" {
			t.Errorf("%v", a.header)
		}
		d.want(t, 401, "GET", "/api/v1/agents", "", "", "Origin", "https://console.example.com")
	})
	t.Run("TRIG-3 headers that are too large are refused", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n"} {
			if status, _ := d.raw(t, []byte(text)); status != "" && !strings.Contains(status, "431") {
				t.Errorf("%q", status)
			}
		}
	})
	t.Run("TRIG-3 a client that sends slowly is cut off", func(t *testing.T) {
		t.Parallel()
		secret := d.secrets["all"]
		for name, c := range map[string]struct{ text, want string }{
			"nothing": {"", ""}, "half a header": {"GET /api/v1/runs HTTP/1.1\r\nHost: x\r\nX-", ""},
			"half a body":                 {"POST /api/v1/harness/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", "408"},
			"half a body without a token": {"POST /api/v1/harness/run HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "401"},
			"half the call of a webhook":  {"POST /hooks/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "408"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if status, all := d.raw(t, []byte(c.text)); !strings.Contains(status, c.want) || c.want == "" && all != "" && !strings.Contains(status, " 40") {
					t.Errorf("%q", all)
				}
			})
		}
	})
	t.Run("TRIG-3 a token that asks too often waits, and no other with it", func(t *testing.T) {
		t.Parallel()
		slow := w.open(t, nil, func(c *gateway.Config) { c.Rate = 0.001 })
		slow.want(t, 200, "GET", "/api/v1/agents", "reader", "")
		a := slow.want(t, 429, "GET", "/api/v1/agents", "reader", "")
		if p := in[gateway.Problem](t, a); p.Code != "rate" || a.header.Get("Retry-After") == "" {
			t.Errorf("%+v %v", p, a.header)
		}
		slow.want(t, 200, "GET", "/api/v1/agents", "all", "")
	})
	t.Run("TRIG-3 a stream that is never read is dropped, and its place is free again", func(t *testing.T) {
		t.Parallel()
		p := newPipes()
		one := w.open(t, p, func(c *gateway.Config) { c.Streams, c.WriteWait = 1, 50*time.Millisecond })
		ask := func() *bufio.Reader {
			conn := p.dial(t)
			fmt.Fprintf(conn, "GET /api/v1/runs/%s/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", id, one.secrets["reader"])
			return bufio.NewReaderSize(conn, 16)
		}
		line, err := ask().ReadString('\n')
		if err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		for { // until the gateway has given it up
			line, err := ask().ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "200") {
				break
			}
			if !strings.Contains(line, "429") {
				t.Fatal(line)
			}
		}
	})
	t.Run("TRIG-3 idle connections keep no one out", func(t *testing.T) {
		t.Parallel()
		idle(t, d, 100)
	})
}

// idle opens connections that say nothing, and asks something beside them.
func idle(t *testing.T, d *door, n int) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	d.want(t, http.StatusOK, "GET", "/api/v1/agents", "reader", "")
}
