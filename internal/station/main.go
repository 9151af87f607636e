package station

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// Main runs one role as a program of its own and returns its exit code: 0 after a drain, 1 after a failure, 2 where
// the configuration is wrong. extra tools stand beside the built-in ones; all roles of a station need the same.
func Main(role events.Service, extra ...tool.Tool) int {
	layers, err := service.Discover()
	var cfg service.Config
	if err == nil {
		cfg, err = layers.Config()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\nSee docs/config.md for all variables.\n", role, err)
		return 2
	}
	if !cfg.NATSEnabled {
		fmt.Fprintf(os.Stderr, "%s: INSPAN_NATS_ENABLED is false, but programs of their own reach each other over NATS: take the variable away, or run all services in one process with inspan up --local\n", role)
		return 2
	}
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: INSPAN_LOG_LEVEL: %v\n", role, err)
		return 2
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	for _, w := range layers.Warnings {
		log.Warn().Str("file", w.File).Int("line", w.Line).Str("path", w.Path).Str("hint", w.Hint).Str("warning", w.Message).Msg("configuration file")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := Serve(ctx, role, cfg, log, extra...); err != nil && !errors.Is(err, context.Canceled) {
		log.Error().Err(err).Str("role", string(role)).Msg("stopped by a failure")
		return 1
	}
	return 0
}

// Serve runs one role against an external server until ctx ends and its work is done.
func Serve(ctx context.Context, role events.Service, cfg service.Config, log zerolog.Logger, extra ...tool.Tool) error {
	log.Info().Str("role", string(role)).Interface("config", cfg).Msg("starting")
	metrics := service.NewMetrics()
	var conn *jet.Conn
	var host *service.Host
	starting := errors.New("starting: not yet connected to NATS")
	watch := &logWatch{role: role, log: log}
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
			return errors.Join(host.Held(role), watch.Fault())
		})
		if err != nil {
			cancel()
			return fmt.Errorf("INSPAN_HTTP %s: %w", cfg.HTTP, err)
		}
		defer func() { cancel(); <-gone }()
		log.Info().Str("address", address).Msg("health and metrics")
	}
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.NATSURL, Creds: cfg.NATSCreds, User: cfg.NATSUser, Password: cfg.NATSPassword,
		Name: "inspan-" + string(role), InboxPrefix: topology.InboxPrefix(cfg.Station, role), Monitors: monitors(cfg), DrainGrace: cfg.Drain, Buckets: cfg.Buckets(), Log: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	host, err = prepare(ctx, role, conn, cfg, watch, metrics, extra)
	if err != nil {
		return err
	}
	defer watch.begin(ctx)()
	stop, err := conn.Micro(role, service.Version(), host.Status(role))
	if err != nil {
		return fmt.Errorf("announce %s: %w", role, err)
	}
	defer func() { _ = stop() }() // the connection is closed right after
	close(ready)
	return host.Run(ctx, role)
}

// prepare checks the server's durability and the station, and registers agents where that is asked of the planner.
func prepare(ctx context.Context, role events.Service, conn *jet.Conn, cfg service.Config, watch *logWatch, metrics *service.Metrics, extra []tool.Tool) (*service.Host, error) {
	log := watch.log
	mode, err := durability(ctx, conn, cfg.AcceptLazy)
	if err != nil {
		return nil, err
	}
	log.Info().Str("durability", mode).Msg("server")
	if err := ensure(ctx, role, conn, cfg); err != nil {
		return nil, err
	}
	st, err := conn.Station(cfg.Station)
	if err != nil {
		return nil, err
	}
	watch.st, watch.state, watch.config = st, st.Shelf(topology.StateBucket), st.Shelf(topology.ConfigBucket)
	if err := watch.look(ctx); err != nil {
		return nil, err
	}
	ports := Ports(st, mode)
	ports.Damage = watch.Fault
	if role == events.Planner && cfg.Agents != "" {
		if err := register(ctx, ports, cfg, log); err != nil {
			return nil, err
		}
	}
	return service.NewHost(cfg, ports, log, metrics, extra...)
}

// setupWait is how long a station may take to be set up.
const setupWait = 2 * time.Minute

// ensure looks whether the station has what a role needs. On a server that lets everybody do everything, the first role
// sets it up; elsewhere that is for the setup user.
func ensure(ctx context.Context, role events.Service, conn *jet.Conn, cfg service.Config) error {
	ctx, cancel := context.WithTimeout(ctx, setupWait)
	defer cancel()
	missing := conn.Check(ctx, cfg.Station, role)
	if !errors.Is(missing, jet.ErrNotSetUp) {
		return missing
	}
	err := conn.Apply(ctx, cfg.Station, jet.ApplyOptions{Replicas: cfg.Replicas, Limits: cfg.Limits()})
	if errors.Is(err, jet.ErrDenied) {
		return fmt.Errorf("%w, and this user may not set it up: run inspan setup as the setup user", missing)
	}
	if err != nil {
		return err
	}
	return recordPolicy(ctx, conn, cfg)
}

// recordPolicy tells all services which policy the station has.
func recordPolicy(ctx context.Context, conn *jet.Conn, cfg service.Config) error {
	st, err := conn.Station(cfg.Station)
	if err != nil {
		return err
	}
	return service.RecordPolicy(ctx, st.Shelf(topology.ConfigBucket), cfg)
}

// Setup makes or updates the streams and consumers of a station and registers the agents of cfg.Agents, as a user who
// may. It can be run again at any time, and must be after an upgrade or a change of limits.
func Setup(ctx context.Context, cfg service.Config, log zerolog.Logger) (mode string, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupWait)
	defer cancel()
	conn, err := jet.Connect(ctx, jet.Config{URL: cfg.NATSURL, Creds: cfg.NATSCreds, User: cfg.NATSUser, Password: cfg.NATSPassword,
		Name: "inspan-setup", Monitors: monitors(cfg), Buckets: cfg.Buckets(), Log: log})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if mode, err = durability(ctx, conn, cfg.AcceptLazy); err != nil {
		return "", err
	}
	return mode, setUp(ctx, conn, cfg, jet.ApplyOptions{Replicas: cfg.Replicas, Limits: cfg.Limits()}, log)
}

// setUp is what the setup user does with its connection.
func setUp(ctx context.Context, conn *jet.Conn, cfg service.Config, o jet.ApplyOptions, log zerolog.Logger) error {
	if err := conn.Apply(ctx, cfg.Station, o); err != nil {
		return err
	}
	if err := recordPolicy(ctx, conn, cfg); err != nil {
		return err
	}
	if cfg.Agents == "" {
		return nil
	}
	st, err := conn.Station(cfg.Station)
	if err != nil {
		return err
	}
	return register(ctx, Ports(st, ""), cfg, log)
}

func monitors(cfg service.Config) []string {
	if cfg.NATSMonitor == "" {
		return nil
	}
	return []string{cfg.NATSMonitor}
}

// durability reads when the server syncs, refuses one that acknowledges before it does (SAFE-1), and has appends
// grouped where that pays.
func durability(ctx context.Context, conn *jet.Conn, acceptLazy bool) (string, error) {
	d, err := conn.Durability(ctx)
	if err != nil {
		return "", fmt.Errorf("read the server's fsync mode: %w", err)
	}
	if !d.SyncAlways && !acceptLazy {
		return "", fmt.Errorf("the NATS server acknowledges before it syncs (%s): a power cut would lose acknowledged facts; set jetstream { sync_interval: always } on the server, name its monitoring address in INSPAN_NATS_MONITOR if it is set already, or accept the loss with INSPAN_ACCEPT_LAZY_FSYNC=true", describe(d))
	}
	// Such a server writes to disk once for a batch; where it does not wait for the disk, batches only cost.
	conn.GroupAppends(d.SyncAlways)
	return describe(d), nil
}

// describe says in words what a server does before it acknowledges.
func describe(d jet.Durability) string {
	mode := "lazy, syncs every " + d.Interval.String()
	switch {
	case d.SyncAlways:
		mode = "sync always"
	case !d.Known:
		mode = "unknown, nobody told"
	}
	return fmt.Sprintf("%s (nats-server %s, told by %s)", mode, d.ServerVersion, d.Source)
}

func listenAddress(listen string) (host string, port int, err error) {
	if listen == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("--listen %q: want host:port, for example 127.0.0.1:4222", listen)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("--listen %q: the port is not a number from 0 to 65535", listen)
	}
	if port == 0 {
		port = -1 // any free port
	}
	return host, port, nil
}
