package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// proc is one process that may die and start again; life is one of its lives.
type proc struct {
	w         *world
	index     int
	name      string
	roles     []events.Service
	sandboxes *pool.Opener
	// root of the workspaces of its machine, where they follow their runs.
	root  string
	lives int
	life  *life
	// stalled: it gets no processor, as after SIGSTOP.
	stalled bool
	// again is when it starts again, at the earliest.
	again time.Time
}

type life struct {
	p      *proc
	dead   atomic.Bool
	ctx    context.Context
	cancel context.CancelFunc
	roles  sync.WaitGroup
	mu     sync.Mutex
	// Everything below is guarded by mu.
	ears        map[events.Service]func(context.Context, kernel.Message)
	busy        map[events.Service]int
	republished func(string, kernel.Record)
	draining    bool
	// fences of the attempts that it announced, by delivery, run and call.
	fences map[string]uint64
}

// workers is how many messages of a role a process handles at a time.
const workers = 4

func newProcs(t *testing.T, w *world) []*proc {
	// Nothing is run in a sandbox here: the tools of a play are its own. Roles only ask which one a step has.
	dir := t.TempDir()
	sandboxes, err := pool.NewOpener(pool.Config{Root: dir, Default: sandbox.Host,
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: nil}})
	if err != nil {
		t.Fatal(err)
	}
	var all []*proc
	for n := 1; n <= replicas && (n == 1 || !w.play.Alone); n++ {
		if w.play.Together {
			all = append(all, &proc{w: w, index: len(all), name: fmt.Sprintf("all.%d", n), roles: events.Services(), sandboxes: sandboxes})
			continue
		}
		for _, role := range events.Services() {
			all = append(all, &proc{w: w, index: len(all), name: fmt.Sprintf("%s.%d", role, n), roles: []events.Service{role}, sandboxes: sandboxes})
		}
	}
	if w.play.Scene.Follow != "" || w.play.Scene.hasServers() || w.play.Scene.hasChecks() {
		for _, p := range all {
			p.root, p.sandboxes = w.machine(t, p.name)
		}
	}
	return all
}

// start begins a life.
func (p *proc) start() {
	p.lives++
	l := &life{p: p, ears: map[events.Service]func(context.Context, kernel.Message){}, busy: map[events.Service]int{}, fences: map[string]uint64{}}
	l.ctx, l.cancel = context.WithCancel(context.WithValue(context.Background(), lifeKey{}, l))
	p.life, p.stalled = l, false
	p.w.tale.proc(p, "starts")
	entropy := rand.NewChaCha8([32]byte{byte(p.w.play.Seed), byte(p.w.play.Seed >> 8), byte(p.w.play.Seed >> 16), byte(p.index), byte(p.lives), byte(p.lives >> 8)})
	cfg, ports := service.Config{Base: service.Base{Station: station, SnapshotForm: string(snapshot.FormJSON)}, Calls: service.Calls{MCPKeep: p.w.play.Scene.Keep, MCPMost: 2, MCPIdleBytes: 1 << 20}, Models: service.Models{ModelMaxWait: maxWait}}, l.ports(p.sandboxes, entropy)
	p.follow(&cfg, &ports, l)
	host, err := all.NewHost(cfg, ports, zerolog.Nop(), service.NewMetrics())
	if err != nil {
		panic(err) // a fault of the simulation itself
	}
	for _, role := range p.roles {
		l.roles.Go(func() {
			if err := host.Run(l.ctx, role); err != nil {
				l.cancel() // whoever runs it starts it again
			}
		})
		synctest.Wait() // one after the other: they share a source of entropy
	}
}

// running reports whether the process is alive and takes work.
func (p *proc) running() bool {
	return p.life != nil && !p.life.dead.Load() && p.life.ctx.Err() == nil
}

// crash ends a life at once. The operation that it died of has its own answer.
func (p *proc) crash(of *op) {
	l := p.life
	if l == nil || l.dead.Swap(true) {
		return
	}
	l.cancel()
	rest := p.w.parked[:0]
	for _, o := range p.w.parked {
		if o.p == p && o != of {
			o.answer <- died
			continue
		}
		rest = append(rest, o)
	}
	p.w.parked = rest
	p.again = p.w.clock.Now()
}

// drain asks for an orderly end.
func (p *proc) drain() {
	p.life.mu.Lock()
	p.life.draining = true
	p.life.mu.Unlock()
	p.life.cancel()
	p.again = p.w.clock.Now()
}

func (p *proc) wait() {
	if p.life != nil {
		p.life.roles.Wait()
	}
}

// takes reports whether a delivery for a role may go to this process.
func (p *proc) takes(role events.Service) bool {
	if !p.running() || p.stalled {
		return false
	}
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	return p.life.ears[role] != nil && p.life.busy[role] < workers
}

// hear begins a delivery.
func (p *proc) receive(role events.Service, m kernel.Message, task string) {
	l := p.life
	l.mu.Lock()
	ear := l.ears[role]
	l.busy[role]++
	l.mu.Unlock()
	l.roles.Go(func() {
		ear(withTask(l.ctx, task), delivery{Message: m, l: l, task: task})
		l.mu.Lock()
		l.busy[role]--
		l.mu.Unlock()
	})
}

// hint lets a process overhear an event, or not: no one counts on it.
func (p *proc) hint(runID string, r kernel.Record) {
	if !p.running() || p.stalled || p.w.deaf() {
		return
	}
	l := p.life
	l.mu.Lock()
	republished := l.republished
	l.mu.Unlock()
	if republished != nil {
		republished(runID, r)
	}
}

// listen is the inbox of a life: deliveries are chosen by the play.
func (l *life) Listen(ctx context.Context, role events.Service, _ int, receive func(context.Context, kernel.Message)) error {
	l.mu.Lock()
	l.ears[role] = receive
	l.mu.Unlock()
	<-ctx.Done()
	return nil
}

// ports are those of the station, with each operation chosen by the play.
func (l *life) ports(sandboxes *pool.Opener, entropy interface{ Read([]byte) (int, error) }) all.Ports {
	st := l.p.w.st
	var mail service.Ports // of scenes with a named agent
	if l.p.w.play.Scene.Agent {
		mail.AgentLog, mail.AgentTimers = journal{l, events.AgentAggregate}, timers{l, events.AgentAggregate}
	}
	return all.Ports{Ports: service.Ports{AgentLog: mail.AgentLog, AgentTimers: mail.AgentTimers,
		Journal: journal{l, events.RunAggregate}, SessionLog: journal{l, events.SessionAggregate}, WorkLog: journal{l, events.WorkAggregate}, WorkTimers: timers{l, events.WorkAggregate}, Inbox: l, Timers: timers{l, events.RunAggregate}, Blobs: blobs{l}, Leases: leases{l}, Live: st.Live(), Refusals: refusals{l},
		State: kv{l, "state", st.KV(topology.StateBucket)}, Config: kv{l, "config", st.KV("config")}, Sessions: kv{l, "sessions", st.KV(topology.SessionBucket)},
		SubscribeRepublished: func(f func(string, kernel.Record)) (func(), error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.republished != nil {
				return nil, errors.New("a process overhears the same events twice")
			}
			l.republished = f
			return func() {}, nil
		},
		Durability: "model", Questions: questions{l}, Entropy: entropy,
	}, Models: models{l}, Sandboxes: sandboxes, Tools: l.p.w.tools.registry(l), Git: gitHere(), Repositories: checkouts{l.p.w.tools}}
}

// gitHere is the git of this machine, which no play uses: its calls of git are tools of the simulation. It is looked
// for and examined once, which a process does at each start.
var gitHere = sync.OnceValue(func() *git.Git {
	g, err := git.New(git.Config{})
	if err != nil {
		return nil // each process finds that out by itself
	}
	_ = g.Walled(context.Background()) // the answer is kept
	return g
})
