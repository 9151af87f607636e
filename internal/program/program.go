// Package program runs one role as a program of its own against NATS servers elsewhere, and sets a station up there.
//
// Promises: a server that acknowledges before it syncs is refused unless that is accepted in so many words. A role
// begins once the station has what it needs. It links the client of NATS and no server, and of the roles only the one
// it is given.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/memory"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Ports of a station over NATS.
func Ports(st *jet.Station, durability string) service.Ports {
	return service.Ports{Journal: st.Journal(), Inbox: st.Inbox(), Timers: st.Timers(), Blobs: st.Blobs(),
		Artifacts: st.Artifacts(),
		State:     st.KV(topology.StateBucket), Config: st.KV(topology.ConfigBucket),
		SessionLog: st.JournalFor(events.SessionAggregate), Sessions: st.KV(topology.SessionBucket),
		ScheduleLog: st.JournalFor(events.ScheduleAggregate), ScheduleTimers: st.TimersFor(events.ScheduleAggregate),
		WorkLog: st.JournalFor(events.WorkAggregate), WorkTimers: st.TimersFor(events.WorkAggregate),
		QueueLog: st.JournalFor(events.QueueAggregate), QueueTimers: st.TimersFor(events.QueueAggregate),
		AgentLog: st.JournalFor(events.AgentAggregate), AgentTimers: st.TimersFor(events.AgentAggregate),
		HarnessLog: st.JournalFor(events.HarnessAggregate),
		HaltLog:    st.JournalFor(events.HaltAggregate), HaltInbox: st.HaltInbox(),
		BudgetLog: st.JournalFor(events.BudgetAggregate), KeysLog: st.JournalFor(events.KeysAggregate),
		DeputyLog: st.JournalFor(events.DeputyAggregate),
		TreeLog:   st.JournalFor(events.WorkspaceAggregate), Trees: st.KV(topology.TreeBucket), Leases: st.Leases(),
		Live: st.Live(), Retained: st.Retained(),
		AnswerSoFar: st.AnswerSoFar,
		Refusals:    st.Refusals(), SubscribeRepublished: st.SubscribeRepublished,
		StationStats: st.StationStats(), Depth: st.Depth, Questions: st, ServedTools: st, Durability: durability}
}

// Main runs one role as a program of its own and returns its exit code: 0 after a drain, 1 after a failure, 2 where
// the configuration is wrong.
func Main(p service.Program) int {
	return Run(string(p.Role), p.Config, p.Base, func(ctx context.Context, log zerolog.Logger) error {
		return Serve(ctx, p, log)
	})
}

// Log is what a program logs to.
type Log = zerolog.Logger

// Run reads the settings of a program, runs it until it is told to end, and returns its exit code as Main does. cfg
// points to the settings, of which base is a part.
func Run(name string, cfg any, base *service.Base, run func(ctx context.Context, log zerolog.Logger) error) int {
	layers, err := service.Discover()
	if err == nil {
		err = layers.Load(cfg)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\nSee docs/config.md for all variables.\n", name, err)
		return 2
	}
	if !base.NATSEnabled {
		fmt.Fprintf(os.Stderr, "%s: INSPAN_NATS_ENABLED is false, but programs of their own reach each other over NATS: take the variable away, or run all services in one process with inspan up --local\n", name)
		return 2
	}
	level, err := zerolog.ParseLevel(base.LogLevel)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: INSPAN_LOG_LEVEL: %v\n", name, err)
		return 2
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	for _, w := range layers.Warnings {
		log.Warn().Str("file", w.File).Int("line", w.Line).Str("path", w.Path).Str("hint", w.Hint).Str("warning",
			w.Message).Msg("configuration file")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go memory.Pace(ctx)
	if err := run(ctx, log); err != nil && !errors.Is(err, context.Canceled) {
		log.Error().Err(err).Str("role", name).Msg("stopped by a failure")
		return 1
	}
	return 0
}

// Serve runs one role, whose settings were read, against an external server until ctx ends and its work is done.
func Serve(ctx context.Context, p service.Program, log zerolog.Logger) error {
	cfg := p.Base
	log.Info().Str("role", string(p.Role)).Interface("config", p.Config).Msg("starting")
	metrics := service.NewMetrics()
	var conn *jet.Conn
	var host *service.Host
	starting := errors.New("starting: not yet connected to NATS")
	watch := &logWatch{role: p.Role, log: log}
	metrics.Damage(watch.Fault)
	ready := make(chan struct{})
	if cfg.HTTP != "" {
		web, cancel := context.WithCancel(context.WithoutCancel(ctx))
		address, gone, err := service.Serve(web, cfg.HTTP, metrics, func() error {
			select {
			case <-ready:
			default:
				return starting
			}
			if !conn.Connected() {
				return errors.New("not connected to NATS")
			}
			return errors.Join(host.Held(p.Role), watch.Fault())
		})
		if err != nil {
			cancel()
			return fmt.Errorf("INSPAN_HTTP %s: %w", cfg.HTTP, err)
		}
		defer func() { cancel(); <-gone }()
		log.Info().Str("address", address).Msg("health and metrics")
	}
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.NATSURL, Creds: cfg.NATSCreds, User: cfg.NATSUser,
		Password: cfg.NATSPassword,
		Name:     "inspan-" + string(p.Role), InboxPrefix: topology.InboxPrefix(cfg.Station, p.Role),
		Monitors: monitors(cfg.NATS), DrainGrace: cfg.Drain, Buckets: cfg.Buckets(), Log: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	ports, err := prepare(ctx, p, conn, watch)
	if err != nil {
		return err
	}
	wiring, err := p.Wire()
	if err != nil {
		return err
	}
	if cfg.Masked, err = service.Secrets(p.Config); err != nil {
		return err
	}
	if host, err = service.NewHost(*cfg, ports, log, metrics); err != nil {
		return err
	}
	defer watch.begin(ctx)()
	stop, err := conn.Services().Register(p.Role, service.Version(), host.Status(p.Role))
	if err != nil {
		return fmt.Errorf("announce %s: %w", p.Role, err)
	}
	defer func() { _ = stop() }() // the connection is closed right after
	close(ready)
	return host.Run(ctx, wiring)
}

// prepare checks the server's durability and the station.
func prepare(ctx context.Context, p service.Program, conn *jet.Conn, watch *logWatch) (service.Ports, error) {
	cfg, log := p.Base, watch.log
	mode, err := Durability(ctx, conn, cfg.AcceptLazy)
	if err != nil {
		return service.Ports{}, err
	}
	log.Info().Str("durability", mode).Msg("server")
	if err := ensure(ctx, p.Role, conn, cfg); err != nil {
		return service.Ports{}, err
	}
	st, err := conn.Station(cfg.Station)
	if err != nil {
		return service.Ports{}, err
	}
	watch.st, watch.state, watch.config = st, st.KV(topology.StateBucket), st.KV(topology.ConfigBucket)
	if err := watch.look(ctx); err != nil {
		return service.Ports{}, err
	}
	ports := Ports(st, mode)
	ports.Damage = watch.Fault
	if p.Prepare != nil {
		return ports, p.Prepare(ctx, ports, log)
	}
	return ports, nil
}

// setupWait is how long a station may take to be set up.
const setupWait = 2 * time.Minute

// ensure looks whether the station has what a role needs. On a server that lets everybody do everything, the first role
// sets it up; elsewhere that is for the setup user.
func ensure(ctx context.Context, role events.Service, conn *jet.Conn, cfg *service.Base) error {
	ctx, cancel := context.WithTimeout(ctx, setupWait)
	defer cancel()
	if err := separate(ctx, conn, cfg, jet.OneAccount, jet.OpenAccount); err != nil {
		return err
	}
	missing := conn.Setup().Check(ctx, cfg.Station, role)
	if !errors.Is(missing, jet.ErrNotSetUp) {
		return missing
	}
	err := conn.Setup().Apply(ctx, cfg.Station, jet.ApplyOptions{Replicas: cfg.Replicas, Limits: cfg.Limits()})
	if errors.Is(err, jet.ErrDenied) {
		return fmt.Errorf("%w, and this user may not set it up: run inspan setup as the setup user", missing)
	}
	if err != nil {
		return err
	}
	return RecordPolicy(ctx, conn, cfg)
}

// RecordPolicy tells all services which policy the station has.
func RecordPolicy(ctx context.Context, conn *jet.Conn, cfg *service.Base) error {
	st, err := conn.Station(cfg.Station)
	if err != nil {
		return err
	}
	return service.RecordPolicy(ctx, st.KV(topology.ConfigBucket), *cfg)
}

// ErrSharedAccount means that the streams of a server are in the account of its users, which no one has accepted.
var ErrSharedAccount = errors.New("the streams of this NATS server are in the same account as its users: whoever may ask the server anything there can have it store the answer as an event of another, so approvals prove nothing against one who has credentials; make two accounts (inspan nats-accounts, or deploy/nats/users.conf), or accept that with INSPAN_NATS_SHARED_ACCOUNT=true: docs/own-nats.md says what is lost")

// separate refuses a server whose streams have no account of their own, unless that is accepted. For who sets the
// station up, who is in that account anyway, only a user without permissions shows it. A server that asks no one who
// they are promises nothing, and is left to those who use it.
func separate(ctx context.Context, conn *jet.Conn, cfg *service.Base, refused ...jet.Separation) error {
	check := jet.AccountCheckOf(conn)
	if cfg.NATSShared || !check.Protected() {
		return nil
	}
	is, err := check.Separation(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(refused, is) {
		return ErrSharedAccount
	}
	return nil
}

// Setup makes or updates the streams and consumers of a station and registers the agents of a folder, as a user who
// may. It can be run again at any time, and must be after an upgrade or a change of limits.
func Setup(ctx context.Context, cfg service.Config, log zerolog.Logger) (mode string, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupWait)
	defer cancel()
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.NATSURL, Creds: cfg.NATSCreds, User: cfg.NATSUser,
		Password: cfg.NATSPassword,
		Name:     "inspan-setup", Monitors: monitors(cfg.NATS), Buckets: cfg.Buckets(), Log: log})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if mode, err = Durability(ctx, conn, cfg.AcceptLazy); err != nil {
		return "", err
	}
	if err := separate(ctx, conn, &cfg.Base, jet.OpenAccount); err != nil {
		return "", err
	}
	return mode, SetUp(ctx, conn, cfg, jet.ApplyOptions{Replicas: cfg.Replicas, Limits: cfg.Limits()}, log)
}

// SetUp is what the setup user does with its connection.
func SetUp(ctx context.Context, conn *jet.Conn, cfg service.Config, o jet.ApplyOptions, log zerolog.Logger) error {
	if err := conn.Setup().Apply(ctx, cfg.Station, o); err != nil {
		return err
	}
	if err := RecordPolicy(ctx, conn, &cfg.Base); err != nil {
		return err
	}
	st, err := conn.Station(cfg.Station)
	if err != nil {
		return err
	}
	return service.RegisterAgents(ctx, st.KV(topology.ConfigBucket), cfg.Planning, log)
}

func monitors(cfg service.NATS) []string {
	if cfg.NATSMonitor == "" {
		return nil
	}
	return []string{cfg.NATSMonitor}
}

// Durability reads when the server syncs, refuses one that acknowledges before it does (SAFE-1), and has appends
// grouped where that pays.
func Durability(ctx context.Context, conn *jet.Conn, acceptLazy bool) (string, error) {
	d, err := conn.Servers().Durability(ctx)
	if err != nil {
		return "", fmt.Errorf("read the server's fsync mode: %w", err)
	}
	if !d.SyncAlways && !acceptLazy {
		return "", fmt.Errorf("the NATS server acknowledges before it syncs (%s): a power cut would lose acknowledged events; set jetstream { sync_interval: always } on the server, name its monitoring address in INSPAN_NATS_MONITOR if it is set already, or accept the loss with INSPAN_ACCEPT_LAZY_FSYNC=true", describe(d))
	}
	// Such a server writes to disk once for a batch; where it does not wait for the disk, batches only cost.
	if conn.GroupAppends(jet.GroupNone); d.SyncAlways {
		conn.GroupAppends(jet.GroupOnDisk)
	}
	return describe(d), nil
}

// describe says in words what a server does before it acknowledges.
func describe(d jet.Durability) string {
	mode := "lazy, syncs every " + d.Interval.String()
	switch {
	case d.SyncAlways:
		mode = "sync always"
	case !d.Known:
		mode = "unknown, no server reported it"
	}
	return fmt.Sprintf("%s (nats-server %s, source: %s)", mode, d.ServerVersion, d.Source)
}
