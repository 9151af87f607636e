// Package serve lets a program of others serve its tools over NATS to a station that runs elsewhere.
//
// Promises: Serve answers requests of the station's toolrunners until its context ends. As many programs as one likes
// may serve the same tools: they are one queue group, and each call goes to one of them. Nothing begins before the
// toolrunner has confirmed that it received the acceptance, so a request that no one waits for any more has no effect.
// While a tool works its toolrunner receives a heartbeat; when the call is cancelled, takes too long, or Serve ends,
// the context of the tool ends. Results are bounded. A tool has no workspace and no sandbox here, and sees no NATS.
//
// What a station offers to its agents is not what a server says, but what an operator pinned (inspan tools pin). A
// server whose specification is another one refuses the call.
package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// Config says whose tools are served, and where.
type Config struct {
	// Conn is a connection that is used and left open; nil connects to URL.
	Conn *nats.Conn
	// URL of the NATS servers, User and Password those of the station's user tools, or Creds the path of a credentials
	// file.
	URL, User, Password, Creds string
	// Station that the tools are served to; empty is "default".
	Station string
	// Server names this program and its replicas, [a-z0-9-]{1,32}; the specifications are pinned with it.
	Server string
	// Calls is how many calls this program carries out at a time; 0 is DefaultCalls. A call more is refused, and the
	// toolrunner tries again.
	Calls int
	// Drain is how long calls under way may take after the context of Serve has ended; 0 is DefaultDrain.
	Drain time.Duration
}

// Defaults of a Config.
const (
	DefaultCalls   = 16
	DefaultDrain   = 20 * time.Second
	DefaultStation = "default"
)

// group is the queue group of all servers.
const group = "inspan-tools"

// Serve serves tools until ctx ends and the calls under way have ended too. It returns an error where a tool cannot be
// served, the servers are not reached, or the connection is closed for good; while a connection is lost it waits for
// the next.
func Serve(ctx context.Context, cfg Config, tools ...tool.Tool) error {
	s, err := newServer(cfg, tools)
	if err != nil {
		return err
	}
	gone := make(chan error, 1) // the first reason why the connection does not come back
	if s.nc == nil {
		if s.nc, err = cfg.connect(ctx, gone); err != nil {
			return err
		}
		defer s.nc.Close()
	}
	if err := s.subscribe(); err != nil {
		return errors.Join(err, s.unsubscribe())
	}
	select {
	case <-ctx.Done():
	case err = <-gone:
	}
	return errors.Join(err, s.end())
}

// connect connects as the user of tool servers and goes on trying for as long as ctx lives.
func (c Config) connect(ctx context.Context, gone chan<- error) (*nats.Conn, error) {
	report := func(err error) {
		select {
		case gone <- err:
		default:
		}
	}
	options := []nats.Option{nats.Name("inspan-tools-" + c.Server), nats.MaxReconnects(-1),
		nats.ClosedHandler(func(nc *nats.Conn) {
			report(fmt.Errorf("the connection to NATS is closed: %w", errors.Join(nc.LastError(), nats.ErrConnectionClosed)))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				report(fmt.Errorf("the NATS user may not serve tools to station %s: %w", c.station(), err))
			}
		})}
	if c.User != "" {
		options = append(options, nats.UserInfo(c.User, c.Password))
	}
	if c.Creds != "" {
		options = append(options, nats.UserCredentials(c.Creds))
	}
	if d, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(min(time.Until(d), nats.DefaultTimeout)))
	}
	nc, err := nats.Connect(c.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", redacted(c.URL), err)
	}
	return nc, nil
}

// redacted is an address without the user and password that it may hold.
func redacted(url string) string {
	if scheme, rest, ok := strings.Cut(url, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			return scheme + "://***" + rest[i:]
		}
	}
	return url
}

func (c Config) station() string {
	if c.Station == "" {
		return DefaultStation
	}
	return c.Station
}

// server is a program that serves.
type server struct {
	cfg      Config
	station  string
	instance string
	nc       *nats.Conn
	registry *tool.Registry
	specs    map[string]wire.Spec
	subs     []*nats.Subscription
	slots    chan struct{} // one place for each call that may be under way
	work     context.Context
	giveUp   context.CancelCauseFunc
	calls    sync.WaitGroup
	mu       sync.Mutex
	// open calls by the token of their exchange, and whether no more are taken; guarded by mu.
	open   map[string]*served
	ending bool
}

// newServer checks what is to be served.
func newServer(cfg Config, tools []tool.Tool) (*server, error) {
	if err := events.CheckID("station", cfg.station()); err != nil {
		return nil, err
	}
	if len(tools) == 0 {
		return nil, errors.New("serve: no tools given")
	}
	if cfg.Calls <= 0 {
		cfg.Calls = DefaultCalls
	}
	if cfg.Drain <= 0 {
		cfg.Drain = DefaultDrain
	}
	registry, err := tool.NewRegistry(tools...)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	s := &server{cfg: cfg, station: cfg.station(), instance: cfg.Server + "-" + strings.ToLower(rand.Text()[:6]),
		nc: cfg.Conn, registry: registry,
		specs: map[string]wire.Spec{}, slots: make(chan struct{}, cfg.Calls), open: map[string]*served{}}
	s.work, s.giveUp = context.WithCancelCause(context.Background())
	for _, t := range tools {
		spec, err := wire.Describe(cfg.Server, t.Spec())
		if err != nil {
			return nil, fmt.Errorf("serve: %w", err)
		}
		if _, ok := t.(tool.Verifier); !ok && tool.Effect(spec.Effect) == tool.Reconcilable {
			return nil, fmt.Errorf("serve: tool %s is reconcilable and does not implement tool.Verifier", spec.Name)
		}
		s.specs[spec.Name] = spec
	}
	return s, nil
}

func (s *server) subscribe() error {
	add := func(sub *nats.Subscription, err error) error {
		if err != nil {
			return fmt.Errorf("serve tools: %w", err)
		}
		s.subs = append(s.subs, sub)
		return nil
	}
	// Controls come first: none may be missed once a request was accepted.
	if err := add(s.nc.Subscribe(events.ToolControlSubject(s.station, "*"), s.control)); err != nil {
		return err
	}
	if err := add(s.nc.Subscribe(events.ToolsSubject(s.station), s.describe)); err != nil {
		return err
	}
	for name := range s.specs {
		if err := add(s.nc.QueueSubscribe(events.ToolSubject(s.station, name), group, s.request)); err != nil {
			return err
		}
	}
	return s.nc.Flush()
}

func (s *server) unsubscribe() (err error) {
	for _, sub := range s.subs {
		if e := sub.Unsubscribe(); e != nil && !errors.Is(e, nats.ErrConnectionClosed) && !errors.Is(e,
			nats.ErrBadSubscription) {
			err = errors.Join(err, fmt.Errorf("stop serving: %w", e))
		}
	}
	return err
}

// errEnding is why calls end that were under way when the time to drain was over.
var errEnding = errors.New("the tool server ends")

// end takes no more calls, waits for those under way, and gives up those that take longer than the drain.
func (s *server) end() error {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	for _, sub := range s.subs[1:] { // controls are received until the last call has ended
		_ = sub.Unsubscribe() // it fails only where the connection is closed, and then nothing comes
	}
	late := time.AfterFunc(s.cfg.Drain, func() { s.giveUp(errEnding) })
	s.calls.Wait()
	late.Stop()
	s.giveUp(nil)
	err := s.unsubscribe()
	if e := s.nc.FlushTimeout(time.Second); e != nil && !s.nc.IsClosed() {
		err = errors.Join(err, fmt.Errorf("send the last answers: %w", e))
	}
	return err
}

// describe answers whoever asks what is served, one message for each tool.
func (s *server) describe(m *nats.Msg) {
	if !strings.HasPrefix(m.Reply, events.ToolSpecSubject(s.station, "")) {
		return
	}
	for _, spec := range s.specs {
		_ = s.send(m.Reply, spec) // whoever asks takes no answer for no server
	}
}

// control lets a call begin, or cancels it. It comes to every server, and all but one do not know the call.
func (s *server) control(m *nats.Msg) {
	c, err := wire.Decode[wire.Control](m.Data)
	s.mu.Lock()
	open := s.open[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]
	s.mu.Unlock()
	if err != nil || open == nil {
		return
	}
	switch c.Type {
	case wire.Begin:
		open.begin()
	case wire.Cancel:
		open.cancel(context.Canceled)
	}
}

// request takes a call, or refuses it.
func (s *server) request(m *nats.Msg) {
	token, ours := strings.CutPrefix(m.Reply, events.ToolReplySubject(s.station, ""))
	if !ours || !events.ValidID(token) {
		return // it is not of a toolrunner
	}
	c := &served{s: s, reply: m.Reply, token: token, begun: make(chan struct{})}
	if refused := s.take(c, m); refused != nil {
		// whoever asked takes silence for no server, and tries again
		_ = c.answer(wire.Reply{Type: wire.Refused, Error: refused})
	}
}

// take checks a request and begins to work on it.
func (s *server) take(c *served, m *nats.Msg) *wire.Error {
	r, err := wire.Decode[wire.Request](m.Data)
	if err != nil {
		return &wire.Error{Class: string(tool.Permanent), Message: "the tool server cannot read the request: " + err.Error(),
			Hint: "use the same version of Inspan on both sides"}
	}
	spec, ok := s.specs[r.Tool]
	if !ok || r.Ask != wire.AskRun && r.Ask != wire.AskVerify {
		return &wire.Error{Class: string(tool.Permanent), Message: fmt.Sprintf("the tool server does not have %.80q",
			r.Ask+" "+r.Tool)}
	}
	c.request, c.spec = r, spec
	if r.Digest != spec.Digest {
		return &wire.Error{Class: string(tool.Denied),
			Message: "the specification of the tool is not the one that was pinned"}
	}
	if err := s.registry.Check(r.Tool, r.Input); err != nil {
		return errorOf(err)
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return &wire.Error{Class: string(tool.Transient),
			Message: fmt.Sprintf("the tool server carries out %d calls, which is its limit", cap(s.slots)), RetryAfterMS: 1000}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.open[c.token] != nil {
		<-s.slots
		return &wire.Error{Class: string(tool.Transient), Message: "the tool server ends"}
	}
	work, cancel := context.WithCancelCause(s.work)
	c.cancel = cancel
	s.open[c.token] = c
	s.calls.Go(func() {
		defer func() {
			cancel(nil)
			s.mu.Lock()
			delete(s.open, c.token)
			s.mu.Unlock()
			<-s.slots
		}()
		c.serve(work)
	})
	return nil
}
