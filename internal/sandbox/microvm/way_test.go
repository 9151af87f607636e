package microvm_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// greeter is a Door behind which somebody says hello.
type greeter struct {
	dir  string
	work sync.WaitGroup
}

func (g *greeter) Env() []string   { return []string{"WAY=127.0.0.1"} }
func (g *greeter) Shown() []string { return []string{g.dir} }

func (g *greeter) Pass(command []string, fd int) (sandbox.EgressSession, error) {
	hand, args, files, err := inside.Prepare(command, fd)
	if err != nil {
		return sandbox.EgressSession{}, err
	}
	return sandbox.EgressSession{Args: args, Files: files, Close: hand.Close, Started: func() {
		hand.Started()
		g.work.Go(func() {
			l, err := hand.Take()
			if err != nil {
				return
			}
			_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "hello from outside to %s", body)
			}))
		})
	}}, nil
}

// TestRealWay goes the way out of a machine.
func TestRealWay(t *testing.T) {
	b := real()
	sandboxtest.Need(t, b)
	shown, err := os.MkdirTemp("", "shown")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shown) })
	if err := os.WriteFile(filepath.Join(shown, "bundle"), []byte("certificates"), 0o600); err != nil {
		t.Fatal(err)
	}
	local, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	sb := open(t, b, sandbox.Config{Egress: &greeter{dir: shown}, ReadOnly: []string{shown}})
	t.Run("SBX-13 a port of the machine's loopback leads to the way out, with the files that go with it", func(t *testing.T) {
		script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; printf 'POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nyou' >&3; tail -n 1 <&3; echo; cat %s/bundle`, inside.Port, shown)
		if got := sh(t, sb, "bash <<'END'\n"+script+"\nEND"); got != "hello from outside to you\ncertificates" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("SBX-13 nothing else of this computer is reached", func(t *testing.T) {
		_, port, _ := net.SplitHostPort(local.Addr().String())
		if got := sh(t, sb, `bash -c "exec 3<>/dev/tcp/127.0.0.1/`+port+`" 2>/dev/null || echo closed`); got != "closed\n" {
			t.Errorf("got %q", got)
		}
	})
}
