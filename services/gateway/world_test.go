package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/tokens"
	"github.com/inspan/inspan/services/gateway/webhook"
)

// world is a station with a gateway, and tokens by name.
type world struct {
	t       *testing.T
	station *station.Station
	client  *client.Client
	list    string
	secrets map[string]string
	hooks   []*webhook.Hook

	mu sync.Mutex
	// Guarded by mu: how often requests of a route ended, and what went wrong inside.
	ended  map[string]int
	failed []string
}

func agent(name, more string) string {
	return "---\nname: " + name + "\ndescription: A test agent\nversion: 1\nmodel: scripted/" + name + "\ntools: [read]\nharness:\n  enabled: true\n" + more +
		"sandbox:\n  mode: host\n  network: true\n---\nDo the task.\n"
}

const talks = "turns:\n  - when: {turn: 1}\n    text: It is done.\n"

// said is what the agent talker says, slowly and piece by piece.
const said = "One and two and three and four."

// files of the agents that the tests use.
var files = map[string]string{
	"agents/helper.prompt":  agent("helper", ""),
	"agents/several.prompt": agent("several", "  autonomy: 1\n  gates: {approvers: 2}\n"),
	"agents/broken.prompt":  agent("broken", ""),
	"agents/asks.prompt":    agent("asks", "  autonomy: 1\n"),
	"agents/looker.prompt":  agent("looker", ""),
	"agents/slowly.prompt":  agent("slowly", "  autonomy: 1\n  gates: {remind: 1s, escalate_after: 2s, escalate_to: leads}\n"),
	"scripts/slowly.yaml":   talks,
	"agents/talker.prompt":  agent("talker", ""),
	"scripts/helper.yaml":   talks,
	"scripts/talker.yaml":   "turns:\n  - when: {turn: 1}\n    delay: 200ms\n    chunk: 4\n    text: " + said + "\n",
	"scripts/several.yaml":  talks,
	"scripts/asks.yaml":     talks,
	"scripts/looker.yaml": "turns:\n  - when: {turn: 1}\n    text: I look.\n    calls:\n      - {name: read, input: {path: none.txt}}\n" +
		"  - when: {turn: 2}\n    text: I have looked.\n",
	"scripts/broken.yaml": "turns:\n  - when: {turn: 1}\n    error: {class: invalid, message: \"the model is gone\"}\n",
}

// newWorld starts a station in memory of this process.
func newWorld(t *testing.T, tune ...func(*service.Config)) *world {
	t.Helper()
	return newWorldOf(t, files, tune...)
}

// newWorldOf is newWorld with other agents.
func newWorldOf(t *testing.T, files map[string]string, tune ...func(*service.Config)) *world {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	for _, f := range tune {
		f(&base)
	}
	listen := ""
	if base.GatewayAgents || base.GatewayOIDCNATS || len(base.MessagesSubjects) > 0 && base.MessagesURL == "" { // its own server has the messages, or people connect to it
		listen = "127.0.0.1:0"
	}
	st, err := station.Up(t.Context(), station.Config{Listen: listen, StoreDir: filepath.Join(dir, "store"), AgentsDir: filepath.Join(dir, "agents"),
		ScriptsDir: filepath.Join(dir, "scripts"), Sandbox: "host", LazySync: true, Console: true, Log: zerolog.Nop(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := station.Gateway(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	c, err := operator.On(conn, st.Name())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, station: st, client: c, list: filepath.Join(dir, tokens.File), secrets: map[string]string{}, ended: map[string]int{}}
	w.token("all", tokens.Read, tokens.Write, tokens.Answer)
	w.token("reader", tokens.Read)
	w.token("writer", tokens.Write)
	w.token("both", tokens.Read, tokens.Write)
	return w
}

// token adds one.
func (w *world) token(name string, scopes ...tokens.Scope) {
	w.t.Helper()
	secret, digest := tokens.New()
	if _, err := tokens.Change(w.list, func(l tokens.List) (tokens.List, error) {
		return l.With(tokens.Token{Name: name, Digest: digest, Scopes: scopes, Added: time.Now()})
	}); err != nil {
		w.t.Fatal(err)
	}
	w.secrets[name] = secret
}

// door is a gateway of a world that runs.
type door struct {
	*world
	url  string
	stop func()
	g    *gateway.Gateway
}

// open starts a gateway; stop ends it, and it ends with the test.
func (w *world) open(t *testing.T, l net.Listener, tune ...func(*gateway.Config)) *door {
	t.Helper()
	cfg := gateway.Config{Client: w.client, Tokens: tokens.Follow(w.list).Now, Hooks: w.hooks, Rate: 1000, Heartbeat: 100 * time.Millisecond,
		Observe: func(route string, _ int, _ time.Duration) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended[route]++
		},
		Failed: func(route string, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = append(w.failed, route+": "+err.Error())
		}}
	for _, f := range tune {
		f(&cfg)
	}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if l == nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	d := &door{world: w, url: "http://" + l.Addr().String(), g: g}
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(d.stop)
	return d
}

// answered is what a request was answered with.
type answered struct {
	status int
	header http.Header
	body   string
}

// in decodes the answer.
func in[T any](t *testing.T, a answered) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%d, not JSON: %v\n%s", a.status, err, a.body)
	}
	return v
}

// request makes a request; headers are names and values.
func (d *door) request(t *testing.T, method, path, token, body string, headers ...string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if secret := d.secrets[token]; token != "" {
		if secret == "" {
			secret = token
		}
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

var web = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// do sends a request.
func (d *door) do(t *testing.T, method, path, token, body string, headers ...string) answered {
	t.Helper()
	res, err := web.Do(d.request(t, method, path, token, body, headers...))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(b)}
}

// want is do that wants a status.
func (d *door) want(t *testing.T, status int, method, path, token, body string, headers ...string) answered {
	t.Helper()
	a := d.do(t, method, path, token, body, headers...)
	if a.status != status {
		t.Fatalf("%s %s: %d, want %d\n%s", method, path, a.status, status, a.body)
	}
	return a
}

// start starts a run and returns its id.
func (d *door) start(t *testing.T, body string, headers ...string) string {
	t.Helper()
	return in[gateway.RunAnswer](t, d.want(t, http.StatusAccepted, "POST", "/api/v1/harness/run", "all", body, headers...)).Run
}

// gate waits until a run has a gate and returns its id.
func (d *door) gate(t *testing.T, run string) string {
	t.Helper()
	for {
		for _, g := range in[gateway.RunAnswer](t, d.want(t, http.StatusOK, "GET", "/api/v1/runs/"+run, "all", "")).Gates {
			return g.ID
		}
		pause(t)
	}
}

// pause is between two looks at something that comes.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(10 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal("it did not come")
	}
}

// sent is one server-sent event.
type sent struct{ id, event, data string }

// stream opens the events of a run behind an id. next returns the next one, and ok false at the end; cut ends it.
func (d *door) stream(t *testing.T, run, after string) (next func() (sent, bool), cut func()) {
	t.Helper()
	req := d.request(t, "GET", "/api/v1/runs/"+run+"/events", "all", "")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	res, err := web.Do(req.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode == http.StatusNoContent {
		return func() (sent, bool) { return sent{}, false }, cancel
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	lines := bufio.NewReader(res.Body)
	return func() (s sent, ok bool) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return sent{}, false
			}
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch {
			case key == "id":
				s.id = value
			case key == "event":
				s.event = value
			case key == "data":
				s.data = value
			case line == "\n" && s.data != "":
				return s, true
			}
		}
	}, cancel
}

// pipes is a listener whose connections hold nothing: who does not read stops the other side at once.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	end   func()
}

func newPipes() *pipes {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.done) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.end(); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	p.conns <- theirs
	return ours
}

// raw sends bytes as they are and returns the status line and all that came until the other side closed.
func (d *door) raw(t *testing.T, text []byte) (status, all string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = conn.Write(text) }()
	b, _ := io.ReadAll(conn) // a reset is an end, too
	line, _, _ := bytes.Cut(b, []byte("\r\n"))
	return string(line), string(b)
}
