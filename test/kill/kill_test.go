//go:build slow

// Package kill runs the five services as processes against one NATS server process and kills them, one after the
// other, in the middle of runs (make kill).
package kill

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	runs  = 8
	turns = 10
)

// fleet is a NATS server and services as processes.
type fleet struct {
	t    *testing.T
	dir  string
	url  string
	mon  string
	proc map[string]*exec.Cmd
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), proc: map[string]*exec.Cmd{}}
	for _, d := range []string{"bin", "agents", "scripts", "work", "logs"} {
		if err := os.MkdirAll(filepath.Join(f.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"github.com/nats-io/nats-server/v2", "github.com/inspan/inspan/cmd/planner", "github.com/inspan/inspan/cmd/gatekeeper",
		"github.com/inspan/inspan/cmd/executor", "github.com/inspan/inspan/cmd/toolrunner", "github.com/inspan/inspan/cmd/persister"} {
		name := filepath.Base(strings.TrimSuffix(target, "/v2"))
		if out, err := exec.Command("go", "build", "-o", filepath.Join(f.dir, "bin", name), target).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	port, mon := freePort(t), freePort(t)
	f.url, f.mon = fmt.Sprintf("nats://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", mon)
	f.write("nats.conf", fmt.Sprintf("host: 127.0.0.1\nport: %d\nhttp: 127.0.0.1:%d\njetstream {\n  store_dir: %q\n  sync_interval: always\n}\n", port, mon, filepath.Join(f.dir, "nats")))
	f.write("agents/worker.prompt", "---\nname: worker\nmodel: scripted/worker\ntools: [bash]\n---\nWork.\n")
	f.write("scripts/worker.yaml", fmt.Sprintf(`
turns:
  - when: {turn: {from: 1, to: %d}}
    delay: 20ms
    calls:
      - {name: bash, input: {command: "echo {{turn}} >> effects.txt; sleep 0.1"}}
  - when: {turn: %d}
    text: done
`, turns, turns+1))
	f.start("nats-server", "-c", filepath.Join(f.dir, "nats.conf"))
	t.Cleanup(func() {
		for name := range f.proc {
			f.kill(name)
		}
	})
	return f
}

func (f *fleet) write(name, content string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// start runs a program; a name such as "toolrunner.2" is a replica.
func (f *fleet) start(name string, args ...string) {
	f.t.Helper()
	program, _, _ := strings.Cut(name, ".")
	cmd := exec.Command(filepath.Join(f.dir, "bin", program), args...)
	log, err := os.OpenFile(filepath.Join(f.dir, "logs", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "INSPAN_NATS_URL="+f.url, "INSPAN_NATS_MONITOR="+f.mon, "INSPAN_STATION=kill", "INSPAN_HTTP=",
		"INSPAN_AGENTS="+filepath.Join(f.dir, "agents"), "INSPAN_SCRIPTS="+filepath.Join(f.dir, "scripts"),
		"INSPAN_WORKSPACE="+filepath.Join(f.dir, "work"), "INSPAN_SANDBOX=host")
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.proc[name] = cmd
}

// kill ends a process as a power cut would.
func (f *fleet) kill(name string) {
	cmd := f.proc[name]
	_ = cmd.Process.Kill() // it may be gone already
	_ = cmd.Wait()
	delete(f.proc, name)
}

var services = []string{"planner", "gatekeeper", "executor", "toolrunner", "persister"}

func TestKill(t *testing.T) {
	f := newFleet(t)
	for _, s := range services {
		f.start(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()
	conn, err := jet.Connect(ctx, jet.Config{URL: f.url, Name: "kill test"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Apply(ctx, "kill", jet.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	st, err := conn.Station("kill")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	t.Logf("%-12s %5s %9s %7s %8s %8s %9s", "killed", "kills", "finished", "effects", "twice", "unknown", "took")
	for _, victim := range append(services, "nats-server") {
		began := time.Now()
		ids := dispatch(ctx, t, st, victim)
		for range 3 {
			pause(ctx, time.Duration(200+chance.IntN(600))*time.Millisecond)
			f.kill(victim)
			pause(ctx, 100*time.Millisecond)
			if victim == "nats-server" {
				f.start(victim, "-c", filepath.Join(f.dir, "nats.conf"))
			} else {
				f.start(victim)
			}
		}
		finished, effects, twice, unknown := check(ctx, t, f, st, ids)
		t.Logf("%-12s %5d %6d/%d %7d %8d %8d %9s", victim, 3, finished, len(ids), effects, twice, unknown, time.Since(began).Round(100*time.Millisecond))
		if finished != len(ids) || twice != 0 || victim != "toolrunner" && victim != "nats-server" && unknown != 0 {
			t.Errorf("PERS-15 DEPL-2 SAFE-7: killing %s lost or repeated something", victim)
		}
		if want := runs * turns; effects+unknown < want || effects > want {
			t.Errorf("killing %s: %d effects and %d unknown of %d calls", victim, effects, unknown, want)
		}
	}
	if t.Failed() {
		for _, s := range services {
			b, _ := os.ReadFile(filepath.Join(f.dir, "logs", s))
			t.Logf("the last of %s:\n%s", s, b[max(0, len(b)-3000):])
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func dispatch(ctx context.Context, t *testing.T, st *jet.Station, victim string) []string {
	t.Helper()
	var ids []string
	for i := range runs {
		id := fmt.Sprintf("%s-%d", victim, i)
		b, err := json.Marshal(events.Task{ID: id, Agent: "worker", Task: "work", Session: id})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Publish(ctx, events.TaskSubject("kill"), b, nil); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// check waits for the runs to end and joins the log with what was really done.
func check(ctx context.Context, t *testing.T, f *fleet, st *jet.Station, ids []string) (finished, effects, twice, unknown int) {
	t.Helper()
	for _, id := range ids {
		s := await(ctx, t, st, id)
		if s.Status == events.Completed {
			finished++
		}
		for _, rec := range s.ToolCallHistory.All() {
			if rec.Code == events.OutcomeUnknown {
				unknown++
			}
		}
		done := map[string]int{}
		b, _ := os.ReadFile(filepath.Join(f.dir, "work", "session", id, "effects.txt"))
		for _, l := range strings.Fields(string(b)) {
			done[l]++
			if done[l] > 1 {
				twice++
			}
			effects++
		}
	}
	return finished, effects, twice, unknown
}

func await(ctx context.Context, t *testing.T, st *jet.Station, id string) run.State {
	t.Helper()
	for {
		s, err := fold(ctx, st.Journal(), id)
		if err == nil && s.Status.Ended() {
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("run %s did not end: %s, %v", id, s.Status, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func fold(ctx context.Context, j reactor.Journal, id string) (run.State, error) {
	var s run.State
	after := uint64(0)
	for {
		facts, more, err := j.Read(ctx, id, after)
		if err != nil {
			return s, err
		}
		for _, r := range facts {
			if s, err = s.Apply(r.Bytes); err != nil {
				return s, err
			}
			after = r.Seq
		}
		if !more {
			return s, nil
		}
	}
}
