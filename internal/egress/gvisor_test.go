package egress_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestGVisor opens a door for a kernel in user space.
func TestGVisor(t *testing.T) {
	t.Parallel()
	b := gvisor.New(gvisor.Config{Program: os.Getenv("INSPAN_GVISOR")})
	sandboxtest.Need(t, b)
	w := newWorld(t)
	w.site(t, "plain.example", "93.184.215.1", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "plain %s", r.URL) })
	w.site(t, "other.example", "93.184.215.3", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "other") })
	local, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	g := open(t, w.config(), nil, "plain.example")
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "cell", Workspace: t.TempDir(), Egress: g.Session, Env: g.Env(), ReadOnly: g.Shown()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := cell{g, sb}
	t.Run("SBX-13 under gVisor an allowed host is reached by its name", func(t *testing.T) {
		if out, code := c.sh(t, "curl -sS http://plain.example/a?b=c"); code != 0 || out != "plain /a?b=c" {
			t.Errorf("got %q and status %d", out, code)
		}
	})
	t.Run("SBX-13 under gVisor nothing else is reached", func(t *testing.T) {
		before := len(w.reached())
		for _, script := range []string{
			"curl -sSf http://other.example/", fmt.Sprintf("exec 9<>/dev/tcp/127.0.0.1/%d", local.Addr().(*net.TCPAddr).Port),
			"exec 9<>/dev/tcp/93.184.215.1/80", "exec 9<>/dev/udp/8.8.8.8/53", "getent hosts plain.example",
		} {
			if out, code := c.sh(t, script); code == 0 {
				t.Errorf("%s: got %q, want no way", script, out)
			}
		}
		if after := w.reached(); len(after) != before {
			t.Errorf("it reached for %v", after[before:])
		}
	})
	t.Run("SBX-13 under gVisor there is nothing of the helper inside", func(t *testing.T) {
		if out, _ := c.sh(t, "ls -l /proc/$$/fd"); strings.Contains(out, "socket:") || strings.Contains(out, ".test") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("SBX-13 under gVisor connections go side by side", func(t *testing.T) {
		if out, code := c.sh(t, "curl -sS http://plain.example/z & curl -sS http://plain.example/z; wait"); code != 0 || out != "plain /zplain /z" {
			t.Errorf("got %q and status %d", out, code)
		}
	})
}
