package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
)

// files of the agents that the tests use. Each does one thing.
var agents = map[string]string{
	"agents/reader.prompt": agent("reader", "read"),
	"agents/broken.prompt": agent("broken", "read"),
	"agents/sly.prompt":    agent("sly", "read"),
	"scripts/reader.yaml": `turns:
  - when: {turn: 1}
    text: I look.
    calls:
      - name: read
        input: {path: note.txt}
    usage: {input: 100, output: 20}
  - when: {turn: 2}
    text: The note is read.
    usage: {input: 200, output: 30}
`,
	"scripts/broken.yaml": `turns:
  - when: {turn: 1}
    error: {class: invalid, message: "the model is gone"}
`,
	"scripts/sly.yaml": `turns:
  - when: {turn: 1}
    text: "done \e[31mred\e[2J \u202e backwards\nsecond line"
`,
}

func agent(name, tools string) string {
	return "---\nname: " + name + "\ndescription: A test agent\nversion: 1\nmodel: scripted/" + name + "\ntools: [" + tools + "]\nharness:\n  enabled: true\n  timeout: 2m\nsandbox:\n  mode: host\n  network: true\n---\nDo the task.\n"
}

// desk is a person at a shell with a station.
type desk struct {
	t       *testing.T
	dir     string
	station *station.Station
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir()}
	for name, text := range agents {
		path := filepath.Join(d.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// up starts the station; the base configuration is what an empty environment gives, and what tune makes of it.
func (d *desk) up(tune ...func(*service.Config)) *desk {
	d.t.Helper()
	base, err := service.FromEnv()
	if err != nil {
		d.t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	base.ToolsPassword = secret.New(toolsPassword)
	for _, f := range tune {
		f(&base)
	}
	d.station, err = station.Up(d.t.Context(), station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(d.dir, "store"), AgentsDir: filepath.Join(d.dir, "agents"),
		ScriptsDir: filepath.Join(d.dir, "scripts"), Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := d.station.Close(context.Background()); err != nil {
			d.t.Error(err)
		}
	})
	return d
}

// said is what a command printed and how it ended.
type said struct {
	code     int
	out, err string
}

// buffer is an output that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func inspan(t *testing.T, args ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out, errOut buffer
	code := cli.MainAlone(ctx, args, strings.NewReader(""), &out, &errOut)
	return said{code, out.String(), errOut.String()}
}

// do runs a command, against the station where it is up.
func (d *desk) do(args ...string) said {
	d.t.Helper()
	if d.station == nil {
		return inspan(d.t, args...)
	}
	return inspan(d.t, append(args, "--server", d.station.URL())...)
}

// want is do that wants an exit code and words in the output or, where it failed, among the errors.
func (d *desk) want(code int, words []string, args ...string) said {
	d.t.Helper()
	s := d.do(args...)
	if s.code != code {
		d.t.Fatalf("inspan %s: exit %d, want %d\n%s%s", strings.Join(args, " "), s.code, code, s.out, s.err)
	}
	for _, w := range words {
		if !strings.Contains(s.out+s.err, w) {
			d.t.Errorf("inspan %s does not say %q:\n%s%s", strings.Join(args, " "), w, s.out, s.err)
		}
	}
	return s
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return v
}

func mainWith(ctx context.Context, out, errOut *buffer, args ...string) int {
	return cli.MainAlone(ctx, args, strings.NewReader(""), out, errOut)
}

// pause is between two looks at something that comes: others want to work meanwhile.
func pause(t testing.TB) {
	t.Helper()
	if err := kernel.Sleep(t.Context(), 20*time.Millisecond); err != nil {
		t.Fatal("it did not come")
	}
}
