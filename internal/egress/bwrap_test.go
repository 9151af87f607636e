package egress_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// cell is a sandbox whose one way out is a Session.
type cell struct {
	gate
	sandbox sandbox.Sandbox
}

func newCell(t testing.TB, cfg egress.Config, allowed ...string) cell {
	t.Helper()
	b := bwrap.New("", "")
	g := open(t, cfg, nil, allowed...)
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "cell", Workspace: t.TempDir(), Egress: g.Session, Env: g.Env(), ReadOnly: g.Shown()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return cell{g, sb}
}

func (c cell) sh(t testing.TB, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	exit, err := c.sandbox.Exec(t.Context(), sandbox.Cmd{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return out.String(), exit.Code
}

func TestSandbox(t *testing.T) {
	t.Parallel()
	sandboxtest.Need(t, bwrap.New("", ""))
	w := newWorld(t)
	w.site(t, "plain.example", "93.184.215.1", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "plain %s %s", r.Host, r.URL) })
	w.secure(t, "safe.example", "93.184.215.2", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "safe %s %s", r.Host, r.URL) })
	w.site(t, "other.example", "93.184.215.3", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "other") })
	w.put("inner.example", "10.0.0.1", 80, "127.0.0.1:1")
	// What a sandbox must not reach: a server on this machine's loopback, such as NATS.
	local, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	c := newCell(t, w.config(), "plain.example", "safe.example", "inner.example")

	t.Run("SBX-13 an allowed host is reached by name, plain and by TLS, by CONNECT and by SOCKS", func(t *testing.T) {
		for _, tc := range []struct{ script, want string }{
			{"curl -sS http://plain.example/a?b=c", "plain plain.example /a?b=c"},
			{"curl -sSk https://safe.example/x", "safe safe.example /x"},
			{"curl -sSk --proxy socks5h://127.0.0.1:3128 https://safe.example/y", "safe safe.example /y"},
			{"curl -sS --proxytunnel http://plain.example/z", "plain plain.example /z"},
		} {
			if out, code := c.sh(t, tc.script); out != tc.want || code != 0 {
				t.Errorf("%s: got %q and status %d, want %q", tc.script, out, code, tc.want)
			}
		}
	})
	t.Run("SBX-13 nothing else is reached: no other host, no address, no port of this machine", func(t *testing.T) {
		before := len(w.reached())
		port := local.Addr().(*net.TCPAddr).Port
		for _, tc := range []struct{ script, want string }{
			{"curl -sS http://other.example/", `"other.example" to sandbox.network.allowed_hosts`},
			{"curl -sSk https://other.example/", "403"},
			{"curl -sS http://93.184.215.3/", "allowed_hosts"},
			{"curl -sS http://inner.example/", "not public"},
			{fmt.Sprintf("curl -sS http://127.0.0.1:%d/ --noproxy ''", port), "never reachable"},
			{fmt.Sprintf("curl -sS http://2130706433:%d/ --noproxy ''", port), "never reachable"},
			{fmt.Sprintf("curl -sS http://[::ffff:127.0.0.1]:%d/ --noproxy ''", port), "never reachable"},
			{"curl -sS http://169.254.169.254/latest/meta-data/", "never reachable"},
			{"curl -sS http://0.0.0.0:80/", "never reachable"},
		} {
			out, _ := c.sh(t, tc.script)
			if !strings.Contains(out, tc.want) {
				t.Errorf("%s: got %q, want it refused with %q", tc.script, out, tc.want)
			}
		}
		for _, script := range []string{
			fmt.Sprintf("exec 9<>/dev/tcp/127.0.0.1/%d", port), fmt.Sprintf("curl -sS --noproxy '*' http://127.0.0.1:%d", port),
			"exec 9<>/dev/tcp/93.184.215.1/80", "exec 9<>/dev/udp/8.8.8.8/53", "curl -sS --noproxy '*' -m 5 http://plain.example/", "getent hosts plain.example",
		} {
			if out, code := c.sh(t, script); code == 0 {
				t.Errorf("%s: got %q, want no way", script, out)
			}
		}
		if after := w.reached(); len(after) != before {
			t.Errorf("it reached for %v", after[before:])
		}
	})
	t.Run("SBX-13 there is nothing of the helper inside", func(t *testing.T) {
		out, _ := c.sh(t, "ls -l /proc/$$/fd; cat /proc/net/unix; grep -c 0100007F:0C38 /proc/net/tcp")
		if strings.Contains(out, "socket:") || strings.Contains(out, ".test") || !strings.HasSuffix(strings.TrimSpace(out), "1") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("SBX-13 a program that is not there is told as without a door", func(t *testing.T) {
		_, err := c.sandbox.Exec(t.Context(), sandbox.Cmd{Args: []string{"no-such-program"}})
		if !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), "no-such-program") {
			t.Errorf("got %v", err)
		}
		if out, code := c.sh(t, "exit 7"); code != 7 {
			t.Errorf("got %q, status %d", out, code)
		}
	})
	t.Run("SBX-13 a door that was closed lets nothing through", func(t *testing.T) {
		other := newCell(t, w.config(), "plain.example")
		other.Close()
		if out, _ := other.sh(t, "curl -sS -m 5 http://plain.example/"); strings.Contains(out, "plain plain") {
			t.Errorf("got %q", out)
		}
	})
}
