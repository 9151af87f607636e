package jet

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet/claims"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// Times of a connection.
const (
	// requestWait is how long an answer of the server is waited for. Behind it the outcome is unknown.
	requestWait = 5 * time.Second
	// DefaultDrainGrace is how long handlers may go on after a listener was told to stop.
	DefaultDrainGrace = 25 * time.Second
	reconnectWait     = 100 * time.Millisecond
	reconnectJitter   = 400 * time.Millisecond
	pingEvery         = 10 * time.Second
)

// Config of a connection. One of URL and InProcess is needed.
type Config struct {
	// URL of one server or several, separated by commas: nats://host:4222.
	URL string
	// InProcess is a server in this process, for example an Embedded. It wins over URL.
	InProcess nats.InProcessConnProvider
	// Name is shown in the server's list of connections.
	Name string
	// Creds is the path of a credentials file, NKey that of a seed file.
	Creds, NKey string
	User        string
	Password    secret.Value
	// Token of the identity provider of the station; TokenFile is the path of one, which is read again for each
	// connection, so that a token that has ended can be replaced.
	Token     secret.Value
	TokenFile string
	TLS       *tls.Config
	// InboxPrefix is where answers go: topology.InboxPrefix for a service with permissions of its own. The default is
	// "_INBOX".
	InboxPrefix string
	// Monitors are base URLs of monitoring ports, http://host:8222, to read the durability of all servers from.
	Monitors []string
	// Buckets are the names of the station's buckets; the zero value means the defaults.
	Buckets topology.Buckets
	// DrainGrace is 0 for DefaultDrainGrace.
	DrainGrace time.Duration
	// Log may be the zero value, which is silent.
	Log zerolog.Logger
}

// Embedded is a server in this process that reports on itself without a request.
type Embedded interface {
	nats.InProcessConnProvider
	// Durability is what it does before it acknowledges, Fills are the limits of its storage.
	Durability() ServerDurability
	Fills() []kernel.Fill
}

// Conn is a connection to a NATS account with JetStream. It is safe for concurrent use.
type Conn struct {
	cfg    Config
	nc     *nats.Conn
	js     jetstream.JetStream
	denied denials
	// bound are the key-value buckets that were opened.
	bound boundBuckets
	// grouping is the Grouping that GroupAppends said.
	grouping atomic.Int32
	// grouped counts the appends that batches stored.
	grouped atomic.Uint64

	mu sync.Mutex
	// up is closed while connected, guarded by mu; epoch counts connections.
	up    chan struct{}
	isUp  bool
	epoch uint64
	// groups by stream, guarded by mu.
	groups map[string]*group
}

// ErrDenied means that the server does not permit this user to publish on a subject.
var ErrDenied = errors.New("not permitted by the server")

// ErrUnauthorized means that the server does not know this user.
var ErrUnauthorized = errors.New("the server refused the credentials: check user and password, or the credentials file")

// ErrCredentials means that a credentials file is missing, not whole or expired.
var ErrCredentials = claims.ErrBadCredentials

// Connect connects, and keeps trying until ctx ends or the server refuses the credentials. Afterwards the connection
// comes back by itself, for ever. Close must be called.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	if cfg.URL == "" && cfg.InProcess == nil {
		return nil, errors.New("connect: no server given: set a URL such as nats://127.0.0.1:4222")
	}
	if cfg.DrainGrace <= 0 {
		cfg.DrainGrace = DefaultDrainGrace
	}
	c := &Conn{cfg: cfg, up: make(chan struct{}), groups: make(map[string]*group)}
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		c.nc, err = nats.Connect(cfg.address(), opts...)
		if err == nil {
			break
		}
		if refused(err) {
			return nil, fmt.Errorf("connect to %s: %w: %w", cfg.where(), ErrUnauthorized, cfg.refusal(err))
		}
		cfg.Log.Warn().Err(err).Dur("again_in", wait).Msg("no connection to nats, will try again")
		if sleepErr := kernel.Sleep(ctx, wait); sleepErr != nil {
			return nil, fmt.Errorf("connect to %s: %w (last: %w)", cfg.where(), sleepErr, err)
		}
	}
	if c.js, err = jetstream.New(c.nc, jetstream.WithDefaultTimeout(requestWait)); err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return c, c.Ready(ctx)
}

// refusal adds to the server's refusal what the credentials file itself shows: the server does not say why.
func (cfg Config) refusal(err error) error {
	if cfg.Creds == "" {
		return err
	}
	known, bad := claims.ReadCredentials(cfg.Creds, time.Now())
	if bad != nil {
		return fmt.Errorf("%w: %w", err, bad)
	}
	return fmt.Errorf("%w: %s are whole and not expired, for user %s (%s) of account %s: the user is revoked, the account is not one of this server, or the server lacks its newest claims; inspan nats-accounts makes and lists them",
		err, cfg.Creds, known.Name, known.User, known.Account)
}

// refused reports whether the server does not want us. A server in this process only closes the pipe: its words are
// lost, because both sides of a pipe write at the same time.
func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired) ||
		errors.Is(err, io.ErrClosedPipe)
}

func (cfg Config) where() string {
	if cfg.InProcess != nil {
		return "the server in this process"
	}
	return redactURL(cfg.URL)
}

// address is where to connect to. A login that is given beside it takes the place of one in it, which the client would
// prefer.
func (cfg Config) address() string {
	if cfg.User == "" && cfg.Creds == "" && cfg.NKey == "" && cfg.Token.Empty() && cfg.TokenFile == "" {
		return cfg.URL
	}
	all := strings.Split(cfg.URL, ",")
	for i, one := range all {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil && u.User != nil {
			u.User = nil
			all[i] = u.String()
		}
	}
	return strings.Join(all, ",")
}

func (c *Conn) options() ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(c.cfg.Name), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(c.asyncError), nats.ConnectHandler(func(*nats.Conn) { c.setUp(true) }),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.denied.hearing()
			c.setUp(true)
			c.cfg.Log.Info().Msg("connected to nats again")
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.setUp(false)
			if err != nil {
				c.cfg.Log.Warn().Err(err).Msg("connection to nats lost, will try again")
			}
		}),
	}
	if c.cfg.InProcess != nil {
		opts = append(opts, nats.InProcessServer(c.cfg.InProcess))
	}
	if c.cfg.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.cfg.InboxPrefix))
	}
	if c.cfg.Creds != "" {
		if _, err := claims.ReadCredentials(c.cfg.Creds, time.Now()); err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserCredentials(c.cfg.Creds)) // which reads the file again for each connection
	}
	if c.cfg.NKey != "" {
		nkey, err := nats.NkeyOptionFromSeed(c.cfg.NKey)
		if err != nil {
			return nil, fmt.Errorf("read the nkey seed file %s: %w", c.cfg.NKey, err)
		}
		opts = append(opts, nkey)
	}
	if c.cfg.User != "" {
		opts = append(opts, nats.UserInfo(c.cfg.User, c.cfg.Password.Reveal()))
	}
	if !c.cfg.Token.Empty() {
		opts = append(opts, nats.Token(c.cfg.Token.Reveal()))
	}
	if c.cfg.TokenFile != "" {
		if _, err := readToken(c.cfg.TokenFile); err != nil {
			return nil, err
		}
		opts = append(opts, nats.TokenHandler(func() string {
			token, err := readToken(c.cfg.TokenFile)
			if err != nil {
				c.cfg.Log.Warn().Err(err).Msg("no token to sign in with")
			}
			return token
		}))
	}
	if c.cfg.TLS != nil {
		opts = append(opts, nats.Secure(c.cfg.TLS))
	}
	return opts, nil
}

// maxToken is the most bytes of the file of a token.
const maxToken = 16 << 10

// readToken reads the file of a token.
func readToken(path string) (string, error) {
	b, err := disk.ReadAtMost(path, maxToken)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return "", fmt.Errorf("read the token: %s is empty", path)
	}
	return string(b), nil
}

// Close ends the connection after what was published is on its way.
func (c *Conn) Close() {
	_ = c.nc.FlushTimeout(time.Second) // what could not be flushed is received again or was not promised
	c.nc.Close()
}

// GroupAppends says which appends that wait for the server are sent as batches. It pays where a server without
// replicas writes to disk before it acknowledges: it does that once for a batch. Elsewhere a batch costs more than
// its appends one by one. The outcome of an append is the same either way. The default is GroupNone.
func (c *Conn) GroupAppends(how Grouping) { c.grouping.Store(int32(how)) }

// Grouped counts the appends that were stored by batches since the connection was made.
func (c *Conn) Grouped() uint64 { return c.grouped.Load() }

// group returns where the appends to a stream are gathered.
func (c *Conn) group(j journal) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[j.stream]
	if g == nil {
		g = &group{j: j}
		c.groups[j.stream] = g
	}
	return g
}

// DrainGrace is how long handlers may go on after a listener was told to stop.
func (c *Conn) DrainGrace() time.Duration { return c.cfg.DrainGrace }

// Connected reports whether there is a connection at the moment.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Ready waits until there is a connection, or ctx ends.
func (c *Conn) Ready(ctx context.Context) error {
	c.mu.Lock()
	up := c.up
	c.mu.Unlock()
	select {
	case <-up:
		return nil
	default:
	}
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no connection to %s: %w", c.cfg.where(), context.Cause(ctx))
	}
}

func (c *Conn) setUp(up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case up && !c.isUp:
		close(c.up)
		c.epoch++
	case !up && c.isUp:
		c.up = make(chan struct{})
	}
	c.isUp = up
}

// connections counts how often the connection was made.
func (c *Conn) connections() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}
