package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/executor"
	"github.com/inspan/inspan/internal/service/gatekeeper"
	"github.com/inspan/inspan/internal/service/gateway"
	"github.com/inspan/inspan/internal/service/persister"
	"github.com/inspan/inspan/internal/service/planner"
	"github.com/inspan/inspan/internal/service/toolrunner"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gateway/tokens"
)

const agent = "---\nname: helper\nmodel: scripted/helper\ntools: [read]\nharness: {enabled: true}\n" +
	"sandbox: {mode: host, network: true}\nsubscribe:\n  - {subject: orders.*, task: \"Order {{id}}\"}\n---\nDo the task.\n"

// files of a station, of its gateway and of its agents.
var files = map[string]string{
	"agents/helper.prompt": agent,
	"scripts/helper.yaml":  "turns:\n  - when: {turn: 1}\n    text: It is done.\n",
	"secrets/key":          "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}

// logged is the log of a gateway.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// address is what the line with a message says, "" before it is there.
func (l *logged) address(message string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		var v struct{ Address, Message string }
		if json.Unmarshal([]byte(line), &v) == nil && v.Message == message {
			return v.Address
		}
	}
	return ""
}

// until waits for something that comes, and fails where the test ends before.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick, end := time.NewTicker(20*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not after two minutes: %s", what)
		}
	}
}

// world is a station whose programs have the users of deploy/nats/users.conf, each its own.
type world struct {
	t      *testing.T
	server *natsserver.Server
	cfg    gateway.Config
	token  string // it may do all
	reader string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	users, err := os.ReadFile(filepath.Join("..", "..", "deploy", "nats", "users.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"setup", "planner", "gatekeeper", "executor", "toolrunner", "persister", "operator",
		"tools",
		"gateway", "console"} {
		t.Setenv("NATS_"+strings.ToUpper(user)+"_PASSWORD", "pw-"+user)
	}
	w := &world{t: t, server: jettest.Server(t, func(c *natsserver.Config) {
		c.Port, c.MonitorPort, c.WebSocketPort, c.Accounts = -1, -1, -1, string(users)
	})}
	for name, value := range map[string]string{"INSPAN_CONFIG": "none", "INSPAN_STATION": "default",
		"INSPAN_NATS_URL": w.server.URL(), "INSPAN_NATS_MONITOR": w.server.MonitorURL(), "INSPAN_HTTP": "127.0.0.1:0",
		"INSPAN_DRAIN": "2s", "INSPAN_SANDBOX": "host", "INSPAN_SANDBOX_REACHES_STATION": "true",
		"INSPAN_WORKSPACE": filepath.Join(dir, "work"), "INSPAN_SCRIPTS": filepath.Join(dir, "scripts")} {
		t.Setenv(name, value)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	setup, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	setup.Agents, setup.NATSUser = filepath.Join(dir, "agents"), topology.SetupUser
	setup.NATSPassword = secret.New("pw-setup")
	if _, err := program.Setup(t.Context(), setup, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	t.Cleanup(func() { stop(); done.Wait() })
	for _, p := range []service.Program{planner.Program(), gatekeeper.Program(), executor.Program(), toolrunner.Program(),
		persister.Program()} {
		if err := (service.Layers{}).Load(p.Config); err != nil {
			t.Fatal(err)
		}
		p.Base.NATSUser, p.Base.NATSPassword = string(p.Role), secret.New("pw-"+string(p.Role))
		done.Go(func() {
			if err := program.Serve(serving, p, zerolog.Nop()); err != nil && serving.Err() == nil {
				t.Errorf("%s: %v", p.Role, err)
			}
		})
	}
	if err := (service.Layers{}).Load(&w.cfg); err != nil {
		t.Fatal(err)
	}
	w.cfg.NATSUser, w.cfg.NATSPassword = events.Gateway, secret.New("pw-gateway")
	w.cfg.GatewayListen, w.cfg.GatewayTokens = "127.0.0.1:0", filepath.Join(dir, "tokens.json")
	w.cfg.GatewayConsole = "ws://" + w.server.WebSocketAddress()
	w.cfg.GatewayConsolePassword = secret.New("pw-console")
	w.cfg.GatewayHooks, w.cfg.GatewaySecrets = filepath.Join(dir, "hooks"), filepath.Join(dir, "secrets")
	w.cfg.GatewayCallbacks = filepath.Join(dir, "callbacks")
	w.cfg.GatewayCallbacksState = filepath.Join(dir, "state.json")
	w.token = w.newToken("all", tokens.Read, tokens.Write, tokens.Answer)
	w.reader = w.newToken("reader", tokens.Read)
	return w
}

func (w *world) newToken(name string, scopes ...tokens.Scope) string {
	w.t.Helper()
	plain, digest := tokens.New()
	if _, err := tokens.Change(w.cfg.GatewayTokens, func(l tokens.List) (tokens.List, error) {
		return l.With(tokens.Token{Name: name, Digest: digest, Scopes: scopes, Added: time.Now()})
	}); err != nil {
		w.t.Fatal(err)
	}
	return plain
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// started runs the gateway until stop is called. api and metrics are its addresses.
func (w *world) started() (api, metrics string, stop func()) {
	w.t.Helper()
	log, ended := &logged{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	go func() { ended <- serve(ctx, w.cfg, zerolog.New(log)) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the gateway ended with %v", err)
		}
	})
	w.t.Cleanup(stop)
	until(w.t, "the gateway answers", func() bool {
		select {
		case err := <-ended:
			w.t.Fatalf("the gateway ended with %v", err)
		default:
		}
		return log.address("gateway") != ""
	})
	return "http://" + log.address("gateway"), "http://" + log.address("health and metrics"), stop
}

// ask sends a request and returns what is answered.
func (w *world) ask(method, url, token, body string) (status int, answer string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// frames reads what is in the frames of a WebSocket.
type frames struct {
	in   io.Reader
	left int64
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	for f.left == 0 {
		head := make([]byte, 2)
		if _, err := io.ReadFull(f.in, head); err != nil {
			return 0, err
		}
		f.left = int64(head[1] & 0x7f)
		if more := map[int64]int{126: 2, 127: 8}[f.left]; more > 0 {
			b := make([]byte, 8)
			if _, err := io.ReadFull(f.in, b[8-more:]); err != nil {
				return 0, err
			}
			f.left = int64(binary.BigEndian.Uint64(b))
		}
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

// page signs in as a page of the console does, sends lines, and returns what the server says up to an end.
func (w *world) page(t *testing.T, api, token, lines, end string) string {
	t.Helper()
	protocols := []string{"nats.inspan"}
	if token != "" {
		protocols = append(protocols, "token."+token)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(api, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil { // what fails ends so
		t.Fatal(err)
	}
	ask := "GET /console/nats HTTP/1.1\r\nHost: " + strings.TrimPrefix(api, "http://") + "\r\nOrigin: " + api +
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: " + strings.Join(protocols, ", ") + "\r\n\r\n"
	if _, err := io.WriteString(conn, ask); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v %v", res, err)
	}
	r := bufio.NewReader(&frames{in: in})
	var said strings.Builder
	say := func(text, end string) { // the server may have ended it: the caller looks at what it said
		text += "PING\r\n"
		head := []byte{0x82, 0x80 | 126, 0, 0, 0, 0, 0, 0} // a frame, masked with zeros
		binary.BigEndian.PutUint16(head[2:], uint16(len(text)))
		if _, err := conn.Write(append(head, text...)); err != nil {
			return
		}
		for from := said.Len(); !strings.Contains(said.String()[from:], end); {
			line, err := r.ReadString('\n')
			said.WriteString(line)
			if err != nil {
				return
			}
		}
	}
	say(`CONNECT {"verbose":false,"headers":true,"no_responders":true}`+"\r\n", "PONG")
	say(lines, end) // the server maps subjects by the account, which it knows only now
	return said.String()
}

func TestServe(t *testing.T) {
	w := newWorld(t)
	plane := jettest.Server(t, func(c *natsserver.Config) { c.Port = -1 })
	outside := jettest.Outside(t, plane.URL())
	outside.Stream("ORDERS", "orders.>")
	outside.Stream("WORK", "plane.work.>")
	outside.Stream("DONE", "plane.done.>")
	w.cfg.MessagesURL, w.cfg.MessagesSubjects, w.cfg.MessagesRate = plane.URL(), []string{"orders.>"}, 10
	w.cfg.MessagesWork, w.cfg.MessagesWorkDone, w.cfg.MessagesWorkMost = "plane.work.default", "plane.done", 4
	var calls sync.Map // webhook-id to the body
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil {
			calls.Store(r.Header.Get("webhook-id"), string(b))
		}
	}))
	t.Cleanup(receiver.Close)
	write(t, filepath.Join(w.cfg.GatewayCallbacks, "all.toml"),
		"kind = \"webhook\"\non = [\"completed\"]\nprivate = true\n"+
			"secret = \"secret:key\"\nurl = \""+receiver.URL+"\"\n")
	write(t, filepath.Join(w.cfg.GatewayHooks, "shop.toml"),
		"kind = \"gitlab\"\nsecret = \"secret:key\"\nevents = [\"*\"]\n"+
			"agent = \"helper\"\ntask = \"{{object_kind}}\"\n")
	api, metrics, stop := w.started()
	called := func(run string) (n int) {
		calls.Range(func(_, body any) bool {
			if strings.Contains(body.(string), run) {
				n++
			}
			return true
		})
		return n
	}
	var first string
	t.Run("DEPL-1 TRIG-1 DLV-6 it has runs carried out and calls receivers back, with the rights of its user",
		func(t *testing.T) {
			status, answer := w.ask("POST", api+"/api/v1/harness/run?wait=2m", w.token, `{"agent_id":"helper","task":"x"}`)
			var got struct {
				Run    string `json:"run_id"`
				Result struct{ Output string }
			}
			if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 || got.Result.Output != "It is done." {
				t.Fatalf("%d %s %v", status, answer, err)
			}
			first = got.Run
			until(t, "the callback", func() bool { return called(first) > 0 })
		})
	t.Run("TRIG-7 a webhook starts a run", func(t *testing.T) {
		body := `{"object_kind":"push","n":1}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", api+"/hooks/shop", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Gitlab-Token", files["secrets/key"])
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		var got struct {
			Run string `json:"run_id"`
		}
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != 202 {
			t.Fatalf("%d %+v %v", res.StatusCode, got, err)
		}
		until(t, "its callback", func() bool { return called(got.Run) > 0 })
	})
	runs := func(t *testing.T, task string) (found []string) {
		status, answer := w.ask("GET", api+"/api/v1/runs", w.reader, "")
		var list struct {
			Items []struct {
				ID   string `json:"harness_id"`
				Task string `json:"task"`
			}
		}
		if err := json.Unmarshal([]byte(answer), &list); err != nil || status != 200 {
			t.Fatalf("%d %s %v", status, answer, err)
		}
		for _, r := range list.Items {
			if r.Task == task {
				found = append(found, r.ID)
			}
		}
		return found
	}
	t.Run("TRIG-10 TRIG-12 CLOUD-1 messages and assignments of another server start runs, and have their responses",
		func(t *testing.T) {
			outside.Say("orders.new", `{"id":1}`, "")
			outside.Say("plane.work.default", `{"work_id":"w1","agent_id":"helper","task":"assigned","workspace":{}}`, "")
			until(t, "the run of the message", func() bool { return len(runs(t, "Order 1")) == 1 })
			until(t, "the response", func() bool { return len(outside.Stored("DONE")) == 1 })
			if s := outside.Stored("DONE")[0]; !strings.Contains(s, "It is done.") || !strings.HasPrefix(s, "plane.done.w1 ") {
				t.Error(s)
			}
		})
	t.Run("PLUS-9 it serves the console, whose pages have the rights of their tokens at the server elsewhere",
		func(t *testing.T) {
			if status, answer := w.ask("GET", api+"/console/", "", ""); status != 200 || !strings.Contains(answer, "<title>") {
				t.Errorf("%d %.200s", status, answer)
			}
			look := "SUB _INBOX.x 1\r\nPUB $JS.API.STREAM.INFO.LOG_default _INBOX.x 0\r\n\r\n"
			if s := w.page(t, api, w.reader, look, `"messages"`); !strings.Contains(s, "MSG _INBOX.x 1") {
				t.Errorf("a reader reads nothing: %s", s)
			}
			task := "PUB station.default.task 2\r\n{}\r\n"
			if s := w.page(t, api, w.reader, task, "PONG"); !strings.Contains(s, "Permissions Violation for Publish") {
				t.Errorf("a reader may start runs: %s", s)
			}
			if s := w.page(t, api, w.token, task, "PONG"); strings.Contains(s, "-ERR") {
				t.Errorf("a writer may not: %s", s)
			}
			control := "PUB station.default.halt.station.control 2\r\n{}\r\n"
			if s := w.page(t, api, w.token, control, "PONG"); !strings.Contains(s, "Permissions Violation for Publish") {
				t.Errorf("a console may halt the station: %s", s)
			}
			if s := w.page(t, api, "", look, "PONG"); !strings.Contains(s, "Authorization Violation") ||
				strings.Contains(s, "MSG _INBOX.x") { // "MSG" alone may be in the server's id
				t.Errorf("a page without a token is let in: %s", s)
			}
		})
	t.Run("PLUS-21a it shows a halt of the station over HTTP and as a metric, and so does its release",
		func(t *testing.T) {
			op, err := client.Connect(t.Context(), client.Config{Station: "default",
				URL: strings.Replace(w.server.URL(), "nats://", "nats://operator:pw-operator@", 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer op.Close()
			shows := func(halted, figure string) func() bool {
				return func() bool {
					status, answer := w.ask("GET", api+"/api/v1/halt", w.reader, "")
					_, all := w.ask("GET", metrics+"/metrics", "", "")
					return status == 200 && strings.Contains(answer, halted) &&
						strings.Contains(all, `inspan_halted{role="gateway"} `+figure+"\n")
				}
			}
			until(t, "no halt", shows(`{"halted":false,"number":0}`, "0"))
			h, err := client.NewHalts(op).Control(t.Context(), events.HaltControl{Action: events.HaltAction, By: "ada",
				Reason: "wrong shop"})
			if err != nil {
				t.Fatal(err)
			}
			until(t, "the halt", shows(`{"halted":true,"number":1,"by":"ada","reason":"wrong shop"`, "1"))
			if _, err := client.NewHalts(op).Control(t.Context(), events.HaltControl{Action: events.ReleaseAction, By: "ada",
				Number: h.Number}); err != nil {
				t.Fatal(err)
			}
			until(t, "the release", shows(`{"halted":false,"number":1,"by":"ada"`, "0"))
			if status, _ := w.ask("GET", api+"/api/v1/halt", "", ""); status != 401 {
				t.Errorf("anyone may look: %d", status)
			}
		})
	t.Run("TRIG-10 DLV-6 a gateway that is started again goes on, and starts and calls nothing twice",
		func(t *testing.T) {
			stop()
			outside.Say("orders.new", `{"id":2}`, "")
			api, _, _ = w.started()
			until(t, "the run of the message", func() bool { return len(runs(t, "Order 2")) == 1 })
			until(t, "its callback", func() bool { return called(runs(t, "Order 2")[0]) > 0 })
			if n := called(first); n != 1 {
				t.Errorf("the receiver has %d calls of the first run", n)
			}
			if n := len(runs(t, "Order 1")); n != 1 {
				t.Errorf("%d runs of the first message", n)
			}
		})
}
