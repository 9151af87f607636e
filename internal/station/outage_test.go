package station_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// marker is a tool whose effect is to be seen. Twice is once too often: its class says so.
type marker struct {
	mu sync.Mutex
	// marks by the key of their call, guarded by mu.
	marks map[string]int
	// hold, if not nil, tells that a call began and waits for leave to end.
	hold func(ctx context.Context) error
}

func (*marker) Spec() tool.Spec {
	return tool.Spec{Name: "mark", Description: "leaves a mark", Effect: tool.Once, Input: json.RawMessage(`{"type":"object"}`)}
}

func (m *marker) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	m.mu.Lock()
	m.marks[c.Key]++
	hold := m.hold
	m.mu.Unlock()
	if hold != nil {
		if err := hold(ctx); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Output: "marked"}, nil
}

func (m *marker) set(hold func(ctx context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold = hold
}

// taken returns how often each call left its mark since it was last asked.
func (m *marker) taken() (times []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.marks {
		times = append(times, n)
	}
	clear(m.marks)
	return times
}

// upConfig is a station whose agent "marks" leaves two marks in each step.
func upConfig(dir string, m tool.Tool) (station.Config, error) {
	for name, text := range map[string]string{
		"agents/marks.prompt": "---\nname: marks\ndescription: A test agent\nversion: 1\nmodel: scripted/marks\ntools: [mark]\nharness:\n  enabled: true\n  timeout: 5m\nsandbox:\n  mode: host\n  network: true\n---\nDo the task.\n",
		"scripts/marks.yaml":  "turns:\n  - when: {turn: 1}\n    calls:\n      - {name: mark, input: {}}\n  - when: {turn: 2}\n    calls:\n      - {name: mark, input: {}}\n  - text: marked\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return station.Config{}, err
		}
	}
	base, err := service.FromEnv()
	base.SandboxReaches = true // a sandbox is not what is tested
	return station.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(dir, "store"), AgentsDir: filepath.Join(dir, "agents"), ScriptsDir: filepath.Join(dir, "scripts"),
		Sandbox: "host", LazySync: true, Log: zerolog.Nop(), Base: base, Tools: []tool.Tool{m}}, err
}

// outage is a station whose server is taken away.
type outage struct {
	t    *testing.T
	mark *marker
	st   *station.Station
	c    *client.Client
	plan *atomic.Pointer[plan]
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t, mark: &marker{marks: map[string]int{}}, plan: &atomic.Pointer[plan]{}}
	cfg, err := upConfig(t.TempDir(), o.mark)
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.Between(func(j kernel.Journal) kernel.Journal { return &cut{j, o} })
	if o.st, err = station.Up(within(t), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if o.c, err = operator.On(o.st.Conn(), "default"); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *outage) on(t *testing.T) *outage { sub := *o; sub.t = t; return &sub }

// until waits for a condition.
func until(t *testing.T, what string, patience time.Duration, is func() bool) (came bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			if what != "" {
				t.Fatalf("waited %s in vain for %s", patience, what)
			}
			return false
		}
	}
	return true
}

// branch returns the kinds of events that the local store keeps of a run on an open branch.
func (o *outage) branch(id string) (kinds []events.Kind) {
	o.t.Helper()
	all, err := o.st.Local().Branches(within(o.t), localstore.BranchOpen)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, b := range all {
		if b.Run != id {
			continue
		}
		evs, err := o.st.Local().Evidence(within(o.t), b.ID)
		if err != nil {
			o.t.Fatal(err)
		}
		for _, r := range evs {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

func (o *outage) back() {
	o.t.Helper()
	if err := o.st.Server().Restart(); err != nil {
		o.t.Fatal(err)
	}
}

// completed waits for the end of a run and checks that its log is one, sound, and that nothing was done twice. fell is
// how many warnings there must be, -1 where that is up to chance.
func (o *outage) completed(id string, calls, fell int) run.State {
	o.t.Helper()
	var state run.State
	n := map[events.Kind]int{}
	for item, err := range o.c.Watch(within(o.t), id, 0) {
		if err != nil {
			o.t.Fatalf("run %s: %v", id, err)
		}
		state = item.State
		n[item.Payload.Kind()]++
	}
	if state.Status != events.Completed {
		o.t.Fatalf("run %s is %s: %+v", id, state.Status, state.Result)
	}
	r, err := operator.Audit(within(o.t), o.c, id, operator.Trust{})
	if err != nil || !r.Sound {
		o.t.Errorf("audit: %v, %+v", err, r.First)
	}
	if times := o.mark.taken(); len(times) != calls || slices.Max(times) != 1 {
		o.t.Errorf("marks by call: %v, want %d of 1", times, calls)
	}
	if n[events.CallStarted] != calls || n[events.CallFinished] != calls || n[events.RunCreated] != 1 || fell >= 0 && n[events.CheckpointFallback] != fell {
		o.t.Errorf("%v", n)
	}
	until(o.t, "an empty local store", 5*time.Minute, func() bool { return len(o.branch(id)) == 0 })
	if refused, err := o.st.Local().Branches(within(o.t), localstore.BranchRefused); err != nil || len(refused) > 0 {
		o.t.Errorf("refused: %+v, %v", refused, err)
	}
	return state
}

func (o *outage) dispatch(t events.Task) {
	o.t.Helper()
	if _, err := o.c.Start(within(o.t), t); err != nil {
		o.t.Fatal(err)
	}
}

// cut is a log whose server is stopped with one of its appends.
type cut struct {
	kernel.Journal
	o *outage
}

// plan says with which append the server goes away: that of an event of a run, before it arrives or, with late, when it
// is stored and before anybody heard so.
type plan struct {
	run      string
	sequence uint64
	late     bool
	gone     chan struct{}
	// ends is the number of the event that ended the run, 0 for none so far. To be read when gone is closed.
	ends uint64
}

// Append implements kernel.Journal.
func (c *cut) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	p := c.o.plan.Load()
	f, err := events.Decode(e.Bytes)
	if err != nil || p == nil || p.run != e.ID {
		return c.Journal.Append(ctx, e)
	}
	kind, err := f.Kind()
	ends := err == nil && kind == events.RunCompleted
	if f.Sequence != p.sequence && !ends || !c.o.plan.CompareAndSwap(p, nil) {
		return c.Journal.Append(ctx, e)
	}
	defer close(p.gone)
	if ends {
		p.ends = f.Sequence
	}
	if f.Sequence != p.sequence { // it had no such event
		return c.Journal.Append(ctx, e)
	}
	if !p.late {
		c.o.st.Server().Shutdown()
		return c.Journal.Append(ctx, e)
	}
	ack := c.Journal.Append(ctx, e)
	c.o.st.Server().Shutdown()
	return kernel.Ack{Outcome: kernel.Unknown, Err: fmt.Errorf("no one heard %s", ack.Outcome)}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	sweep(t, 9)
}

// sweep takes the server away with every stride-th append of a run, where each counts twice: early and late. It goes on
// to the event that no run has, because how many there are is up to chance: a slow run saves a checkpoint more. It
// returns how many outages there were and which of them did harm. An even stride never takes a late one.
func sweep(t *testing.T, stride uint64) (tried int, failed []string) {
	t.Helper()
	o := newOutage(t)
	o.dispatch(events.Task{ID: "calm", Agent: "marks", Task: "x"})
	o.completed("calm", 2, 0)
	for k, through := uint64(0), false; !through && k < 100; k += stride {
		p := &plan{sequence: 1 + k/2, late: k%2 == 1, gone: make(chan struct{})}
		how := map[bool]string{false: "before it arrives", true: "when it is stored and its acknowledgement is lost"}[p.late]
		name := fmt.Sprintf("the server goes away with event %d of a run, %s", p.sequence, how)
		if !t.Run("PERS-4 PERS-5 SAFE-4 "+name+": one sound log, nothing done twice", func(t *testing.T) {
			o := o.on(t)
			p.run = fmt.Sprintf("at-%d", k)
			o.plan.Store(p)
			if _, err := o.c.Dispatch(within(t), events.Task{ID: p.run, Agent: "marks", Task: "x"}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.gone:
			case <-within(t).Done():
				t.Fatalf("the run came neither to event %d nor to its end", p.sequence)
			}
			if p.ends > 0 && p.ends < p.sequence {
				through = true
				o.completed(p.run, 2, 0)
				return
			}
			tried++
			until(t, "the end of the run in the local store", 5*time.Minute, func() bool {
				b := o.branch(p.run)
				return len(b) > 0 && b[len(b)-1] == events.RunCompleted
			})
			o.back()
			fell := 1
			if p.ends == p.sequence {
				fell = 0 // after the end nothing is said
			}
			o.completed(p.run, 2, fell)
		}) {
			failed = append(failed, name)
		}
	}
	return tried, failed
}
