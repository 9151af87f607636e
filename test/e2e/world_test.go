// Package e2e runs whole stations, all five roles over real JetStream in process, and treats them as their users do:
// it publishes, watches and answers.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// patience bounds every wait of a test; a wait ends as soon as what it waits for is there.
const patience = 5 * time.Minute

// world is one station under test.
type world struct {
	t     testing.TB
	dir   string
	conn  *jet.Conn
	st    *jet.Station
	ports all.Ports
	tools []tool.Tool
	// tune changes the configuration of the roles that are started, where it is not nil.
	tune func(*service.Config)
	// boxes gives the one reader of the addresses.
	boxes func() *mailbox.Ledger
}

// newWorld starts a server in process and applies a station to it. Roles are started by start.
func newWorld(t testing.TB, tools ...tool.Tool) *world {
	t.Helper()
	return worldOn(t, jettest.Connect(t, jettest.Server(t), jet.Config{}), tools...)
}

func worldOn(t testing.TB, conn *jet.Conn, tools ...tool.Tool) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), conn: conn, tools: tools}
	ctx := w.ctx()
	if err := conn.Setup().Apply(ctx, "test", jet.ApplyOptions{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.st, err = conn.Station("test"); err != nil {
		t.Fatal(err)
	}
	w.ports = all.Ports{Ports: program.Ports(w.st, "test")}
	w.boxes = sync.OnceValue(w.boxLedger)
	for _, d := range []string{"agents", "scripts", "work"} {
		if err := os.MkdirAll(filepath.Join(w.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// on is the same world seen from a subtest: its failures and clean-ups are the subtest's.
func (w *world) on(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// agent registers an agent with a script of its own.
func (w *world) agent(a events.Agent, script string) {
	w.t.Helper()
	a.Digest = fmt.Sprintf("%064d", len(a.Name))
	if a.Model == "" {
		a.Model = "scripted/" + a.Name
	}
	if script != "" {
		if err := os.WriteFile(filepath.Join(w.dir, "scripts", a.Name+".yaml"), []byte(script), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	b, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.ports.Config.Put(w.ctx(), "agent."+a.Name, b); err != nil {
		w.t.Fatal(err)
	}
}

// hosted is a set of roles that run.
type hosted struct {
	host   *all.Host
	roles  []events.Service
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// start runs roles (all where none are named) until stop or the end of the test.
func (w *world) start(roles ...events.Service) *hosted {
	w.t.Helper()
	if len(roles) == 0 {
		roles = events.Services()
	}
	cfg := service.Config{Base: service.Base{Station: "test", Drain: 5 * time.Second}, Workspaces: service.Workspaces{Workspace: filepath.Join(w.dir, "work")}, Models: service.Models{Scripts: filepath.Join(w.dir, "scripts")}, Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true}}
	if w.tune != nil {
		w.tune(&cfg)
	}
	level := zerolog.Disabled
	if testing.Verbose() && os.Getenv("INSPAN_TEST_LOG") != "" {
		level = zerolog.DebugLevel
	}
	log := zerolog.New(zerolog.NewTestWriter(w.t)).Level(level)
	host, err := all.NewHost(cfg, w.ports, log, service.NewMetrics(), w.tools...)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &hosted{host: host, roles: roles, cancel: cancel}
	for _, r := range roles {
		h.done.Go(func() {
			if err := host.Run(ctx, r); err != nil && ctx.Err() == nil {
				w.t.Errorf("%s: %v", r, err)
			}
		})
	}
	w.t.Cleanup(h.stop)
	return h
}

func (h *hosted) stop() {
	h.cancel()
	h.done.Wait()
}

// publish says something as an outsider.
func (w *world) publish(subject, body string, header ...string) {
	w.t.Helper()
	if err := w.st.Publish(w.ctx(), subject, []byte(body), pairs(header)); err != nil {
		w.t.Fatalf("publish on %s: %v", subject, err)
	}
}

func pairs(kv []string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func (w *world) task(t events.Task) {
	w.t.Helper()
	b, err := json.Marshal(t)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.TaskSubject("test"), string(b))
}

// state folds a run from the log.
func (w *world) state(runID string) run.State {
	w.t.Helper()
	return mustFold(w.t, w.events(runID))
}

func mustFold(t testing.TB, evs []kernel.Record) run.State {
	t.Helper()
	return foldedOn(t, run.State{}, evs)
}

func foldedOn(t testing.TB, s run.State, evs []kernel.Record) run.State {
	t.Helper()
	for _, r := range evs {
		next, err := s.Apply(r.Bytes)
		if err != nil {
			t.Fatalf("the log does not fold: %v", err)
		}
		s = next
	}
	return s
}

func (w *world) events(runID string) []kernel.Record {
	w.t.Helper()
	return w.eventsAfter(runID, 0)
}

func (w *world) eventsAfter(runID string, after uint64) []kernel.Record {
	w.t.Helper()
	var all []kernel.Record
	for {
		batch, more, err := w.ports.Journal.Read(w.ctx(), runID, after)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, batch...)
		if !more {
			return all
		}
		after = all[len(all)-1].Seq
	}
}

// await returns the state of a run once want holds. It looks again whenever something was said.
func (w *world) await(runID, what string, want func(s run.State) bool) run.State {
	w.t.Helper()
	ctx := w.ctx()
	news := make(chan struct{}, 1) // one is enough: it only says "look again"
	stop, err := w.st.Watch(ctx, runID, false, func(jet.Seen) {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer stop()
	var s run.State
	after := uint64(0)
	for {
		if more := w.eventsAfter(runID, after); len(more) > 0 {
			s, after = foldedOn(w.t, s, more), more[len(more)-1].Seq
		}
		if want(s) {
			return s
		}
		select {
		case <-news:
		case <-time.After(time.Second): // a hint may be lost; the log is asked again
		case <-ctx.Done():
			w.t.Fatalf("waited for run %s to be %s; it is %s\n%s", runID, what, s.Status, w.story(runID))
		}
	}
}

func (w *world) ended(runID string) run.State {
	w.t.Helper()
	return w.await(runID, "ended", func(s run.State) bool { return s.Status.Ended() })
}

// story lists the kinds of a run's events, for messages.
func (w *world) story(runID string) string {
	return strings.Join(w.kinds(runID), "\n")
}

func (w *world) kinds(runID string) []string {
	var kinds []string
	for _, r := range w.events(runID) {
		f, err := events.Decode(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		k, _ := f.Kind()
		kinds = append(kinds, string(k))
	}
	return kinds
}

// said is kinds without checkpoints: the persister saves one or not, by how soon the next event comes.
func (w *world) said(runID string) []string {
	return slices.DeleteFunc(w.kinds(runID), func(k string) bool { return k == string(events.CheckpointSaved) })
}

// count returns how often each kind was said.
func (w *world) count(runID string) map[string]int {
	n := map[string]int{}
	for _, k := range w.kinds(runID) {
		n[k]++
	}
	return n
}

// letters gathers dead letters from now on.
func (w *world) letters() <-chan kernel.DeadLetter {
	w.t.Helper()
	out := make(chan kernel.DeadLetter, 64) // more than any test provokes
	stop, err := w.st.WatchSubject(events.DeadSubject("test", "*"), func(_ string, data []byte) {
		var d kernel.DeadLetter
		if err := json.Unmarshal(data, &d); err == nil {
			out <- d
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(stop)
	return out
}

func (w *world) letter(letters <-chan kernel.DeadLetter) kernel.DeadLetter {
	w.t.Helper()
	select {
	case d := <-letters:
		return d
	case <-w.ctx().Done():
		w.t.Fatal("no dead letter came")
		return kernel.DeadLetter{}
	}
}

// row waits until the index shows what is wanted.
func (w *world) row(runID string, want func(run.Info) bool) run.Info {
	w.t.Helper()
	ctx := w.ctx()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var i run.Info
		if b, err := w.ports.State.Get(ctx, "run."+runID); err == nil {
			if err := json.Unmarshal(b, &i); err != nil {
				w.t.Fatal(err)
			}
			if want(i) {
				return i
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("the index does not show it; the last row is %+v", i)
		}
	}
}

// numbers returns those of a file, once it is there.
func (w *world) numbers(file string) []int {
	w.t.Helper()
	var text []byte
	w.until("was there "+file, func() (there bool) {
		var err error
		text, err = os.ReadFile(file)
		return err == nil
	})
	var all []int
	for _, f := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			w.t.Fatalf("%s: %v", file, err)
		}
		all = append(all, n)
	}
	return all
}

// lostTimers forgets every timer.
type lostTimers struct{}

func (lostTimers) Set(context.Context, string, string, time.Time, uint64) error { return nil }

func (w *world) now() time.Time { return time.Now() }
