package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/pkg/events"
)

func TestConsoleReach(t *testing.T) {
	t.Parallel()
	backend := landlock.New([]string{"/proc/self/exe", launch.Word}, "")
	sandboxtest.Need(t, backend)
	server := jettest.Server(t, func(c *natsserver.Config) { c.WebSocketPort = -1 })
	_, port, err := net.SplitHostPort(server.WebSocketAddress())
	if err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, jettest.Connect(t, server, jet.Config{}))
	w.ports.Sandboxes, err = pool.NewOpener(pool.Config{Root: filepath.Join(w.dir, "work"), Default: sandbox.Landlock,
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Landlock: backend},
		Closed:   func(netip.AddrPort) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	w.agent(events.Agent{Name: "caller", Tools: []string{"bash"}, Sandbox: events.Sandbox{Network: true}}, calling("bash",
		fmt.Sprintf(`{command: "if (exec 3<>/dev/tcp/127.0.0.1/%s); then echo reached; else echo closed; fi"}`, port)))
	w.start()
	t.Run("SBX-13 PLUS-9 a command with an open network does not reach the listener for WebSocket", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "call", Agent: "caller", Task: "go"})
		w.ended("call")
		list := said[*events.CallFinishedData](w, "call")
		if len(list) != 1 || !strings.Contains(list[0].Output, "Permission denied") || !strings.Contains(list[0].Output, "closed") ||
			strings.Contains(list[0].Output, "reached") {
			t.Errorf("got %+v:\n%s", list, w.story("call"))
		}
		// It is reached from outside of a sandbox.
		conn, err := net.Dial("tcp", server.WebSocketAddress())
		if err != nil {
			t.Fatalf("outside: %v", err)
		}
		_ = conn.Close()
	})
}
