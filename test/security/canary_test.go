package security

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// canary is a secret that is found again wherever it is.
func canary(what string) string { return "canary-" + what + "-7Qz9xK2m" }

// marker is no secret: a search that does not find it proves nothing.
const marker = "marker-that-must-be-found"

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

// aviary is a station of five services, each with its own user, whose secrets are all canaries.
type aviary struct {
	t         *testing.T
	dir       string
	url       string
	secrets   []string
	log       buffer
	serverLog buffer
}

// newAviary starts it; change may alter the configuration of all.
func newAviary(t *testing.T, change ...func(*service.Config)) *aviary {
	t.Helper()
	a := &aviary{t: t, dir: t.TempDir()}
	nats := func(user string) string { return a.keep("nats-" + user) }
	s := jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.StoreDir, cfg.Port, cfg.MonitorPort, cfg.LogWriter = filepath.Join(a.dir, "nats"), -1, -1, &a.serverLog
		cfg.Accounts = topology.Accounts("s1", outsiders(), func(user string) string { return strconv.Quote(nats(user)) }, topology.Setup("s1"))
	})
	a.url = s.URL()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized) // and a provider that tells everybody
		fmt.Fprintf(w, `{"error":{"type":"authentication_error","message":"bad key %s %s %s"}}`,
			r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"))
	}))
	t.Cleanup(provider.Close)
	base := service.Config{Base: service.Base{Station: "s1", HTTP: "127.0.0.1:0", Drain: 5 * time.Second, LogLevel: "trace", NATS: service.NATS{NATSURL: s.URL(), NATSMonitor: s.MonitorURL()}, Store: service.Store{Replicas: 1}}, Workspaces: service.Workspaces{Workspace: filepath.Join(a.dir, "work")}, Models: service.Models{Scripts: filepath.Join(a.dir, "scripts"), AnthropicKey: secret.New(a.keep("anthropic")), OpenAIKey: secret.New(a.keep("openai")), AnthropicBaseURL: provider.URL, OpenAIBaseURL: provider.URL, GeminiKey: secret.New(a.keep("gemini")), GeminiBaseURL: provider.URL}, Planning: service.Planning{Agents: filepath.Join(a.dir, "agents")}, Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true, SandboxSecrets: secret.New("TOKEN=" + a.keep("tool"))}, Calls: service.Calls{StationKey: secret.New(a.keep("station"))}}
	for _, f := range change {
		f(&base)
	}
	a.files()
	log := zerolog.New(&a.log).Level(zerolog.TraceLevel)
	base.NATSUser, base.NATSPassword = topology.SetupUser, secret.New(nats(topology.SetupUser))
	if _, err := program.Setup(within(t), base, log); err != nil {
		t.Fatal(err)
	}
	base.Agents = ""
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for _, role := range events.Services() {
		cfg := base
		cfg.NATSUser, cfg.NATSPassword = string(role), secret.New(nats(string(role)))
		if role == events.Toolrunner {
			a.serveProcess(role, cfg)
			continue
		}
		done.Go(func() {
			if err := program.Serve(ctx, all.Program(role, &cfg), log); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s with its own rights: %v", role, err)
			}
		})
	}
	t.Cleanup(func() { cancel(); done.Wait() })
	return a
}

// as connects as one of the people.
func (a *aviary) as(user string) (*client.Client, *jet.Station) {
	a.t.Helper()
	conn, err := jet.Connect(within(a.t), jet.Config{URL: a.url, User: user, Password: secret.New(a.keep("nats-" + user))})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(conn.Close)
	c, err := operator.On(conn, "s1")
	if err != nil {
		a.t.Fatal(err)
	}
	st, err := conn.Station("s1")
	if err != nil {
		a.t.Fatal(err)
	}
	return c, st
}

// keep notes a secret.
func (a *aviary) keep(what string) string {
	c := canary(what)
	if !slices.Contains(a.secrets, c) {
		a.secrets = append(a.secrets, c)
	}
	return c
}

func (a *aviary) files() {
	a.t.Helper()
	agent := func(name, model, mode string) string {
		return "---\nname: " + name + "\nmodel: " + model + "\ntools: [bash]\nsandbox:\n  mode: " + mode + "\n---\nDo the task. " + marker + "\n"
	}
	const burglar = "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: bash, input: {command: \"bash do.sh\"}}\n  - when: {turn: 2}\n    text: done\n"
	for name, text := range map[string]string{
		"agents/talker.prompt": agent("talker", "scripted/talker", "host"), "agents/openai.prompt": agent("openai", "openai/x", "host"),
		"agents/anthropic.prompt": agent("anthropic", "anthropic/x", "host"), "agents/gemini.prompt": agent("gemini", "gemini/x", "host"),
		"agents/shut.prompt": agent("shut", "scripted/burglar", "bwrap"), "agents/open.prompt": agent("open", "scripted/burglar", "host"),
		"scripts/burglar.yaml": burglar,
		"scripts/talker.yaml": `turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "env; echo the token is $TOKEN; echo ` + marker + `"}}
      - {name: bash, input: {command: "echo $TOKEN >&2; ls no-$TOKEN; exit 3"}}
      - {name: bash, input: {command: "for i in $(seq 4000); do echo line $i of a long output with $TOKEN in it; done"}}
  - when: {turn: 2}
    text: done
`} {
		path := filepath.Join(a.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			a.t.Fatal(err)
		}
	}
}

// forms are ways to write a secret that programs use without meaning to hide it.
func forms(s string) [][]byte {
	return [][]byte{[]byte(s), []byte(hex.EncodeToString([]byte(s))), []byte(base64.StdEncoding.EncodeToString([]byte(s))),
		[]byte(base64.URLEncoding.EncodeToString([]byte(s))), []byte(url.QueryEscape(s)),
		[]byte(base64.StdEncoding.EncodeToString([]byte("x" + s))[4 : 4+len(s)]), []byte(base64.StdEncoding.EncodeToString([]byte("xx" + s))[4 : 4+len(s)])}
}

// place is somewhere to look.
type place struct {
	name string
	data []byte
}

// places are all that a station leaves behind: its streams, keys and objects as they are on the disk, what is packed in
// them, the logs of services and server, and the metrics.
func (a *aviary) places(c *client.Client, st *jet.Station, runs []string) []place {
	a.t.Helper()
	var all []place
	err := filepath.WalkDir(filepath.Join(a.dir, "nats"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, place{path, b})
		return err
	})
	if err != nil {
		a.t.Fatal(err)
	}
	shots := &snapshot.Store{KV: st.KV(topology.StateBucket), Blobs: st.Blobs()}
	for _, id := range runs {
		if s, _, ok := shots.Latest(within(a.t), id); ok {
			b, err := json.Marshal(s)
			if err != nil {
				a.t.Fatal(err)
			}
			all = append(all, place{"snapshot of " + id, b})
		}
	}
	letters, err := c.DeadLetters().List(within(a.t))
	if err != nil {
		a.t.Fatal(err)
	}
	b, err := json.Marshal(letters)
	if err != nil {
		a.t.Fatal(err)
	}
	all = append(all, place{"dead letters", b}, place{"log of the services", a.log.Bytes()}, place{"log of the server", a.serverLog.Bytes()})
	for i, address := range a.addresses() {
		req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			a.t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			a.t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !bytes.Contains(b, []byte("inspan_")) {
			a.t.Fatalf("metrics: %v %.200s", err, b)
		}
		all = append(all, place{fmt.Sprintf("metrics %d", i), b})
	}
	return all
}

// addresses of health and metrics, as the services log them.
func (a *aviary) addresses() []string {
	var all []string
	for line := range bytes.Lines(a.log.Bytes()) {
		var l struct{ Message, Address string }
		if json.Unmarshal(line, &l) == nil && l.Message == "health and metrics" {
			all = append(all, l.Address)
		}
	}
	return all
}

// sought sums a search up.
type sought struct {
	secrets, places, bytes int
	found                  []string
}

// canaries lets runs succeed and fail on a station whose secrets are canaries, and looks for these everywhere.
func canaries(t *testing.T) sought {
	a := newAviary(t)
	c, st := a.as("operator")
	want := map[string]events.Status{"talker": events.Completed, "openai": events.Paused, "anthropic": events.Paused, "gemini": events.Paused} // a refused key pauses
	var runs []string
	for agent, status := range want {
		five := 5
		id, err := c.Start(within(t), events.Task{ID: "run-" + agent, Agent: agent, Task: "go " + marker, Autonomy: &five})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, id)
		if s := ended(t, c, id); s.Status != status {
			t.Errorf("run of %s is %s, want %s", agent, s.Status, status)
		}
	}
	// What a stranger's password looks like is kept by no one either.
	bad := canary("stranger")
	a.secrets = append(a.secrets, bad)
	if _, err := jet.Connect(within(t), jet.Config{URL: a.url, User: "planner", Password: secret.New(bad)}); !errors.Is(err, jet.ErrUnauthorized) {
		t.Errorf("a stranger's password: %v", err)
	}
	if _, err := c.Start(within(t), events.Task{Agent: "nobody", Task: "x"}); err == nil {
		t.Error("a task for no one was taken")
	}
	all := a.places(c, st, runs)
	sum := sought{secrets: len(a.secrets), places: len(all)}
	marked := 0
	for _, p := range all {
		sum.bytes += len(p.data)
		if bytes.Contains(p.data, []byte(marker)) {
			marked++
		}
		for _, s := range a.secrets {
			for _, form := range forms(s) {
				if i := bytes.Index(p.data, form); i >= 0 {
					sum.found = append(sum.found, fmt.Sprintf("%s is in %s: %q", s, p.name, p.data[max(0, i-80):min(len(p.data), i+40)]))
				}
			}
		}
	}
	if marked < 3 || len(a.addresses()) != len(events.Services()) {
		t.Errorf("the marker is in %d places and %d services showed metrics: the search proves nothing", marked, len(a.addresses()))
	}
	if !masked(t, c, "run-talker") {
		t.Error("no tool answered with a masked secret: nothing was tried")
	}
	return sum
}

// masked reports whether a tool's answer shows where a secret was.
func masked(t *testing.T, c *client.Client, id string) bool {
	t.Helper()
	s, err := c.State(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(b), "the token is ***")
}

// ended waits until a run has ended or is paused.
func ended(t *testing.T, c *client.Client, id string) run.State {
	t.Helper()
	var last client.Item
	for item, err := range c.Watch(within(t), id, 0) {
		if err != nil {
			t.Fatalf("run %s did not end: %v; its last event is %s", id, err, last.Bytes)
		}
		if last = item; last.State.Status.Ended() || last.State.Status == events.Paused {
			break
		}
	}
	return last.State
}
