// Package recovery loses stations and moves runs between them, over real JetStream, with the program that people use.
package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// patience bounds every wait; a wait ends as soon as what it waits for is there.
const patience = 5 * time.Minute

var scripts = map[string]string{
	"careful": `turns:
  - when: {turn: 1}
    text: I write it.
    calls:
      - {name: write, input: {path: out.txt, content: "written"}}
  - when: {turn: 2}
    text: "The file is written."
`,
	"busy": `turns:
  - when: {turn: 1, attempt: 1}
    error: {class: transient, status: 529, message: overloaded, retry_after: 4s}
  - when: {turn: 1, attempt: 2}
    text: "Now it answered."
`,
	"loud": `turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "head -c 100000 /dev/zero | tr '\\0' x"}}
  - when: {turn: 2}
    text: "That was loud."
`,
}

// files writes the agents and scripts of all tests into a folder.
func files(t testing.TB, dir string) {
	t.Helper()
	for name, script := range scripts {
		agent(t, dir, name, script)
	}
}

// agent writes one agent with its script.
func agent(t testing.TB, dir, name, script string) {
	t.Helper()
	text := "---\nname: " + name + "\ndescription: A test agent\nversion: 1\nmodel: scripted/" + name + "\ntools: [write, bash]\nharness:\n  enabled: true\n  timeout: 20m\nsandbox:\n  mode: host\n  network: true\n---\nDo the task.\n"
	for file, text := range map[string]string{"agents/" + name + ".prompt": text, "scripts/" + name + ".yaml": script} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// place is one station with its folder.
type place struct {
	t       testing.TB
	dir     string
	name    string
	archive string
	// strange stations know no agents of their own.
	strange bool
	// loss is the ID of what is accepted as lost.
	loss string
	// often is how often marks are written; 0 is the standard.
	often time.Duration
	// mode of workspaces; empty means the standard one.
	mode    string
	station *station.Station
	c       *client.Client
}

func newPlace(t testing.TB, name string) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), name: name}
	p.archive = filepath.Join(p.dir, "archive")
	files(t, p.dir)
	return p
}

// up starts the station of the folder.
func (p *place) up() {
	p.t.Helper()
	base, err := service.FromEnv()
	if err != nil {
		p.t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	base.Archive, base.ArchiveEvery = p.archive, 50*time.Millisecond
	if p.mode != "" {
		base.WorkspaceMode = p.mode
	}
	cfg := station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(p.dir, "store"), Station: p.name, ScriptsDir: filepath.Join(p.dir, "scripts"),
		Sandbox: "host", LazySync: true, AcceptLoss: p.loss, MarkEvery: p.often, Log: zerolog.Nop(), Base: base}
	if !p.strange {
		cfg.AgentsDir = filepath.Join(p.dir, "agents")
	}
	if p.station, err = rise(p.t.Context(), cfg); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.down)
	if p.c, err = operator.On(p.station.Conn(), p.name); err != nil {
		p.t.Fatal(err)
	}
}

// rise starts a station. A command that another test was starting as the last station on the store ended shares its
// lock until it is executed.
func rise(ctx context.Context, cfg station.Config) (*station.Station, error) {
	for end := time.Now().Add(patience); ; {
		st, err := station.Up(ctx, cfg)
		if !errors.Is(err, station.ErrHeld) || time.Now().After(end) {
			return st, err
		}
	}
}

func (p *place) down() {
	p.t.Helper()
	if p.station == nil {
		return
	}
	if err := p.station.Close(context.Background()); err != nil {
		p.t.Error(err)
	}
	p.station = nil
}

// wipe loses all streams of the station, and its workspaces.
func (p *place) wipe() {
	p.t.Helper()
	for _, d := range []string{"nats", "workspace"} {
		if err := os.RemoveAll(filepath.Join(p.dir, "store", d)); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *place) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p.t.Cleanup(cancel)
	return ctx
}

// start dispatches a task and returns once its run exists.
func (p *place) start(t events.Task) {
	p.t.Helper()
	if _, err := p.c.Start(p.ctx(), t); err != nil {
		p.t.Fatal(err)
	}
}

// await returns the state of a run once want holds.
func (p *place) await(runID, what string, want func(run.State) bool) run.State {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx(), patience)
	defer cancel()
	var last run.State
	for item, err := range p.c.Watch(ctx, runID, 0) {
		if err != nil {
			p.t.Fatalf("run %s at %s: waited for it to be %s: %v; it is %s at event %d", runID, p.name, what, err, last.Status, last.Sequence)
		}
		if last = item.State; want(last) && !behind(p, runID, last) {
			return last
		}
	}
	p.t.Fatalf("run %s at %s ended without being %s: %s %+v", runID, p.name, what, last.Status, last.Result)
	return last
}

// behind reports whether the log has more events than a state.
func behind(p *place, runID string, s run.State) bool {
	now, err := p.c.State(p.ctx(), runID)
	return err != nil || now.Sequence > s.Sequence && !s.Status.Ended()
}

func waiting(s run.State) bool { return len(s.Waiting()) > 0 }
func ended(s run.State) bool   { return s.Status.Ended() }

func (p *place) approve(s run.State) run.State {
	p.t.Helper()
	s, err := p.c.Gates().Approve(p.ctx(), client.Decision{Run: s.HarnessID, Gate: s.Waiting()[0].ID, By: "anna"})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// bytes are the stored events of a run.
func (p *place) bytes(runID string) [][]byte {
	p.t.Helper()
	var all [][]byte
	for item, err := range p.c.Events(p.ctx(), runID, 0) {
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, item.Bytes)
	}
	return all
}

// begins reports whether a log begins with another, byte for byte.
func begins(log, with [][]byte) error {
	if len(log) < len(with) {
		return fmt.Errorf("%d events, want at least %d", len(log), len(with))
	}
	for i := range with {
		if !bytes.Equal(log[i], with[i]) {
			return fmt.Errorf("event %d has other bytes:\n got %s\nwant %s", i+1, log[i], with[i])
		}
	}
	return nil
}

// inspan runs a command line and wants its exit code.
func inspan(t testing.TB, code int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	if got := cli.Main(ctx, args, strings.NewReader(""), &out, &errs); got != code {
		t.Fatalf("inspan %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

// do runs a command line against the station. Runs are brought to it while it is down: then its server has the users
// that this wants.
func (p *place) do(code int, args ...string) string {
	p.t.Helper()
	if args[0] == "import" || args[0] == "restore" {
		p.down()
		defer p.up()
		return inspan(p.t, code, append(args, "--station", p.name, "--store", filepath.Join(p.dir, "store"))...)
	}
	return inspan(p.t, code, append(args, "--station", p.name, "--server", p.station.URL())...)
}
