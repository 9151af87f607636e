// Package soak parks many runs at gates on one station and looks at what that costs, then answers all at once.
//
// Promises: every run is dispatched as a task, planned and stopped at its gate by the five roles over real JetStream;
// the server is a process of its own. Nothing of a parked run is faked.
package soak

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const name = "soak"

// publishers is how many outsiders speak at the same time.
const publishers = 64

// ahead is how many tasks they give before the runs of earlier ones are parked: a queue of tasks is no soak.
const ahead = 2_000

// yard is a station whose runs are parked.
type yard struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	server *child
	// near is a server in this process; then server is nil.
	near   *natsserver.Server
	user   *jet.Conn
	st     *jet.Station
	roles  *roles
	parked int
	// answered is how many gates were answered: those of the first runs.
	answered int
	// gates of the parked runs by number, each stored once by whoever heard of it.
	gates []atomic.Pointer[string]
}

// roles are five services, each with a connection of its own.
type roles struct {
	conns  []*jet.Conn
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// newYard starts a server and sets a station up for as many runs as there will be.
func newYard(ctx context.Context, t *testing.T, lazy bool, most int) *yard {
	t.Helper()
	y := &yard{t: t, ctx: ctx, dir: t.TempDir(), gates: make([]atomic.Pointer[string], most)}
	y.boot(lazy)
	y.setUp()
	return y
}

// setUp makes the station and its one agent.
func (y *yard) setUp() {
	y.t.Helper()
	ctx := y.ctx
	y.must(y.user.Setup().Apply(ctx, name, jet.ApplyOptions{Replicas: 1}))
	y.must(os.MkdirAll(filepath.Join(y.dir, "scripts"), 0o755))
	y.must(os.WriteFile(filepath.Join(y.dir, "scripts", "parker.yaml"), []byte("turns:\n  - text: done\n"), 0o644))
	agent, err := json.Marshal(events.Agent{Name: "parker", Digest: strings.Repeat("0", 64), Model: "scripted/parker", Autonomy: 1, Prompt: "Wait."})
	y.must(err)
	y.must(y.st.KV(topology.ConfigBucket).Put(ctx, "agent.parker", agent))
}

func (y *yard) must(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

// boot starts the server on the yard's folder and connects the user.
func (y *yard) boot(lazy bool) {
	y.t.Helper()
	y.server = start(y.t, filepath.Join(y.dir, "nats"), lazy)
	y.user, y.st = y.connect()
	y.t.Cleanup(y.user.Close)
}

func (y *yard) connect() (*jet.Conn, *jet.Station) {
	y.t.Helper()
	cfg := jet.Config{InProcess: y.near, Name: name}
	if y.near == nil {
		cfg = jet.Config{URL: y.server.url, Name: name}
	}
	c, err := jet.Connect(y.ctx, cfg)
	y.must(err)
	st, err := c.Station(name)
	y.must(err)
	return c, st
}

// serve starts the five roles.
func (y *yard) serve() {
	y.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(y.ctx))
	r := &roles{cancel: cancel}
	cfg := service.Config{Base: service.Base{Station: name}, Workspaces: service.Workspaces{Workspace: filepath.Join(y.dir, "work")}, Models: service.Models{Scripts: filepath.Join(y.dir, "scripts")}, Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true}}
	for _, role := range events.Services() {
		conn, st := y.connect()
		r.conns = append(r.conns, conn)
		host, err := all.NewHost(cfg, all.Ports{Ports: program.Ports(st, "soak")}, zerolog.Nop(), service.NewMetrics())
		y.must(err)
		r.done.Go(func() {
			if err := host.Run(ctx, role); err != nil && ctx.Err() == nil {
				y.t.Errorf("%s: %v", role, err)
			}
		})
	}
	y.roles = r
	y.t.Cleanup(r.stop)
}

func (r *roles) stop() {
	r.cancel()
	r.done.Wait()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

func runID(i int) string { return fmt.Sprintf("p%06d", i) }

// number is the inverse of runID, -1 for another run.
func number(id string) int {
	i := -1
	if _, err := fmt.Sscanf(id, "p%06d", &i); err != nil {
		return -1
	}
	return i
}

// each does something for the numbers from a to b, several at a time.
func each(a, b int, do func(i int) error) error {
	var next atomic.Int64
	next.Store(int64(a))
	errs := make([]error, publishers)
	var wg sync.WaitGroup
	for w := range publishers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(b) && errs[w] == nil; i = next.Add(1) - 1 {
				errs[w] = do(int(i))
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// park dispatches tasks until so many runs wait at a gate, or the time for it is over; it returns how long it took.
func (y *yard) park(most int, within time.Duration) time.Duration {
	y.t.Helper()
	began := time.Now()
	var waiting atomic.Int64
	stop, err := y.st.WatchSubject(events.RunEventsOfKind(name, events.GateOpened), func(_ string, data []byte) {
		f, err := events.Decode(data)
		if err != nil {
			return
		}
		var g events.GateOpenedData
		if i := number(f.Subject); i >= 0 && json.Unmarshal(f.Data, &g) == nil && y.gates[i].CompareAndSwap(nil, &g.Gate) {
			waiting.Add(1)
		}
	})
	y.must(err)
	defer stop()
	var sent atomic.Int64
	y.must(each(0, most, func(i int) error {
		for sent.Load()-waiting.Load() > ahead && time.Since(began) <= within {
			pause(y.ctx, 5*time.Millisecond)
		}
		if time.Since(began) > within {
			return nil
		}
		sent.Add(1)
		body, err := json.Marshal(events.Task{ID: runID(i), Agent: "parker", Task: "wait for a person"})
		if err != nil {
			return err
		}
		return y.st.Publish(y.ctx, events.TaskSubject(name), body, nil)
	}))
	y.parked = int(sent.Load())
	y.until(within+time.Minute, fmt.Sprintf("all %d runs wait at a gate", y.parked), func() bool { return waiting.Load() >= sent.Load() || y.lookForGates(&waiting) })
	return time.Since(began)
}

// pause waits, or less where the test is over.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// lookForGates asks the log for the gates whose opening was not heard: what is heard is only a hint.
func (y *yard) lookForGates(waiting *atomic.Int64) bool {
	for i := range y.parked {
		if y.gates[i].Load() != nil {
			continue
		}
		s, err := y.fold(runID(i))
		if err != nil || len(s.Waiting()) == 0 {
			return false
		}
		if y.gates[i].CompareAndSwap(nil, &s.Waiting()[0].ID) {
			waiting.Add(1)
		}
	}
	return true
}

// until waits for a condition.
func (y *yard) until(most time.Duration, what string, is func() bool) {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			y.t.Fatalf("waited %s until %s", most, what)
		}
	}
}

func (y *yard) fold(id string) (run.State, error) {
	var s run.State
	for after, more := uint64(0), true; more; {
		evs, rest, err := y.st.Journal().Read(y.ctx, id, after)
		if err != nil {
			return s, err
		}
		for _, f := range evs {
			if s, err = s.Apply(f.Bytes); err != nil {
				return s, err
			}
			after = f.Seq
		}
		more = rest
	}
	return s, nil
}

// storm is what a storm of answers did.
type storm struct {
	gates, refused int
	took, p50, p99 time.Duration
}

// answer answers the gates of the next n runs, each twice and in contradiction, and returns once every answer is
// recorded or refused.
func (y *yard) answer(n int) storm {
	y.t.Helper()
	a, b := y.answered, y.answered+n
	y.answered = b
	sentAt, lasted := make([]time.Time, n), make([]atomic.Int64, n)
	var recorded, refused atomic.Int64
	began := time.Now()
	receive := func(_ string, data []byte) {
		f, err := events.Decode(data)
		if i := number(f.Subject); err == nil && i >= a && i < b && lasted[i-a].CompareAndSwap(0, int64(time.Since(began))) {
			recorded.Add(1)
		}
	}
	for _, k := range []events.Kind{events.GateApproved, events.GateRejected} {
		stop, err := y.st.WatchSubject(events.RunEventsOfKind(name, k), receive)
		y.must(err)
		defer stop()
	}
	stop, err := y.st.WatchSubject(events.DeadSubject(name, events.Gatekeeper), func(string, []byte) { refused.Add(1) })
	y.must(err)
	defer stop()
	y.must(each(a, b, func(i int) error {
		sentAt[i-a] = time.Now()
		subject := events.GateSubject(name, runID(i), *y.gates[i].Load())
		if err := y.st.Publish(y.ctx, subject+".anna", []byte(`{"decision":"approve"}`), nil); err != nil {
			return err
		}
		return y.st.Publish(y.ctx, subject+".bert", []byte(`{"decision":"reject","reason":"no"}`), nil)
	}))
	want := int64(n)
	y.until(5*time.Minute, fmt.Sprintf("%d answers are recorded and as many refused", want), func() bool {
		return recorded.Load() >= want && refused.Load() >= want
	})
	s := storm{gates: n, refused: int(refused.Load()), took: time.Since(began)}
	waits := make([]time.Duration, n)
	for i := range waits {
		waits[i] = time.Duration(lasted[i].Load()) - sentAt[i].Sub(began)
	}
	slices.Sort(waits)
	s.p50, s.p99 = waits[len(waits)/2], waits[len(waits)*99/100]
	return s
}

// wrong reads the logs of the runs that were answered twice and says what is wrong with them: each must hold one answer
// and have gone on as it says.
func (y *yard) wrong() []string {
	y.t.Helper()
	var mu sync.Mutex
	var faults []string
	y.must(each(0, y.answered, func(i int) error {
		s, err := y.fold(runID(i))
		if err != nil {
			return err
		}
		fault := ""
		switch {
		case len(s.Gates) != 1:
			fault = fmt.Sprintf("%d gates", len(s.Gates))
		case s.Gates[0].Status == run.GateApproved && s.Gates[0].By == "anna" && s.Status == events.Completed:
		case s.Gates[0].Status == run.GateRejected && s.Gates[0].By == "bert" && s.Status == events.Paused:
		default:
			fault = fmt.Sprintf("%s, gate %s by %q", s.Status, s.Gates[0].Status, s.Gates[0].By)
		}
		if fault != "" {
			mu.Lock()
			faults = append(faults, runID(i)+": "+fault)
			mu.Unlock()
		}
		return nil
	}))
	return faults
}

// settle waits until every answered run has ended or paused.
func (y *yard) settle() time.Duration {
	y.t.Helper()
	began := time.Now()
	left := y.answered
	y.until(5*time.Minute, "every answered run went on", func() bool {
		for ; left > 0; left-- {
			if s, err := y.fold(runID(left - 1)); err != nil || s.Status == events.Running {
				return false
			}
		}
		return true
	})
	return time.Since(began)
}

// figures are what the parked runs cost.
type figures struct {
	goroutines, serverGoroutines int
	heap, rss                    float64
	disk                         int64
}

func (y *yard) look() figures {
	y.t.Helper()
	f := figures{serverGoroutines: y.server.goroutines(), heap: heap(), disk: y.server.files()}
	f.goroutines = runtime.NumGoroutine()
	f.rss, _ = y.server.resident()
	return f
}
