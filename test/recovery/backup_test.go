package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// commandLine is set where this program is to be inspan: a process of its own, which can be killed.
const commandLine = "INSPAN_TEST_COMMAND_LINE"

// exitLine comes before the exit code of a command that a process was started for.
const exitLine = "exit code of the command: "

// dieAt is set where that process kills itself as soon as it says something.
const dieAt = "INSPAN_TEST_DIE_AT"

// dying is standard error of a process that does so.
type dying struct{ at string }

func (d dying) Write(b []byte) (int, error) {
	n, err := os.Stderr.Write(b)
	if d.at != "" && strings.Contains(string(b), d.at) {
		self, findErr := os.FindProcess(os.Getpid())
		if findErr != nil {
			return n, findErr
		}
		err = self.Kill()
		for err == nil { // until the signal is there
		}
	}
	return n, err
}

func TestMain(m *testing.M) {
	if line := os.Getenv(commandLine); line != "" {
		code := cli.Main(context.Background(), strings.Split(line, "\n"), strings.NewReader(""), os.Stdout, dying{os.Getenv(dieAt)})
		fmt.Fprintf(os.Stderr, "%s%d\n", exitLine, code)
		return
	}
	m.Run() // its code becomes that of the program
}

// paying is an agent whose only call has an effect that can be counted, and lasts until a file is there.
func (p *place) paying() (effects, done string) {
	p.t.Helper()
	effects, done = filepath.Join(p.dir, "effects"), filepath.Join(p.dir, "done")
	scripts := fmt.Sprintf("turns:\n  - when: {turn: 1}\n    calls:\n      - {name: bash, input: {command: %q}}\n  - when: {turn: 2}\n    text: \"It ends here.\"\n",
		fmt.Sprintf("echo paid >> %s; while [ ! -e %s ]; do sleep 0.05; done", effects, done))
	agent, err := os.ReadFile(filepath.Join(p.dir, "agents", "loud.prompt"))
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, "agents", "paying.prompt"), []byte(strings.ReplaceAll(string(agent), "loud", "paying")), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, "scripts", "paying.yaml"), []byte(scripts), 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return effects, done
}

// until waits for something that is no event.
func (p *place) until(what string, there func() bool) {
	p.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := p.ctx(); !there(); <-tick.C {
		if ctx.Err() != nil {
			p.t.Fatalf("waited for %s", what)
		}
	}
}

func lineCount(path string) int {
	b, _ := os.ReadFile(path)
	return strings.Count(string(b), "\n")
}

// load starts short runs until stop is called, which says how many.
func (p *place) load() (stop func() int) {
	ctx, cancel := context.WithCancel(p.ctx())
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := p.c.Start(p.ctx(), events.Task{ID: fmt.Sprintf("load-%d", n), Agent: "loud", Task: "shout"}); err != nil {
				p.t.Error(err)
				return
			}
			n++
		}
	})
	return func() int { cancel(); wg.Wait(); return n }
}

func TestBackup(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	effects, done := p.paying()
	p.up()
	p.start(events.Task{ID: "gated", Agent: "careful", Task: "write", Autonomy: level(1)})
	p.await("gated", "waiting", waiting)
	p.start(events.Task{ID: "pays", Agent: "paying", Task: "pay"})
	p.await("pays", "in its call", func(s run.State) bool {
		for _, c := range s.Open {
			if c.Phase == run.CallStarted {
				return true
			}
		}
		return false
	})
	p.until("the effect of the call", func() bool { return lineCount(effects) > 0 })
	stop := p.load()
	p.await("load-3", "ended", ended)
	dir := filepath.Join(t.TempDir(), "backup")
	var m backup.Manifest
	out := p.do(0, "backup", dir, "--json") // and figures behind it
	started := stop()
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&m); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs under load, the backup has %d (%d open), %d events, %d inputs, %d bytes", started, m.Runs, m.Open, m.Log, m.Inputs, m.Bytes)
	if m.Open < 2 || len(m.Keys) == 0 {
		t.Errorf("%d open runs, keys %v: the backup shows little", m.Open, m.Keys)
	}
	before := p.bytes("gated")
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.await("pays", "ended", ended)
	p.down()
	p.wipe()

	t.Run("PLUS-18c a backup without the keys, and one of another station, are not restored unasked", func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "store")
		if out := inspan(t, 2, "restore", dir, "--station", "lab", "--store", store); !strings.Contains(out, "--new-keys") {
			t.Error(out)
		}
		inspan(t, 2, "restore", dir, "--station", "other", "--store", store, "--new-keys")
		if b, err := os.ReadFile(filepath.Join(dir, "values.jsonl")); err != nil || strings.Contains(string(b), "key.idempotency") {
			t.Errorf("keys are in the backup: %v", err)
		}
	})
	q := newPlace(t, "lab")
	q.strange = true // the agents come from the backup
	q.paying()
	t.Run("PLUS-18a the station is restored elsewhere, audited, halted, and twice the same", func(t *testing.T) {
		for range 2 {
			out := inspan(t, 0, "restore", dir, "--station", "lab", "--store", filepath.Join(q.dir, "store"), "--new-keys")
			if !strings.Contains(out, "0 runs with faults") || !strings.Contains(out, "inspan release") {
				t.Error(out)
			}
		}
		q.up()
		if err := begins(q.bytes("gated"), before); err != nil {
			t.Error(err)
		}
	})
	t.Run("PLUS-18a after the release a gate is answered, every run of the backup ends, and a call made once is not made again", func(t *testing.T) {
		q.do(0, "release", "--reason", "checked")
		q.approve(q.await("gated", "waiting", waiting))
		if s := q.await("gated", "ended", ended); s.Status != events.Completed {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
		q.await("pays", "ended or waiting", func(s run.State) bool { return ended(s) || waiting(s) })
		if n := lineCount(effects); n != 1 {
			t.Errorf("the effect was made %d times", n)
		}
		ids := loads(t, dir)
		if len(ids) < m.Runs-2 {
			t.Errorf("%d of %d runs", len(ids), m.Runs-2)
		}
		for id := range ids {
			if s := q.await(id, "ended", ended); s.Status != events.Completed {
				t.Errorf("%s: %s %+v", id, s.Status, s.Result)
			}
		}
		q.do(0, "audit", "--all")
	})
	t.Run("PLUS-18a new inputs are not taken for old ones", func(t *testing.T) {
		q.start(events.Task{ID: "after", Agent: "careful", Task: "write", Autonomy: level(1)})
		s := q.await("after", "waiting", waiting)
		if _, err := q.c.Control(q.ctx(), "after", events.Control{Action: "pause", By: "anna"}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.c.Control(q.ctx(), "after", events.Control{Action: "resume", By: "anna"}); err != nil {
			t.Fatal(err)
		}
		q.approve(s)
		q.await("after", "ended", ended)
	})
	t.Run("PLUS-18b a station that has other events is refused and not changed", func(t *testing.T) {
		n := len(q.bytes("gated"))
		if out := q.do(4, "restore", dir, "--new-keys"); !strings.Contains(out, "new station") {
			t.Error(out)
		}
		if got := len(q.bytes("gated")); got != n {
			t.Errorf("%d events, it had %d", got, n)
		}
	})
	t.Run("PLUS-18b a flipped byte or a missing file is refused before anything is written", func(t *testing.T) { damagedBackup(t, dir) })
}

// loads are the runs of the load that a backup has, also those that only a task asks for.
func loads(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "log", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, path := range append(files, filepath.Join(dir, "inputs.jsonl")) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range regexp.MustCompile(`load-\d+`).FindAllString(string(b), -1) {
			ids[id] = true
		}
	}
	return ids
}

// damagedBackup damages copies of a backup, each file once by a flipped byte and once by its absence.
func damagedBackup(t *testing.T, dir string) {
	var files []string
	objects := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.Contains(path, "objects"+string(filepath.Separator)) {
			if objects++; objects > 1 {
				return nil // one stands for all
			}
		}
		if info, err := d.Info(); err != nil || info.Size() > 0 {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := append([]byte(nil), whole...)
		flipped[len(flipped)/2] ^= 1
		for what, do := range map[string]func() error{
			"flipped": func() error { return os.WriteFile(path, flipped, 0o600) },
			"missing": func() error { return os.Remove(path) }} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
			_, err := backup.Check(t.Context(), dir, nil)
			if filepath.Base(path) == "manifest.json" && what == "missing" {
				if !errors.Is(err, backup.ErrNoBackup) {
					t.Errorf("without a manifest: %v", err)
				}
			} else if !errors.Is(err, backup.ErrDamaged) {
				t.Errorf("%s %s: %v", path, what, err)
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := files[len(files)-1]
	if err := os.Truncate(path, 1); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "store")
	if out := inspan(t, 1, "restore", dir, "--station", "lab", "--store", store, "--new-keys"); !strings.Contains(out, "nothing was written") {
		t.Error(out)
	}
	empty := newPlace(t, "lab")
	empty.dir, empty.strange = filepath.Dir(store), true
	empty.up()
	if log, err := empty.c.Runs().List(t.Context()); err != nil || len(log) > 0 {
		t.Errorf("%d runs, %v", len(log), err)
	}
}

func TestBackupKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab")
	p.up()
	stop := p.load()
	p.await("load-30", "ended", ended)
	stop()
	dir := filepath.Join(t.TempDir(), "backup")
	t.Run("PLUS-18b a backup that is killed leaves nothing that looks whole, and is begun again", func(t *testing.T) {
		cmd := exec.CommandContext(p.ctx(), os.Args[0])
		cmd.Env = append(os.Environ(), commandLine+"="+strings.Join([]string{"backup", dir, "--station", "lab", "--server", p.station.URL()}, "\n"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p.until("the first object of the backup", func() bool {
			all, err := filepath.Glob(filepath.Join(dir, "objects", "*", "*"))
			return err == nil && len(all) > 0
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if _, err := backup.ReadManifest(dir); !errors.Is(err, backup.ErrNoBackup) {
			t.Fatalf("it was killed too late to show anything: %v", err)
		}
		inspan(t, 5, "restore", dir, "--station", "lab", "--store", filepath.Join(t.TempDir(), "store"), "--new-keys")
		p.do(0, "backup", dir)
		if _, err := backup.Check(t.Context(), dir, nil); err != nil {
			t.Error(err)
		}
		p.do(2, "backup", dir) // a whole one is not written over
	})
	t.Run("PLUS-18c keys travel in a file of their own, outside of the folder", func(t *testing.T) {
		keys := filepath.Join(t.TempDir(), "keys")
		p.do(4, "backup", filepath.Join(t.TempDir(), "b"), "--keys", keys) // whoever comes in over the port may not read them
		p.down()
		store, dir := filepath.Join(p.dir, "store"), filepath.Join(t.TempDir(), "b")
		inspan(t, 1, "backup", dir, "--station", "lab", "--store", store, "--keys", filepath.Join(dir, "keys"))
		inspan(t, 0, "backup", dir, "--station", "lab", "--store", store, "--keys", keys)
		if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
		inspan(t, 0, "restore", dir, "--station", "lab", "--store", filepath.Join(t.TempDir(), "store"), "--keys", keys, "--go-on")
	})
}
