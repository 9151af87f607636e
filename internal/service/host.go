// Package service is what the five programs have in common: settings, hosting of a role, health, metrics, drain.
//
// Promises: the same hosting serves a role in its own process and five roles in one. What makes a role is in the folder
// of its name below this one, which only its program and package all import: this package links no role, no tool, no
// sandbox and no model. Settings are read once. After its context ends a service takes no more work, finishes what is
// under way within the drain time and returns.
package service

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/memory"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/served"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Ports of a station, filled by internal/jet or internal/mem.
type Ports struct {
	Journal kernel.Journal
	Inbox   kernel.Inbox
	Timers  kernel.Timers
	Blobs   kernel.Blobs
	// Artifacts keeps what runs make; nil leaves it in the workspaces.
	Artifacts kernel.Artifacts
	State     kernel.KV
	Config    kernel.KV
	// SessionLog is the log of the sessions, Sessions holds the rows that are views of it; nil knows none, and what
	// names a session only shares its directory.
	SessionLog kernel.Journal
	Sessions   kernel.KV
	// ScheduleLog is the log of the schedules, whose rows are in Sessions; nil knows none. ScheduleTimers are their
	// timers, and ScheduleClock is what their times and those of work items are compared with; nil means time.Now.
	ScheduleLog    kernel.Journal
	ScheduleTimers kernel.Timers
	ScheduleClock  func() time.Time
	// WorkLog is the log of the work items, whose rows are in Sessions; nil knows none. WorkTimers are their timers.
	WorkLog    kernel.Journal
	WorkTimers kernel.Timers
	// AgentLog is the log of the addresses, whose rows are in Sessions; nil knows none. AgentTimers are their timers.
	AgentLog    kernel.Journal
	AgentTimers kernel.Timers
	// QueueLog is the log of the merge queues, whose rows are in Sessions; nil knows none. QueueTimers are their timers.
	QueueLog    kernel.Journal
	QueueTimers kernel.Timers
	// HarnessLog is the log of the harnesses and BudgetLog that of the budgets, whose rows are in Sessions; nil has none.
	HarnessLog, BudgetLog kernel.Journal
	// KeysLog is the log of the keys of anchors and DeputyLog that of who answers gates in whose place; nil has none.
	KeysLog, DeputyLog kernel.Journal
	// HaltLog is the log of the halts of the station, whose row is in Sessions, and HaltInbox delivers what halts and
	// releases it; both are nil where it cannot be halted.
	HaltLog   kernel.Journal
	HaltInbox kernel.Inbox
	// TreeLog is the log of the workspaces. Trees holds the views of it, published branches and the toolrunners that
	// run; both are nil where working trees stay on their machine.
	TreeLog kernel.Journal
	Trees   kernel.KV
	Leases  kernel.Leases
	// Live publishes for those who watch now, Kept what the station is to keep for a while besides, Said what a program
	// in this process receives; the settings name those that are used. Each may be nil.
	Live     kernel.Live
	Retained kernel.Live
	Replayed chan<- streaming.Replay
	Refusals kernel.Refusals
	// AnswerSoFar has answer called with the run of each watcher who asks what was published live so far, and sends it
	// to the watcher, until stop is called. Nil leaves those who come late with what is stored.
	AnswerSoFar func(answer func(runID string) [][]byte) (stop func(), err error)
	// OnEnd calls back with the id of a run that ended in a store whose events are not republished, until stop is
	// called. May be nil.
	OnEnd func(func(runID string)) (stop func(), err error)
	// SubscribeRepublished calls back with every event of the station as it is stored, until stop is called: services
	// that receive events early need not read them. May be nil.
	SubscribeRepublished func(func(runID string, r kernel.Record)) (stop func(), err error)
	// Questions asks hooks on a subject; nil lets those block.
	Questions hooks.Requester
	// ServedTools calls tools that programs of others serve over NATS; nil has none.
	ServedTools served.Caller
	// Hooks are further built-in hooks, by name.
	Hooks map[string]hooks.Func
	// StationStats tells how busy the station is; may be nil.
	StationStats kernel.StationStats
	// Depth tells how many messages wait for a role, and how many it has and has not acknowledged; may be nil.
	Depth func(ctx context.Context, role events.Service) (waiting, open uint64, err error)
	// Damage says what the station has lost of its store, nil for nothing; may be nil.
	Damage func() error
	// Local keeps the snapshots of runs that are not to have any in the station's store (eternal_engine_enabled:
	// false). Nil keeps none of them.
	Local kernel.KV
	// Durability of the server, recorded in each run.
	Durability string
	// Entropy makes ids; nil means crypto/rand.
	Entropy io.Reader
}

// Wiring makes one role from the settings of its program.
type Wiring struct {
	Role events.Service
	// Start makes the role. ctx ends when no more messages are to be taken.
	Start func(ctx context.Context, in *Instance) (Work, error)
	// Always runs beside the role, also while the station is halted; may be nil.
	Always func(ctx context.Context, in *Instance) error
}

// Work is a role that was made, and what goes on beside it.
type Work struct {
	Role runlog.Role
	// Others take what is received of aggregates that are no runs.
	Others []kernel.Handler
	// DefaultWorkers has the role handle as many messages at a time as it always does, whatever the settings say.
	DefaultWorkers bool
	// Checks are conditions under which the role takes messages, besides the policy.
	Checks []Check
	// Around returns a function that runs what it is given, the loop of the role, and what goes on beside that; nil
	// adds nothing. Outside does the same around Checks, which are asked again and again.
	Around, Outside func(run Run) Run
}

// Run does something until ctx ends and its work is done.
type Run func(ctx context.Context) error

// Host runs roles in this process.
type Host struct {
	cfg     Base
	ports   Ports
	log     zerolog.Logger
	metrics *Metrics
	masked  []secret.Value
	pages   *runlog.Pages
	policy  agentfile.Policy
	mu      sync.Mutex
	// ledgers of the roles that run, guarded by mu.
	ledgers map[events.Service]*runlog.Ledger
	// answers of the roles that run to questions on their status subject, guarded by mu.
	answers map[events.Service]func(question []byte) any
	// standings of the roles that run, guarded by mu.
	standings map[events.Service]*standing
	// fanOut and halts begin with the first role.
	fanOut *fanOut
	halts  *halting
}

// NewHost checks what all roles need.
func NewHost(cfg Base, ports Ports, log zerolog.Logger, metrics *Metrics) (*Host, error) {
	if ports.Entropy == nil {
		ports.Entropy = rand.Reader
	}
	policy, warnings, err := agentfile.LoadPolicy(cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_POLICY: %w", err)
	}
	for _, w := range warnings {
		log.Warn().Str("file", w.File).Int("line", w.Line).Str("path", w.Path).Str("warning", w.Message).Msg("policy")
	}
	pages := runlog.NewPages(0)
	pages.SetLimit(memory.Share(32, kernel.DefaultCacheBytes, 512<<20))
	return &Host{cfg: cfg, ports: ports, log: log, metrics: metrics, masked: cfg.Masked, policy: policy, pages: pages,
		fanOut: &fanOut{pages: pages}, halts: &halting{log: log, changed: make(chan struct{})},
		answers: map[events.Service]func([]byte) any{},
		ledgers: map[events.Service]*runlog.Ledger{}, standings: map[events.Service]*standing{}}, nil
}

// As returns a host for another role of the same process that acts through ports of its own, for example with rights of
// its own. What both share, the states of runs and whether the station is halted, is read through those of the first.
func (h *Host) As(ports Ports) *Host {
	if ports.Entropy == nil {
		ports.Entropy = h.ports.Entropy
	}
	return &Host{cfg: h.cfg, ports: ports, log: h.log, metrics: h.metrics, masked: h.masked, pages: h.pages,
		policy: h.policy, fanOut: h.fanOut, halts: h.halts,
		answers: map[events.Service]func([]byte) any{},
		ledgers: map[events.Service]*runlog.Ledger{}, standings: map[events.Service]*standing{}}
}

// Status returns what a role tells of itself to whoever asks on the network.
func (h *Host) Status(role events.Service) func(question []byte) any {
	return func(question []byte) any {
		h.mu.Lock()
		l, answer := h.ledgers[role], h.answers[role]
		h.mu.Unlock()
		if len(question) > 0 && answer != nil {
			if a := answer(question); a != nil {
				return a
			}
		}
		if l == nil {
			return map[string]any{"station": h.cfg.Station, "receiving": false}
		}
		if err := h.Held(role); err != nil {
			return map[string]any{"station": h.cfg.Station, "receiving": false, "held": err.Error()}
		}
		return map[string]any{"station": h.cfg.Station, "receiving": true, "ledger": l.Stats(),
			"durability": h.ports.Durability}
	}
}

// onStored returns what a ledger tells of each event that it stored.
func (h *Host) onStored(log zerolog.Logger, recorded func(runlog.StoredEvent)) func(runlog.StoredEvent) {
	return func(t runlog.StoredEvent) {
		h.metrics.appended.count(t.Payload, t.Event.Time.Sub(t.Before.CreatedAt))
		logEnd(log, t)
		if recorded != nil {
			recorded(t)
		}
	}
}

// Run runs one role until ctx ends and its work is done.
func (h *Host) Run(ctx context.Context, w Wiring) error {
	if err := h.fanOut.open(ctx, h.ports.SubscribeRepublished); err != nil {
		return err
	}
	if err := h.openHalts(w.Role); err != nil {
		return err
	}
	halts := h.halting(w.Role)
	h.show(w.Role)
	if halts != nil {
		h.metrics.Halted(string(w.Role), halts.halted)
	}
	part := func(ctx context.Context) error { return h.serve(ctx, w, halts) }
	if w.Always == nil || halts == nil {
		return halts.during(ctx, part)
	}
	always := make(chan error, 1) // it never waits for us
	hold, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := unlessEnded(hold, h.always(hold, w, halts))
		stop()
		always <- err
	}()
	err := halts.during(hold, part)
	stop()
	return errors.Join(err, <-always)
}

// show has the metrics of a role, once for all times that it is served.
func (h *Host) show(role events.Service) {
	h.metrics.Ledger(role, func() kernel.Stats {
		h.mu.Lock()
		defer h.mu.Unlock()
		if l := h.ledgers[role]; l != nil {
			return l.Stats()
		}
		return kernel.Stats{}
	})
	h.metrics.Queue(role, h.ports.Depth)
	if role == events.Planner {
		h.metrics.Station(h.ports.StationStats)
	}
}

// instance begins a new instance of a role.
func (h *Host) instance(role events.Service, halts *halting) *Instance {
	in := &Instance{Base: h.cfg, Ports: h.ports, Policy: h.policy, Masked: h.masked, Stood: halts.stood, host: h}
	in.Name = string(role) + "-" + in.RandomID(6)
	in.Log = h.log.With().Str("role", string(role)).Str("instance", in.Name).Logger()
	return in
}

// serve runs one instance of a role until ctx ends and its work is done, or is cut off by a halt.
func (h *Host) serve(ctx context.Context, w Wiring, halts *halting) error {
	role, in := w.Role, h.instance(w.Role, halts)
	recorder, err := h.recorder(ctx, role, in.Name)
	if err != nil {
		return err
	}
	defer h.closeRecorder(ctx, recorder)
	if in.Ledger, err = runlog.NewLedger(runlog.LedgerConfig{Station: h.cfg.Station, By: role, Journal: h.ports.Journal,
		Snapshots: in.known(), Pages: h.pages, Entropy: h.ports.Entropy,
		OnStored: h.onStored(in.Log, recorder.OnStored())}); err != nil {
		return err
	}
	if in.Asker, err = h.asker(role); err != nil {
		return err
	}
	work, err := w.Start(ctx, in)
	if err != nil {
		return fmt.Errorf("start %s: %w", role, err)
	}
	h.mu.Lock()
	h.ledgers[role] = in.Ledger
	h.mu.Unlock()
	workers := h.cfg.Workers
	if workers == 0 || work.DefaultWorkers {
		workers = topology.SubscriptionsOf(role).Workers
	}
	stand := h.standing(role, in.Log, work.Checks)
	handlers := append([]kernel.Handler{runlog.Handle(in.Ledger, work.Role)}, work.Others...)
	loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: handlers,
		Inbox: stand.inbox(cut{h.ports.Inbox}), Refusals: h.ports.Refusals,
		Log: in.Log, Workers: workers, Observe: h.metrics.Observe(role)})
	if err != nil {
		return err
	}
	in.Log.Info().Msg("receiving")
	defer in.Log.Info().Msg("stopped")
	run := Run(loop.Run)
	if work.Around != nil {
		run = work.Around(run)
	}
	run = stand.during(run)
	if work.Outside != nil {
		run = work.Outside(run)
	}
	return unlessEnded(ctx, run(ctx))
}

// unlessEnded is the error of what ended, nil where it was still on its way when it was told to end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// asker asks hooks as a role.
func (h *Host) asker(role events.Service) (*hooks.Asker, error) {
	known := hooks.Builtin(func(q hook.Question) {
		l := h.log.Info().Str("hook", q.Hook).Str("on", q.On).Str("run", q.Run).Str("step", q.Step)
		if q.Call != nil {
			l = l.Str("call", q.Call.ID).Str("tool", q.Call.Tool).Str("input_hash", q.Call.InputHash)
		}
		l.Msg("asked")
	})
	maps.Copy(known, h.ports.Hooks)
	return hooks.New(hooks.Config{Station: h.cfg.Station, Role: role, Hooks: h.policy.Hooks, Dir: h.cfg.HooksDir,
		Builtin:  known,
		Requests: h.ports.Questions, Mask: secret.Mask(h.masked...)})
}

// Instance is one role of a process, as its wiring sees it.
type Instance struct {
	// Name is that of this instance among all of its role.
	Name   string
	Base   Base
	Ports  Ports
	Log    zerolog.Logger
	Ledger *runlog.Ledger
	Asker  *hooks.Asker
	Policy agentfile.Policy
	// Masked are the secrets of this process.
	Masked []secret.Value
	// Stood is how long the station was halted between two times.
	Stood func(since, now time.Time) time.Duration
	host  *Host
}

// Answers has answer called with what users ask the role on its status subject; it returns nil for a question that it
// does not know.
func (in *Instance) Answers(role events.Service, answer func(question []byte) any) {
	in.host.mu.Lock()
	defer in.host.mu.Unlock()
	in.host.answers[role] = answer
}

// Snapshots are those in the station's store.
func (in *Instance) Snapshots() *snapshot.Store {
	return &snapshot.Store{KV: in.Ports.State, Blobs: in.Ports.Blobs, Form: snapshot.Form(in.Base.SnapshotForm)}
}

// LocalSnapshots keeps those of runs that want none in the station's store; nil where there is no local store.
func (in *Instance) LocalSnapshots() *snapshot.Store {
	if in.Ports.Local == nil {
		return nil
	}
	return &snapshot.Store{KV: in.Ports.Local, Form: snapshot.FormJSON}
}

// known is where ledgers look for snapshots.
func (in *Instance) known() runlog.Snapshots {
	if local := in.LocalSnapshots(); local != nil {
		return snapshot.First{in.Snapshots(), local}
	}
	return in.Snapshots()
}

// Workflows is the index of the runs of workflows.
func (in *Instance) Workflows() *capture.Workflows {
	return &capture.Workflows{KV: in.Ports.State, Runs: in.Ledger}
}

// RandomID returns n random bytes in hex.
func (in *Instance) RandomID(n int) string {
	b := make([]byte, n)
	in.host.mu.Lock()
	defer in.host.mu.Unlock()
	if _, err := io.ReadFull(in.Ports.Entropy, b); err != nil {
		panic(fmt.Sprintf("source of entropy: %v", err))
	}
	return hex.EncodeToString(b)
}

// SubscribeRepublished calls back with every event of the station as it is stored, for the life of ctx.
func (in *Instance) SubscribeRepublished(ctx context.Context, receive func(runID string, r kernel.Record)) {
	in.host.fanOut.add(ctx, receive)
}

// Ends listens for runs that end, for the life of ctx.
func (in *Instance) Ends(ctx context.Context) (*runlog.Ends, error) {
	e := runlog.NewEnds(in.Ledger)
	return e, in.OnEnd(ctx, func(runID string) { e.Hint(ctx, runID) })
}

// mostEnds are the ends that wait for a callback; one that is above it is left to what looks again now and then.
const mostEnds = 1024

// OnEnd calls back with the id of a run that has ended, for the life of ctx. What comes while the connection is away is
// missed.
func (in *Instance) OnEnd(ctx context.Context, hint func(runID string)) error {
	stored := make(chan string, mostEnds)
	in.SubscribeRepublished(ctx, func(runID string, rec kernel.Record) {
		if rec.Kind != events.RunCompleted && rec.Kind != events.RunFailed {
			return
		}
		select {
		case stored <- runID: // hint may read the log, for which what is republished must not wait
		default:
		}
	})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case runID := <-stored:
				hint(runID)
			}
		}
	}()
	if in.Ports.OnEnd == nil {
		return nil
	}
	stop, err := in.Ports.OnEnd(hint)
	if err != nil {
		return fmt.Errorf("listen for ends: %w", err)
	}
	context.AfterFunc(ctx, stop)
	return nil
}

// Leased renews the lease of the instance until run has returned, so that a drain is not taken for a death.
func (in *Instance) Leased(run Run) Run {
	return func(ctx context.Context) error {
		if err := in.Ports.Leases.Renew(ctx, in.Name); err != nil {
			return fmt.Errorf("take the lease of %s: %w", in.Name, err)
		}
		hold, stop := context.WithCancel(context.WithoutCancel(ctx))
		var renewing sync.WaitGroup
		renewing.Go(func() {
			tick := time.NewTicker(topology.LeaseTerm / 3)
			defer tick.Stop()
			for hold.Err() == nil { // also where the next tick has come while the last one was late
				select {
				case <-hold.Done():
				case <-tick.C:
					if err := in.Ports.Leases.Renew(hold, in.Name); err != nil && hold.Err() == nil {
						in.Log.Warn().Err(err).Msg("lease not renewed, will try again")
					}
				}
			}
		})
		err := run(ctx)
		stop()
		renewing.Wait()
		return err
	}
}

// Key returns a key that is kept in the station's configuration, made by whoever came first.
func (in *Instance) Key(ctx context.Context, name string) ([]byte, error) {
	err := in.Ports.Config.Create(ctx, name, []byte(in.RandomID(32)))
	if err != nil && !errors.Is(err, kernel.ErrExists) {
		return nil, fmt.Errorf("station key: %w", err)
	}
	return in.Ports.Config.Get(ctx, name)
}
