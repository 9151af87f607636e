package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// publisher is a NATS client in Perl that waits for a file with a subject and publishes an approval there.
const publisher = `use IO::Socket::INET; $| = 1;
until (open F, "<", "subject") { select undef, undef, undef, 0.01 }
$subject = <F>; $body = '{"decision":"approve"}';
$s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => %s) or print("closed: $!") and exit;
$_ = <$s>; print $s "CONNECT {\"verbose\":false}\r\nPUB $subject " . length($body) . "\r\n$body\r\nPING\r\n";
while (<$s>) { last if /PONG/ } print "published\n";
`

func TestReach(t *testing.T) {
	t.Parallel()
	backend := landlock.New([]string{"/proc/self/exe", launch.Word}, "")
	sandboxtest.Need(t, backend)
	server := jettest.Server(t, func(c *natsserver.Config) { c.Port = -1 })
	at, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(at.Host)
	if err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, jettest.Connect(t, server, jet.Config{}))
	w.ports.Sandboxes, err = pool.NewOpener(pool.Config{Root: filepath.Join(w.dir, "work"), Default: sandbox.Landlock,
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Landlock: backend, sandbox.Host: host.New("")}, Closed: func(netip.AddrPort) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	asks := []events.Rule{{ID: "careful", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}}
	w.agent(events.Agent{Name: "forger", Tools: []string{"bash"}, Guards: asks, Sandbox: events.Sandbox{Network: true}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "perl publish.pl"}}
      - {name: bash, input: {command: "echo hello"}}
  - when: {turn: 2}
    text: "Result: {{result.1}}"
`)
	w.agent(events.Agent{Name: "bare", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "host"}}, calling("bash", `{command: "true"}`))
	w.file("session/forged", "publish.pl", fmt.Sprintf(publisher, port))
	w.start()
	t.Run("SBX-13 GATE-4 a call with an open network cannot answer the gate of its own run", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "forged", Agent: "forger", Task: "go", Session: "forged"})
		w.await("forged", "waiting", waiting)
		gate := w.opened("forged")
		w.file("session/forged", "subject", gate.AnswerSubject)
		w.await("forged", "the end of its first call", func(s run.State) bool {
			return s.TotalToolCalls > 0 && len(said[*events.CallFinishedData](w, "forged")) > 0
		})
		list := said[*events.CallFinishedData](w, "forged")
		if out := list[0].Output; !strings.Contains(out, "closed: Permission denied") || strings.Contains(out, "published") {
			t.Errorf("got %q", out)
		}
		if s := w.await("forged", "waiting", waiting); s.Gates[0].Status != run.GatePending {
			t.Errorf("the gate: %+v", s.Gates[0])
		}
		// The same program outside of a sandbox proves that it would have got through.
		outside := exec.CommandContext(t.Context(), "perl", "publish.pl")
		outside.Dir = filepath.Join(w.dir, "work", "session", "forged")
		if out, err := outside.CombinedOutput(); err != nil || string(out) != "published\n" {
			t.Fatalf("outside: %q, %v", out, err)
		}
		if s := w.ended("forged"); s.Status != events.Completed {
			t.Errorf("got %s:\n%s", s.Status, w.story("forged"))
		}
	})
	t.Run("SBX-20 a sandbox that cannot keep its commands from the station is refused, with the settings that help", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "bare", Agent: "bare", Task: "go"})
		w.ended("bare")
		list := said[*events.CallFailedData](w, "bare")
		if len(list) != 1 || !strings.Contains(list[0].Error, "INSPAN_ONLY_SIGNED") || !strings.Contains(list[0].Error, "INSPAN_SANDBOX_REACHES_STATION") {
			t.Errorf("got %+v:\n%s", list, w.story("bare"))
		}
	})
}
