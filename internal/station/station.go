// Package station puts a station together: a connection, its streams, and roles in this process.
//
// Promises: one process with an embedded server and five processes with an external one run the same code on the same
// subjects, each role with its own rights. A server that acknowledges before it syncs is refused unless that is
// accepted in so many words. A store belongs to one process at a time; after kill -9 the next one goes on at once,
// without waiting for the leases of the dead.
package station

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/logfeed"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// Config of a station in one process. The zero value is a station in memory of this process, in a folder that must
// be named by StoreDir.
type Config struct {
	// Listen is "host:port" for NATS clients; empty does not listen.
	Listen   string
	StoreDir string
	// Station defaults to "default".
	Station string
	// AgentsDir and ScriptsDir are read at start; WorkspaceDir defaults to StoreDir/workspace.
	AgentsDir, ScriptsDir, WorkspaceDir string
	// Sandbox defaults to "auto".
	Sandbox string
	// Still starts no role: the streams can be read and filled, and nothing goes on.
	Still bool
	// LazySync leaves syncing to the server's timer: faster, and a power cut loses what was acknowledged last.
	LazySync bool
	// Alone does without NATS: the station is the file LocalFile in StoreDir, and only this process reaches it.
	Alone bool
	Log   zerolog.Logger
	// Console has the server take NATS over WebSocket on loopback, for consoles that a gateway connects.
	Console bool
	// MarkEvery is how often the streams are compared with the marks of the store, and new ones written; 0 means
	// DefaultMarkEvery.
	MarkEvery time.Duration
	// AcceptLoss is the ID of what the store has lost, from a person who has seen it: the station works on with what is
	// left.
	AcceptLoss string
	// Tools beside the built-in ones.
	Tools []tool.Tool
	// Base is the configuration from the environment: keys, limits.
	Base service.Config
	// Metrics are what the roles report to; nil shows them nowhere.
	Metrics *service.Metrics
	// Replayed takes what is said live where Base.Streaming names the channel, and is closed by no one but its owner;
	// what it has no room for is dropped.
	Replayed chan<- streaming.Replay
	// between stands between the roles and the log; tests take the log away there.
	between func(kernel.Journal) kernel.Journal
	// tap stands between the connections of the roles and the server; tests count there.
	tap func(user string, s jet.Embedded) jet.Embedded
}

// Station is a server and five roles in this process, each with a connection and rights of its own.
type Station struct {
	cfg    Config
	server *natsserver.Server
	// held is the store as this process's own; nil where the local store does that.
	held *disk.Lock
	// name is the server's.
	name       string
	users      *users
	conn       *jet.Conn
	roleConns  []*jet.Conn
	eventsConn *jet.Conn
	local      *localstore.Station
	fallback   *localstore.Fallback
	feed       *logfeed.Feed
	durability string
	sandbox    string
	// store is nil where the station does without NATS; compared is set once its streams were compared with its marks,
	// staged where the server gathers batches of events in memory.
	store            *store
	compared, staged bool
	tasks            *tasks
}

// Up starts a station and returns once it serves. Close must be called.
func Up(ctx context.Context, cfg Config) (*Station, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Station{cfg: cfg, users: &users{cfg: cfg, passwords: map[string]secret.Value{}}, tasks: newTasks()}
	if cfg.Alone {
		return s, s.alone(ctx)
	}
	host, port, err := listenAddress(cfg.Listen)
	if err != nil {
		return nil, err
	}
	if s.users.people, err = newPeople(cfg); err != nil {
		return nil, err
	}
	streams := filepath.Join(cfg.StoreDir, streamsFolder)
	if err := checkEarlier(streams); err != nil {
		return nil, err
	}
	if s.held, err = hold(cfg.StoreDir); err != nil {
		return nil, err
	}
	s.store = newStore(cfg, s.tasks.fail)
	if err := errors.Join(forgetUsers(cfg.StoreDir), s.store.examine()); err != nil {
		return nil, errors.Join(err, s.held.Close())
	}
	if s.users.list, err = userlist.Read(cfg.StoreDir); err != nil {
		return nil, errors.Join(err, s.held.Close())
	}
	// until it is set up
	accounts := s.users.accounts(cfg.buckets().Setup(cfg.Station), cfg.buckets().Upgrade(cfg.Station),
		topology.Reviver(cfg.Station))
	// of this process and no other
	s.name = serverPrefix + cfg.Station + "." + strings.ToLower(rand.Text()[:8])
	if s.server, err = natsserver.Start(natsserver.Config{Name: s.name, StoreDir: streams,
		Host: host, Port: port, WebSocketPort: cfg.webSocketPort(), LazySync: cfg.LazySync, Accounts: accounts,
		Guest: s.users.guest()}); err != nil {
		return nil, errors.Join(err, s.held.Close())
	}
	s.store.server, s.users.server = s.server, s.server
	err = s.start(ctx)
	if err == nil {
		err = s.record()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (cfg Config) complete() (Config, error) {
	if cfg.StoreDir == "" {
		return cfg, errors.New("a station needs a folder to keep its streams in: --store DIR")
	}
	if cfg.Station == "" {
		cfg.Station = "default"
	}
	if cfg.Sandbox == "" {
		cfg.Sandbox = "auto"
	}
	if cfg.Metrics == nil {
		cfg.Metrics = service.NewMetrics()
	}
	if cfg.WorkspaceDir == "" {
		cfg.WorkspaceDir = filepath.Join(cfg.StoreDir, "workspace")
	}
	var err error
	if cfg.WorkspaceDir, err = filepath.Abs(cfg.WorkspaceDir); err != nil {
		return cfg, fmt.Errorf("workspace: %w", err)
	}
	return cfg, errors.Join(events.CheckID("station", cfg.Station), cfg.Base.Buckets().Check())
}

// buckets are the names of the station's buckets.
func (cfg Config) buckets() topology.Buckets { return cfg.Base.Buckets() }

// As connects to the station's server as one of its users: a role, or, in a station that stands still, the setup user
// or the upgrade user.
// Close ends the connection.
func (s *Station) As(ctx context.Context, user events.Service) (*jet.Conn, error) {
	prefix := ""
	if user != topology.SetupUser && user != topology.UpgradeUser {
		prefix = topology.InboxPrefix(s.cfg.Station, user)
	}
	conn, err := s.users.connect(ctx, string(user), prefix)
	if err == nil {
		s.roleConns = append(s.roleConns, conn)
	}
	return conn, err
}

// service is what the roles are configured with.
func (cfg Config) service() (of service.Config, err error) {
	of = cfg.Base
	if of.AnchorKey.Empty() {
		of.AnchorKeyFile = filepath.Join(cfg.StoreDir, KeyFile)
		if of.AnchorKey, err = ownKey(of.AnchorKeyFile); err != nil {
			return of, err
		}
	}
	of.Station, of.Workspace, of.Scripts, of.Sandbox = cfg.Station, cfg.WorkspaceDir, cfg.ScriptsDir, cfg.Sandbox
	of.Agents = cfg.AgentsDir
	if cfg.Listen == "" && !cfg.Console || cfg.Alone {
		of.SandboxReaches = true // nothing listens, so there is nothing that a command could answer a gate at
	}
	return of, nil
}

func (s *Station) start(ctx context.Context) error {
	cfg, err := s.cfg.service()
	if err != nil {
		return err
	}
	if address := s.server.WebSocketAddress(); address != "" {
		cfg.SandboxClosed = append(slices.Clone(cfg.SandboxClosed), address)
	}
	if err := s.setUp(ctx, cfg); err != nil {
		return err
	}
	if s.conn, err = s.users.connect(ctx, local, ""); err != nil {
		return err
	}
	if err := s.revive(ctx); err != nil {
		return err
	}
	if err := s.store.mark(); err != nil {
		return err
	}
	if s.cfg.Still {
		return nil
	}
	if err := s.users.dismiss(); err != nil {
		return err
	}
	if s.Damage().Damaged() {
		return s.refuse(ctx)
	}
	return s.run(ctx, cfg)
}

// setUp makes or updates the streams and registers agents, before anybody else is connected.
func (s *Station) setUp(ctx context.Context, cfg service.Config) error {
	conn, err := s.users.connect(ctx, topology.UpgradeUser, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.durability, err = program.Durability(ctx, conn, s.cfg.LazySync); err != nil {
		return err
	}
	if err := program.SetUp(ctx, conn, cfg, jet.ApplyOptions{Replicas: 1}, s.cfg.Log); err != nil {
		return err
	}
	if err := s.store.compare(ctx, conn); err != nil {
		return err
	}
	s.compared = true
	if !s.cfg.Still {
		st, err := conn.Station(s.cfg.Station)
		if err == nil {
			err = service.Restored(ctx, st.KV(topology.ConfigBucket))
		}
		if err != nil {
			return err
		}
	}
	n, err := s.server.StageInMemory()
	if s.staged = n > 0 && err == nil; err != nil {
		s.cfg.Log.Warn().Err(err).Msg("batches of events are gathered on disk, which is slower and as safe")
	}
	return nil
}

// revive has this station's roles hear at once what those of earlier processes were given: the store is held, so they
// are gone.
func (s *Station) revive(ctx context.Context) error {
	conn, err := s.users.connect(ctx, topology.ReviverUser, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	now, err := s.server.Marks()
	if err != nil {
		return err
	}
	if err := conn.Consumers().PutBack(ctx, s.cfg.Station, now, s.store.behind()); err != nil || s.cfg.Still {
		return err
	}
	return conn.Consumers().RedeliverOpen(ctx, s.cfg.Station)
}

// portsOf connects as each role and puts the local store behind all of them.
func portsOf(ctx context.Context, s *Station) (hub, error) {
	log, err := s.log(ctx)
	if err != nil {
		return nil, err
	}
	every := hub{}
	for _, role := range events.Services() {
		conn, err := s.As(ctx, role)
		if err != nil {
			return nil, err
		}
		st, err := conn.Station(s.cfg.Station)
		if err != nil {
			return nil, err
		}
		p := program.Ports(st, s.durability)
		p.Inbox = st.InboxWithoutLog()
		p.Replayed = s.cfg.Replayed
		every[role] = p
	}
	if s.feed, err = logfeed.New(logfeed.Config{Station: s.cfg.Station, Log: log, Positions: s.eventsConn.Consumers(),
		Inputs: hubInbox{maps.Clone(every)}, Grace: s.eventsConn.DrainGrace(),
		Failed: func(role events.Service, err error) {
			s.cfg.Log.Debug().Err(err).Str("role", string(role)).Msg("log not read or position not stored, will try again")
		}}); err != nil {
		return nil, err
	}
	if s.local, err = localstore.Open(ctx, localstore.Config{Path: filepath.Join(s.cfg.StoreDir, fallbackFile),
		Station: s.cfg.Station, Grace: s.cfg.Base.Drain, Spare: s.store.spareEarlier}); err != nil {
		return nil, err
	}
	// what the roles append at the same time shares batches
	primary := maps.Clone(every).primary(s.roleConns[0], log.Journal(), s.feed)
	if s.cfg.between != nil {
		primary.Journal = s.cfg.between(primary.Journal)
	}
	if s.fallback, err = fallback(ctx, primary, s.local, s.cfg.Log); err != nil {
		return nil, err
	}
	for role, p := range every {
		p = behind(s.fallback, s.local, p)
		p.Journal = author{Journal: p.Journal, role: role}
		p.SubscribeRepublished = s.feed.SubscribeRepublished
		every[role] = p
	}
	return every, s.feed.Open(ctx)
}

// log connects to what all roles append to and receive from.
func (s *Station) log(ctx context.Context) (*jet.Station, error) {
	writer, prefix := topology.Writer(s.cfg.Station)
	conn, err := s.users.connect(ctx, writer.Name, prefix)
	if err != nil {
		return nil, err
	}
	s.eventsConn = conn
	switch {
	case s.cfg.LazySync:
	case s.staged:
		conn.GroupAppends(jet.GroupInMemory)
	default:
		conn.GroupAppends(jet.GroupOnDisk)
	}
	return conn.Station(s.cfg.Station)
}

// run starts the roles and their entries in the list of micro services.
func (s *Station) run(ctx context.Context, cfg service.Config) error {
	ports, err := portsOf(ctx, s)
	if err != nil {
		return err
	}
	first, err := all.NewHost(cfg, all.Ports{Ports: ports[events.Planner]}, s.cfg.Log, s.cfg.Metrics,
		s.cfg.Tools...)
	if err != nil {
		return err
	}
	mode, err := first.Sandboxes(ctx)
	if err != nil {
		return err
	}
	s.sandbox = string(mode)
	work := s.tasks.work()
	s.tasks.running.Go(func() {
		if err := s.fallback.Run(work); err != nil && work.Err() == nil {
			s.tasks.fail(fmt.Errorf("fallback: %w", err))
		}
	})
	s.tasks.running.Go(func() { s.feed.Run(work) })
	s.tasks.running.Go(func() { s.nursed(work) })
	s.tasks.running.Go(func() { s.store.watch(work) })
	s.tasks.running.Go(func() { s.users.follow(work, s.record) })
	if err := answerServer(work, s); err != nil {
		return err
	}
	for i, role := range events.Services() {
		host := first.As(ports[role])
		stop, err := s.roleConns[i].Services().Register(role, service.Version(), host.Status(role))
		if err != nil {
			return fmt.Errorf("announce %s: %w", role, err)
		}
		context.AfterFunc(work, func() { _ = stop() }) // the connection is closed right after
		s.tasks.serve(work, host, role)
	}
	return nil
}

// Failed gives the first failure of a role, if one ever comes.
func (s *Station) Failed() <-chan error { return s.tasks.failed }

// URL for NATS clients; empty where the station does not listen.
func (s *Station) URL() string {
	if s.cfg.Listen == "" || s.server == nil {
		return ""
	}
	return s.server.URL()
}

// Name of the station.
func (s *Station) Name() string { return s.cfg.Station }

// Conn is a connection with the rights of whoever reaches the station's port; nil for a station without NATS.
func (s *Station) Conn() *jet.Conn { return s.conn }

// Durability says when the server acknowledges, for people.
func (s *Station) Durability() string { return s.durability }

// SandboxMode is what tools run in where an agent does not ask for another.
func (s *Station) SandboxMode() string { return s.sandbox }

// Workspace is the root of the workspaces.
func (s *Station) Workspace() string { return s.cfg.WorkspaceDir }

// Close takes no more work, lets what is under way finish within the drain time, and ends the server.
func (s *Station) Close(ctx context.Context) error {
	if s.held != nil { // only whoever has the store
		_ = os.Remove(filepath.Join(s.cfg.StoreDir, RecordFile)) // it is believed by no one once the server is gone
	}
	if s.tasks.cancel != nil {
		s.tasks.cancel()
	}
	s.tasks.running.Wait()
	if s.feed != nil {
		s.feed.Close(ctx)
	}
	for _, conn := range append(s.roleConns, s.eventsConn, s.conn, s.users.people.connection()) {
		if conn != nil {
			conn.Close()
		}
	}
	var errs []error
	if s.local != nil {
		if s.store != nil {
			errs = append(errs, s.store.spared(ctx, s.local))
		}
		errs = append(errs, s.local.Close())
	}
	if s.server != nil {
		errs = append(errs, s.down())
	}
	if s.held != nil {
		errs = append(errs, s.held.Close())
	}
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	return errors.Join(append(errs, s.tasks.failures...)...)
}
