// Package service is what the five programs have in common: configuration, wiring, health, metrics, drain.
//
// Promises: the same wiring serves a role in its own process and five roles in one. Configuration is read once.
// After its context ends a service takes no more work, finishes what is under way within the drain time and returns.
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
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/quota"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/executor"
	"github.com/inspan/inspan/services/gatekeeper"
	"github.com/inspan/inspan/services/planner"
	"github.com/inspan/inspan/services/toolrunner"
)

// Ports of a station, filled by internal/jet or internal/mem.
type Ports struct {
	Journal kernel.Journal
	Inbox   kernel.Inbox
	Timers  kernel.Timers
	Blobs   kernel.Blobs
	// Artifacts keeps what runs make; nil leaves it in the workspaces.
	Artifacts kernel.Artifacts
	State     kernel.Shelf
	Config    kernel.Shelf
	// Sessions holds the sessions; nil knows none, and what names one only shares its directory.
	Sessions kernel.Shelf
	// Trees holds the records of working trees; nil where they stay on their machine.
	Trees kernel.Shelf
	// Snapshots keeps working trees that follow their runs; nil means with git.
	Snapshots workspace.Snapshots
	Leases    kernel.Leases
	// Live takes what is said live for those who watch now, Kept what the station is to keep for a while besides, Said what a
	// program in this process hears; Config.Streaming names those that are used. Each may be nil.
	Live     kernel.Live
	Kept     kernel.Live
	Said     chan<- streaming.Said
	Refusals kernel.Refusals
	// AnswerSoFar has answer called with the run of each watcher who asks what was said live so far, and tells the watcher,
	// until stop is called. Nil leaves those who come late with what is stored.
	AnswerSoFar func(answer func(runID string) [][]byte) (stop func(), err error)
	// OnEnd calls back with the id of a run that may have ended, until stop is called. May be nil.
	OnEnd func(func(runID string)) (stop func(), err error)
	// Overhear calls back with every fact of the station as it is stored, until stop is called: services that hear of
	// facts early need not read them. May be nil.
	Overhear func(func(runID string, r kernel.Record)) (stop func(), err error)
	// Questions asks hooks on a subject; nil lets those block.
	Questions hooks.Requester
	// Hooks are further built-in hooks, by name.
	Hooks map[string]hooks.Func
	// Census tells how busy the station is; may be nil.
	Census kernel.Census
	// Damage says what the station has lost of its store, nil for nothing; may be nil.
	Damage func() error
	// Local keeps the snapshots of runs that are not to have any in the station's store (eternal_engine_enabled: false).
	// Nil keeps none of them.
	Local kernel.Shelf
	// Machine names the machine that tools run on, for other toolrunners; empty means the name that it has.
	Machine string
	// Durability of the server, recorded in each run.
	Durability string
	// Models answers the agents' requests; nil means the configured providers.
	Models planner.Models
	// Boxes opens sandboxes; nil means those of this machine.
	Boxes *pool.Opener
	// Git runs git for runs; nil means the program of this machine, as it is configured.
	Git *git.Git
	// Egress is the way out for agents that may reach something; nil means that of this machine.
	Egress *egress.Proxy
	// Tools replaces the built-in ones; nil leaves them.
	Tools *tool.Registry
	// Entropy makes ids; nil means crypto/rand.
	Entropy io.Reader
}

// Host runs roles in this process.
type Host struct {
	cfg     Config
	ports   Ports
	log     zerolog.Logger
	metrics *Metrics
	tools   *tool.Registry
	toolbox *mcp.Toolbox
	pages   *runlog.Pages
	policy  agentfile.Policy
	mu      sync.Mutex
	// ledgers of the roles that run, guarded by mu.
	ledgers map[events.Service]*runlog.Ledger
	// standings of the roles that run, guarded by mu.
	standings map[events.Service]*standing
	// keeping is the archive at work.
	keeping sync.WaitGroup
	// ears begin with the first role.
	ears *ears
}

// NewHost checks what all roles need. extra tools stand beside the built-in ones.
func NewHost(cfg Config, ports Ports, log zerolog.Logger, metrics *Metrics, extra ...tool.Tool) (*Host, error) {
	if ports.Entropy == nil {
		ports.Entropy = rand.Reader
	}
	registry := ports.Tools
	if registry == nil {
		var err error
		if registry, err = tool.NewRegistry(append(builtin(cfg), extra...)...); err != nil {
			return nil, err
		}
	}
	secrets, err := cfg.ServerSecrets()
	if err != nil {
		return nil, err
	}
	policy, warnings, err := agentfile.LoadPolicy(cfg.Policy)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_POLICY: %w", err)
	}
	for _, w := range warnings {
		log.Warn().Str("file", w.File).Int("line", w.Line).Str("path", w.Path).Str("warning", w.Message).Msg("policy")
	}
	pages := runlog.NewPages(0)
	return &Host{cfg: cfg, ports: ports, log: log, metrics: metrics, tools: registry, toolbox: mcp.New(registry, secrets), policy: policy, pages: pages, ears: &ears{pages: pages},
		ledgers: map[events.Service]*runlog.Ledger{}, standings: map[events.Service]*standing{}}, nil
}

// builtin are the tools that every station has.
func builtin(cfg Config) []tool.Tool {
	return append(tools.Builtin(), tools.Prometheus(tools.PrometheusConfig{URL: cfg.PrometheusURL, Token: cfg.PrometheusToken}))
}

// As returns a host for another role of the same process that acts through ports of its own, for example with rights of
// its own. Both share what is known of runs, so a role hears early of facts through the ports of the first.
func (h *Host) As(ports Ports) *Host {
	if ports.Entropy == nil {
		ports.Entropy = h.ports.Entropy
	}
	return &Host{cfg: h.cfg, ports: ports, log: h.log, metrics: h.metrics, tools: h.tools, toolbox: h.toolbox, pages: h.pages, policy: h.policy, ears: h.ears,
		ledgers: map[events.Service]*runlog.Ledger{}, standings: map[events.Service]*standing{}}
}

// Status returns what a role tells of itself to whoever asks on the network.
func (h *Host) Status(role events.Service) func() any {
	return func() any {
		h.mu.Lock()
		l := h.ledgers[role]
		h.mu.Unlock()
		if l == nil {
			return map[string]any{"station": h.cfg.Station, "hearing": false}
		}
		if err := h.Held(role); err != nil {
			return map[string]any{"station": h.cfg.Station, "hearing": false, "held": err.Error()}
		}
		return map[string]any{"station": h.cfg.Station, "hearing": true, "ledger": l.Stats(), "durability": h.ports.Durability}
	}
}

// Run runs one role until ctx ends and its work is done.
func (h *Host) Run(ctx context.Context, role events.Service) error {
	if err := h.ears.open(ctx, h.ports.Overhear); err != nil {
		return err
	}
	instance := string(role) + "-" + h.randomID(6)
	recorder, err := h.recorder(ctx, role, instance)
	if err != nil {
		return err
	}
	defer h.closeRecorder(ctx, recorder)
	ledger, err := runlog.NewLedger(runlog.LedgerConfig{Station: h.cfg.Station, By: role, Journal: h.ports.Journal,
		Snapshots: h.known(), Pages: h.pages, Entropy: h.ports.Entropy, Tell: recorder.Tell()})
	if err != nil {
		return err
	}
	keep, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKeeping()
	var trees *workspace.Trees
	if role == events.Toolrunner {
		if trees, err = h.trees(ctx, ledger, instance); err != nil {
			return err
		}
	}
	r, err := h.role(ctx, keep, role, ledger, instance, trees)
	if err != nil {
		return fmt.Errorf("start %s: %w", role, err)
	}
	h.metrics.Ledger(role, ledger)
	h.mu.Lock()
	h.ledgers[role] = ledger
	h.mu.Unlock()
	workers := h.cfg.Workers
	if workers == 0 || role == events.Persister {
		workers = topology.HearsOf(role).Workers
	}
	log := h.log.With().Str("role", string(role)).Str("instance", instance).Logger()
	stand, all := h.standing(role, instance, log)
	loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(ledger, r)}, Inbox: stand.inbox(h.ports.Inbox), Refusals: h.ports.Refusals,
		Log: log, Workers: workers, Observe: h.metrics.Observe(role)})
	if err != nil {
		return err
	}
	log.Info().Msg("hearing")
	defer log.Info().Msg("stopped")
	if role == events.Persister {
		// The loop first: what it is hearing when it ends is saved too.
		err := loop.Run(ctx)
		stopKeeping()
		h.keeping.Wait()
		return err
	}
	if role == events.Toolrunner {
		run, err := h.expiring(log, h.tend(r, trees, minding(r, log, h.cleaning(r, log, loop.Run))))
		if err != nil {
			return err
		}
		if h.ports.Boxes == nil {
			run = reaper{log: log, every: reapEvery, more: h.cfg.reapers()}.during(run)
		}
		return h.withLease(ctx, instance, log, all.during(stand.during(run)))
	}
	return stand.during(loop.Run)(ctx)
}

func (h *Host) snapshots() *snapshot.Store {
	return &snapshot.Store{Shelf: h.ports.State, Blobs: h.ports.Blobs, Form: snapshot.Form(h.cfg.SnapshotForm)}
}

// localSnapshots keeps those of runs that want none in the station's store; nil where there is no local store.
func (h *Host) localSnapshots() *snapshot.Store {
	if h.ports.Local == nil {
		return nil
	}
	return &snapshot.Store{Shelf: h.ports.Local, Form: snapshot.FormJSON}
}

// known is where ledgers look for snapshots.
func (h *Host) known() runlog.Snapshots {
	if local := h.localSnapshots(); local != nil {
		return snapshot.First{h.snapshots(), local}
	}
	return h.snapshots()
}

// randomID returns n random bytes in hex.
func (h *Host) randomID(n int) string {
	b := make([]byte, n)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := io.ReadFull(h.ports.Entropy, b); err != nil {
		panic(fmt.Sprintf("source of entropy: %v", err))
	}
	return hex.EncodeToString(b)
}

// withLease renews the instance's lease until run has returned, so that a drain is not taken for a death.
func (h *Host) withLease(ctx context.Context, instance string, log zerolog.Logger, run func(context.Context) error) error {
	if err := h.ports.Leases.Renew(ctx, instance); err != nil {
		return fmt.Errorf("take the lease of %s: %w", instance, err)
	}
	hold, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(topology.LeaseTerm / 3)
		defer tick.Stop()
		for hold.Err() == nil { // also where the next tick has come while the last one was late
			select {
			case <-hold.Done():
			case <-tick.C:
				if err := h.ports.Leases.Renew(hold, instance); err != nil && hold.Err() == nil {
					log.Warn().Err(err).Msg("lease not renewed, will try again")
				}
			}
		}
	}()
	err := run(ctx)
	stop()
	<-done
	return err
}

// role makes one of the five.
func (h *Host) role(ctx, keep context.Context, role events.Service, ledger *runlog.Ledger, instance string, trees *workspace.Trees) (runlog.Role, error) {
	p := h.ports
	asker, err := h.asker(role)
	if err != nil {
		return nil, err
	}
	switch role {
	case events.Planner:
		// Outsiders can not ask the server; they find it here (inspan doctor).
		if err := p.Config.Put(ctx, topology.DurabilityKey, []byte(p.Durability)); err != nil {
			return nil, fmt.Errorf("record the durability: %w", err)
		}
		prices, err := agentfile.LoadPrices(h.cfg.Prices)
		if err != nil {
			return nil, fmt.Errorf("INSPAN_PRICES: %w", err)
		}
		windows, err := llm.ParseWindows(h.cfg.ContextWindows)
		if err != nil {
			return nil, fmt.Errorf("INSPAN_CONTEXT_WINDOWS: %w", err)
		}
		return planner.New(planner.Config{Prices: prices, Station: h.cfg.Station, Ledger: ledger, Timers: p.Timers, Agents: &Agents{Shelf: p.Config},
			Windows: windows.Of, Context: h.context, Models: h.models(), Isolation: h.cfg.Isolation, Durability: p.Durability, Census: p.Census, Damage: p.Damage, Hooks: asker,
			Earlier: h.workflows(ledger).Join, Sessions: p.Sessions, Blobs: p.Blobs, LongRunning: h.cfg.LongRunning,
			Quotas: planner.Quotas{PerSender: h.cfg.SenderPerMinute, Limits: quota.Limits{Running: h.cfg.MaxRuns,
				PerMinute: h.cfg.RunsPerMinute, Patience: h.cfg.Patience}}})
	case events.Gatekeeper:
		cfg := gatekeeper.Config{Ledger: ledger, Timers: p.Timers, Terms: h.cfg.GateTerms(), Blobs: p.Blobs, Tools: h.tools, ToolsOf: h.toolbox.For, Rules: h.policy.Rules, Hooks: asker, OnlySigned: h.cfg.OnlySigned,
			MaxGates: h.cfg.MaxGates, AnswersPerMinute: h.cfg.AnswersPerMinute}
		if h.cfg.ApproverKeys != "" {
			keys, err := approval.LoadKeys(h.cfg.ApproverKeys)
			if err != nil {
				return nil, fmt.Errorf("INSPAN_APPROVER_KEYS: %w", err)
			}
			cfg.Approvers = keys
		}
		return gatekeeper.New(cfg)
	case events.Executor:
		ends, err := h.ends(ctx, ledger)
		if err != nil {
			return nil, err
		}
		feed, err := h.feed(ctx)
		if err != nil {
			return nil, err
		}
		return executor.New(executor.Config{Ledger: ledger, Timers: p.Timers, Blobs: p.Blobs, Live: feed, Ends: ends,
			Models: h.models(), Tools: h.tools, ToolsOf: h.toolbox.For, Hooks: asker})
	case events.Toolrunner:
		return h.toolrunner(ctx, ledger, instance, asker, trees)
	case events.Persister:
		return h.persister(ctx, keep, ledger)
	}
	return nil, fmt.Errorf("there is no role %q", role)
}

func (h *Host) toolrunner(ctx context.Context, ledger *runlog.Ledger, instance string, asker *hooks.Asker, trees *workspace.Trees) (runlog.Role, error) {
	ends, err := h.ends(ctx, ledger)
	if err != nil {
		return nil, err
	}
	key, err := h.stationKey(ctx)
	if err != nil {
		return nil, err
	}
	boxes := h.ports.Boxes
	if boxes == nil {
		var mode sandbox.Mode
		if boxes, mode, err = Boxes(ctx, h.cfg); err != nil {
			return nil, err
		}
		h.log.Info().Str("sandbox", string(mode)).Str("workspace", h.cfg.Workspace).Msg("tools run here")
	}
	_, masked, err := h.cfg.secrets()
	if err != nil {
		return nil, err
	}
	more, _, err := h.cfg.mcpSecrets()
	if err != nil {
		return nil, err
	}
	desk, keys, err := h.desk()
	if err != nil {
		return nil, fmt.Errorf("git work: %w", err)
	}
	h.tellWalls(ctx, desk)
	masked = append(append(masked, more...), keys...)
	out, err := h.egress()
	if err != nil {
		return nil, err
	}
	feed, err := h.feed(ctx)
	if err != nil {
		return nil, err
	}
	masked = append(masked, secret.New(string(key)))
	keeper, err := h.keeper(masked)
	if err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	role, err := newToolrunner(toolrunner.Config{Ledger: ledger, Timers: h.ports.Timers, Blobs: h.ports.Blobs, Leases: h.ports.Leases, Ends: ends, Tools: h.tools,
		ToolsOf: h.toolbox.For, Hooks: asker, Instance: instance, Key: key},
		runnerParts{opener: boxes, trees: trees, uses: h.uses(trees), keeper: keeper, desk: desk, rescue: h.rescue(desk), sessions: h.ports.Sessions, egress: out, live: feed, secrets: masked})
	if err != nil {
		return nil, err
	}
	h.ears.add(ctx, role.Republished)
	if h.ports.OnEnd == nil {
		return role, nil
	}
	stop, err := h.ports.OnEnd(role.Ended)
	if err != nil {
		return nil, fmt.Errorf("listen for ends: %w", err)
	}
	context.AfterFunc(ctx, stop)
	return role, nil
}

// asker asks hooks as a role.
func (h *Host) asker(role events.Service) (*hooks.Asker, error) {
	_, masked, err := h.cfg.secrets()
	if err != nil {
		return nil, err
	}
	known := hooks.Builtin(func(q hook.Question) {
		l := h.log.Info().Str("hook", q.Hook).Str("on", q.On).Str("run", q.Run).Str("step", q.Step)
		if q.Call != nil {
			l = l.Str("call", q.Call.ID).Str("tool", q.Call.Tool).Str("input_hash", q.Call.InputHash)
		}
		l.Msg("asked")
	})
	maps.Copy(known, h.ports.Hooks)
	return hooks.New(hooks.Config{Station: h.cfg.Station, Role: role, Hooks: h.policy.Hooks, Dir: h.cfg.HooksDir, Builtin: known,
		Requests: h.ports.Questions, Mask: secret.Mask(masked...)})
}

// ends listens for runs that end, for the life of ctx.
func (h *Host) ends(ctx context.Context, ledger *runlog.Ledger) (*runlog.Ends, error) {
	e := runlog.NewEnds(ledger)
	if h.ports.OnEnd == nil {
		return e, nil
	}
	stop, err := h.ports.OnEnd(func(runID string) { e.Hint(ctx, runID) })
	if err != nil {
		return nil, fmt.Errorf("listen for ends: %w", err)
	}
	context.AfterFunc(ctx, stop)
	return e, nil
}

func (h *Host) models() planner.Models {
	if h.ports.Models != nil {
		return h.ports.Models
	}
	return Models(h.cfg)
}

// stationKey returns the configured key, or the one kept in the station's configuration, made by whoever came first.
func (h *Host) stationKey(ctx context.Context) ([]byte, error) {
	if !h.cfg.StationKey.Empty() {
		return []byte(h.cfg.StationKey.Reveal()), nil
	}
	err := h.ports.Config.Create(ctx, topology.StationKeyKey, []byte(h.randomID(32)))
	if err != nil && !errors.Is(err, kernel.ErrExists) {
		return nil, fmt.Errorf("station key: %w", err)
	}
	return h.ports.Config.Get(ctx, topology.StationKeyKey)
}
