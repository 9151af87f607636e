//go:build slow

// Package protocols has clients that others wrote, installed from npm, use a station over the protocols that they speak.
package protocols

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// The clients and their versions.
var clients = []string{"@a2a-js/sdk@1.3.0", "@agentclientprotocol/sdk@2.4.0",
	"@ag-ui/client@1.0.0", "@ag-ui/core@1.0.0", "openai@6.49.0"}

// proofs is what each client shows, a line each.
var proofs = []string{"run", "stream", "gate", "cancel", "reconnect", "failure"}

const patience = 5 * time.Minute

func agent(name, more string) string {
	return "---\nname: " + name + "\ndescription: A test agent\nversion: 1\nmodel: scripted/" + name +
		"\ntools: [read]\nharness:\n  enabled: true\n" + more + "sandbox:\n  mode: host\n  network: true\n---\nDo the task.\n"
}

const (
	talks = "turns:\n  - when: {turn: 1}\n    text: It is done.\n"
	said  = "turns:\n  - when: {turn: 1}\n    delay: DELAY\n    chunk: 4\n    text: One and two and three and four.\n"
)

var files = map[string]string{
	"agents/helper.prompt": agent("helper", ""), "scripts/helper.yaml": talks,
	"agents/asks.prompt": agent("asks", "  autonomy: 1\n"), "scripts/asks.yaml": talks,
	"agents/talker.prompt": agent("talker", ""), "scripts/talker.yaml": strings.Replace(said, "DELAY", "200ms", 1),
	"agents/slow.prompt": agent("slow", ""), "scripts/slow.yaml": strings.Replace(said, "DELAY", "4s", 1),
	"agents/looker.prompt": agent("looker", ""), "scripts/looker.yaml": "turns:\n  - when: {turn: 1}\n    text: I look.\n" +
		"    calls:\n      - {name: read, input: {path: none.txt}}\n  - when: {turn: 2}\n    text: I have looked.\n",
	"agents/broken.prompt": agent("broken", ""),
	"scripts/broken.yaml":  "turns:\n  - when: {turn: 1}\n    error: {class: invalid, message: \"the model is gone\"}\n",
}

// place is a station with a gateway, and a folder with the clients.
type place struct {
	dir, clients, url, nats string
	token, reader           string
}

// open starts a station that others reach, and installs the clients.
func open(t *testing.T, packages ...string) place {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is needed for this test: install Node.js 20 or newer: %v", program, err)
		}
	}
	p := place{dir: t.TempDir(), clients: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(p.clients, os.DirFS("clients")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := append([]string{"install", "--prefer-offline", "--no-audit", "--no-fund", "--prefix", p.clients}, packages...)
	if out, err := exec.CommandContext(ctx, "npm", args...).CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	p.serve(t)
	return p
}

// serve starts the station and its gateway.
func (p *place) serve(t *testing.T) {
	t.Helper()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	st, err := station.Up(t.Context(), station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(p.dir, "store"),
		AgentsDir: filepath.Join(p.dir, "agents"), ScriptsDir: filepath.Join(p.dir, "scripts"), Sandbox: "host", LazySync: true,
		Log: zerolog.Nop(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p.nats = st.URL()
	conn, err := station.Gateway(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	c, err := operator.On(conn, st.Name())
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(p.dir, tokens.File)
	add := func(name string, scopes ...tokens.Scope) string {
		secret, digest := tokens.New()
		if _, err := tokens.Change(list, func(l tokens.List) (tokens.List, error) {
			return l.With(tokens.Token{Name: name, Digest: digest, Scopes: scopes, Added: time.Now()})
		}); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	p.token, p.reader = add("all", tokens.Read, tokens.Write, tokens.Answer), add("reader", tokens.Read)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + l.Addr().String()
	g, err := gateway.New(gateway.Config{Client: c, Tokens: tokens.Follow(list).Now, Origins: []string{p.url}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// plays has a client do what it is for, and looks for each proof.
func (p place) plays(t *testing.T, script string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(p.clients, script))
	cmd.Env = append(append(os.Environ(), "INSPAN_URL="+p.url, "INSPAN_TOKEN="+p.token, "INSPAN_READER="+p.reader), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, proof := range proofs {
		if !strings.Contains("\n"+string(out), "\nok "+proof+"\n") {
			t.Errorf("%s: %s was not shown", script, proof)
		}
	}
}

func TestClients(t *testing.T) {
	p := open(t, clients...)
	t.Run("ECO-6b the client of the A2A project", func(t *testing.T) { p.plays(t, "a2a.mjs") })
	t.Run("PLUS-16b the client of AG-UI", func(t *testing.T) { p.plays(t, "agui.mjs") })
	t.Run("PLUS-16a the client of OpenAI", func(t *testing.T) { p.plays(t, "openai.mjs") })
	t.Run("ECO-6c the client of the Agent Client Protocol", func(t *testing.T) {
		program := filepath.Join(p.dir, "inspan")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/inspan").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		p.plays(t, "acp.mjs", "INSPAN_PROGRAM="+program, "INSPAN_NATS="+p.nats)
	})
}
