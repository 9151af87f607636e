// Package natsserver runs a NATS server in this process: for a station of its own, and for tests.
//
// Promises: it has written to disk what it acknowledges unless LazySync says otherwise. Only the users of its
// configuration are let in. It needs no port. What it knows of itself (durability, storage, positions of its streams)
// it reports without a request. Shutdown returns when its files are closed. The client side is package jet, which links
// no server.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/inspan/inspan/internal/jet"
)

// Config of a NATS server in this process. Only StoreDir is needed.
type Config struct {
	Name string
	// StoreDir is where the streams are kept.
	StoreDir string
	// Host and Port to listen on; Port 0 is not to listen at all, -1 is any free port. Host is 127.0.0.1 if empty.
	Host string
	Port int
	// WebSocketPort of 127.0.0.1 takes NATS over WebSocket, from programs and no web page; 0 is none, -1 any free port.
	WebSocketPort int
	// MonitorPort serves the server's monitoring pages; 0 is none, -1 any free port.
	MonitorPort int
	// LazySync leaves it to the server to write to disk within two minutes: what is acknowledged before that does not
	// survive a power cut. The default is to write before acknowledging.
	LazySync bool
	// MaxPayload is the most bytes of one message, 0 for the server's 1 MiB; MaxStore those of all streams, 0 for
	// three quarters of what is free.
	MaxPayload int32
	MaxStore   int64
	// Accounts are accounts and users in the form of a server's configuration, see topology.Accounts. Guest is the one
	// of these users that a client without credentials is; empty lets no such client in.
	Accounts string
	Guest    string
	// Users, if there are any, are the only ones who may connect. SystemUser is the one of the system account.
	Users      []User
	SystemUser User
	// Cluster makes it a member of a cluster of servers; then it must listen.
	Cluster Cluster
	// LogWriter gets the server's log; nil is silent. Secrets are not logged.
	LogWriter io.Writer
}

// User of a server in this process.
type User struct {
	Name, Password string
	// Publish and Subscribe list what is allowed; both empty allows everything.
	Publish, Subscribe []string
}

// Cluster says which servers form one.
type Cluster struct {
	Name string
	// Port for the other members on 127.0.0.1 or Host, Routes their addresses, "host:port".
	Port   int
	Routes []string
}

// maxControlLine is the most bytes of a line of the protocol. A client sends a token of an identity provider in one,
// and those have several KiB where they list groups.
const maxControlLine = 16 << 10

// startWait is how long a server may take from its streams being there to taking connections: next to nothing, but on a
// machine that is busy with something else.
const startWait = 2 * time.Minute

// Server is a NATS server in this process. Its connections need no port: give it to jet.Config.InProcess.
type Server struct {
	cfg Config
	mu  sync.Mutex
	// ns is guarded by mu, as is serves: it has started, and no one has shut it down.
	ns     embedded
	serves bool
}

// embedded is a *server.Server. A Server does not name that type, neither here nor in a method: each package that
// knows Server would compile the generic types below it once more, a second of CPU each.
type embedded interface {
	Shutdown()
	WaitForShutdown()
}

func now(s *Server) *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns.(*server.Server) //nolint:forcetypeassert // start sets no other
}

func (s *Server) serving(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves = now
}

// Start starts a server and waits until it can be connected to. Shutdown must be called.
func Start(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

// Restart starts a server that was shut down again, on the same files and at the same address. Who is connected within
// this process finds it by itself.
func (s *Server) Restart() error {
	if a, ok := now(s).Addr().(*net.TCPAddr); ok && s.cfg.Port != 0 {
		s.cfg.Port = a.Port
	}
	if _, port, err := net.SplitHostPort(s.WebSocketAddress()); err == nil {
		s.cfg.WebSocketPort, _ = strconv.Atoi(port) // the server wrote it
	}
	return s.start()
}

func (s *Server) start() error {
	cfg := s.cfg
	opts, err := options(cfg)
	if err != nil {
		return err
	}
	if err := free(opts); err != nil {
		return err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("nats server: %w", err)
	}
	if cfg.LogWriter != nil {
		ns.SetLoggerV2(&lineLogger{w: cfg.LogWriter}, false, false, false)
	}
	s.mu.Lock()
	s.ns = ns
	s.mu.Unlock()
	ns.Start()
	if !ns.ReadyForConnections(startWait) {
		s.Shutdown()
		return fmt.Errorf("nats server: not ready after %s: see its log", startWait)
	}
	if !ns.JetStreamEnabled() {
		s.Shutdown()
		return fmt.Errorf("nats server: JetStream did not start: check that %s is writable and has free space", cfg.StoreDir)
	}
	s.serving(true)
	return nil
}

// ErrPortInUse means that another process listens where a server is to listen.
var ErrPortInUse = errors.New("another process listens there")

// free finds an address that cannot be listened at before the server starts: the server itself says so in its log
// alone.
func free(o *server.Options) error {
	if o.DontListen || o.Port <= 0 {
		return nil
	}
	address := net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("nats server: port %d of %s is in use: %w", o.Port, o.Host, ErrPortInUse)
	}
	if err != nil {
		return fmt.Errorf("nats server: listen at %s: %w", address, err)
	}
	return l.Close()
}

func options(cfg Config) (*server.Options, error) {
	if cfg.StoreDir == "" {
		return nil, errors.New("nats server: no store directory given")
	}
	host := cfg.Host
	if host == "" {
		host = "127.0.0.1"
	}
	o := &server.Options{
		ServerName: cfg.Name, Host: host, Port: cfg.Port, DontListen: cfg.Port == 0, NoSigs: true,
		NoLog:     cfg.LogWriter == nil,
		JetStream: true, StoreDir: cfg.StoreDir, SyncAlways: !cfg.LazySync, JetStreamMaxStore: cfg.MaxStore,
		MaxPayload: cfg.MaxPayload, MaxControlLine: maxControlLine, HTTPHost: host, HTTPPort: cfg.MonitorPort,
		DisableJetStreamBanner: true,
	}
	if cfg.Port == 0 {
		o.Port = -1
	}
	webSocket(cfg, o)
	if err := authorize(cfg, o); err != nil {
		return nil, err
	}
	if cfg.Cluster.Name == "" {
		return o, nil
	}
	if cfg.Name == "" || cfg.Port == 0 {
		return nil, errors.New("nats server: a cluster member needs a name and a listen port, -1 for any port")
	}
	o.Cluster = server.ClusterOpts{Name: cfg.Cluster.Name, Host: host, Port: cfg.Cluster.Port}
	for _, r := range cfg.Cluster.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: r})
	}
	return o, nil
}

// authorize lets only the users in. They are in the global account, the system user in the system account.
func authorize(cfg Config, o *server.Options) error {
	if cfg.Accounts != "" {
		if err := o.ProcessConfigString(cfg.Accounts); err != nil {
			return fmt.Errorf("nats server: accounts: %w", err)
		}
		o.NoAuthUser = cfg.Guest
	}
	for _, u := range cfg.Users {
		nu := &server.User{Username: u.Name, Password: u.Password}
		if len(u.Publish)+len(u.Subscribe) > 0 {
			nu.Permissions = &server.Permissions{
				Publish: &server.SubjectPermission{Allow: u.Publish}, Subscribe: &server.SubjectPermission{Allow: u.Subscribe},
			}
		}
		o.Users = append(o.Users, nu)
	}
	if u := cfg.SystemUser; u.Name != "" {
		system := server.NewAccount(server.DEFAULT_SYSTEM_ACCOUNT)
		o.Accounts, o.SystemAccount = []*server.Account{system}, server.DEFAULT_SYSTEM_ACCOUNT
		o.Users = append(o.Users, &server.User{Username: u.Name, Password: u.Password, Account: system})
	}
	return nil
}

// SetAccounts changes the accounts and users of a server that runs. Who is no longer among the users is disconnected,
// the others notice nothing. guest is as in Config: it may be taken away, and not be given to a server that has none.
func (s *Server) SetAccounts(accounts, guest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cfg := s.cfg
	cfg.Accounts, cfg.Guest = accounts, guest
	opts, err := options(cfg)
	if err != nil {
		return err
	}
	if err := s.ns.(*server.Server).ReloadOptions(opts); err != nil { //nolint:forcetypeassert // see now
		return fmt.Errorf("nats server: change its users: %w", err)
	}
	s.cfg = cfg
	return nil
}

// Shutdown ends the server and waits until it has let go of its files.
func (s *Server) Shutdown() {
	s.serving(false)
	ns := now(s)
	ns.Shutdown()
	ns.WaitForShutdown()
	s.dropStaging()
}

// InProcessConn connects without a port.
func (s *Server) InProcessConn() (net.Conn, error) { return now(s).InProcessConn() }

// URL returns where the server listens, "" if it does not.
func (s *Server) URL() string {
	if s.cfg.Port == 0 {
		return ""
	}
	return now(s).ClientURL()
}

// MonitorURL returns where its monitoring pages are, "" if there are none.
func (s *Server) MonitorURL() string {
	if a := now(s).MonitorAddr(); a != nil {
		return "http://" + a.String()
	}
	return ""
}

// ClusterAddress returns where the other members reach it.
func (s *Server) ClusterAddress() string {
	if a := now(s).ClusterAddr(); a != nil {
		return a.String()
	}
	return ""
}

// Connect connects to the server within this process. The zero jet.Config is enough where there are no users.
func (s *Server) Connect(ctx context.Context, cfg jet.Config) (*jet.Conn, error) {
	cfg.InProcess = s
	return jet.Connect(ctx, cfg)
}
