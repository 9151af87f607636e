// Package gateway serves a station over HTTP: runs, their events and gates, lists, and webhooks, its agents as tools
// of the Model Context Protocol, as models of OpenAI's API and as agents of A2A and AG-UI, and the web console.
//
// Promises: it is a client of the station as any other and has no powers of its own. Every request needs a token with
// the right scope, or, for a webhook, a signature. The run of an Idempotency-Key and that of a webhook's call have ids
// made of these, so a request that comes again starts nothing. What it says of who answers a gate is recorded as its
// word and counts nowhere as proof. Each request is bounded in bytes, time and number; a client that reads nothing is
// dropped.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/agentbus"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/services/gateway/tokens"
	"github.com/inspan/inspan/services/gateway/webhook"
)

// Config of a gateway. Client and Tokens are needed.
type Config struct {
	Client *client.Client
	// Tokens is the list of tokens as it is at the moment.
	Tokens func() (tokens.List, error)
	// Bearer, which may be nil, says what the bearer tokens of others let their owners do. Its error is
	// oidc.ErrUnavailable where that is not known.
	Bearer func(ctx context.Context, secret string) (tokens.Token, error)
	// Person, which may be nil, connects to the station with a bearer token of others, as whose it is: what is answered
	// over that connection is proven. The client must be closed.
	Person func(ctx context.Context, secret string) (Answerer, error)
	// TLS, which may be nil, has the gateway speak TLS.
	TLS   *tls.Config
	Hooks []*webhook.Hook
	// Console, which may be nil, has the gateway serve the web console.
	Console *Console
	// Agents, which may be nil, has the gateway answer prompts of the Synadia Agent Protocol there.
	Agents agentbus.Bus
	// Program is the version of this program, as Agents wants to know it.
	Program string
	// Origins of web pages that may use the gateway, such as https://console.example.com. Requests from pages of others
	// are refused.
	Origins []string
	// Rate is how many requests a second a token has, and each webhook; 0 is DefaultRate. Twice as many may come at once.
	Rate float64
	// Streams is how many requests may wait at the same time for events or an end; 0 is DefaultStreams. One token may have
	// a quarter of them.
	Streams int
	// Observe, which may be nil, is called with each request: the pattern of its route, its status and how long it took.
	Observe func(route string, status int, took time.Duration)
	// Failed, which may be nil, is called with failures that are not reported to the caller.
	Failed func(route string, err error)
	// Heartbeat is how often a stream says that it is alive; 0 is 15 s. WriteWait is how long a client may take to read;
	// 0 is 15 s. RequestWait is how long a request may take that waits for nothing; 0 is 30 s.
	Heartbeat, WriteWait, RequestWait time.Duration
}

// Answerer is a connection of a person.
type Answerer interface {
	Gates() client.Gates
	Close()
}

// Limits of a gateway.
const (
	DefaultRate    = 50
	DefaultStreams = 1024
	// maxHeader and maxBody are the most bytes of the header and of the body of a request, maxPayload of the body of a
	// call of a webhook.
	maxHeader  = 16 << 10
	maxBody    = 256 << 10
	maxPayload = 1 << 20
	// maxConns is how many connections there are at a time.
	maxConns = 4096
	// headerWait is how long the header of a request may take, idleWait how long a connection is kept for the next one,
	// and stopWait how long requests under way may take at the end.
	headerWait = 5 * time.Second
	idleWait   = 30 * time.Second
	stopWait   = 5 * time.Second
	// shortWait is Heartbeat and WriteWait where none is given, requestWait RequestWait.
	shortWait   = 15 * time.Second
	requestWait = 30 * time.Second
)

// Gateway serves one station.
type Gateway struct {
	cfg     Config
	client  *client.Client
	mux     *http.ServeMux
	hooks   map[string]*webhook.Hook
	unknown *webhook.Hook
	limits  *limits
	mcp     *mcpServer
	// stopping is closed once no more is to be waited for.
	stopping chan struct{}
	stop     func()
}

// New makes a gateway.
func New(cfg Config) (*Gateway, error) {
	if cfg.Client == nil || cfg.Tokens == nil {
		return nil, errors.New("a gateway needs a client and a list of tokens")
	}
	for i, o := range cfg.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || o != u.Scheme+"://"+u.Host || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("origin %q: want the beginning of an address, such as https://console.example.com", o)
		}
		cfg.Origins[i] = strings.ToLower(o)
	}
	if cfg.Rate < 0 || cfg.Streams < 0 {
		return nil, errors.New("the limits of a gateway are above zero")
	}
	if cfg.Rate == 0 {
		cfg.Rate = DefaultRate
	}
	if cfg.Streams == 0 {
		cfg.Streams = DefaultStreams
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = shortWait
	}
	if cfg.WriteWait == 0 {
		cfg.WriteWait = shortWait
	}
	if cfg.RequestWait == 0 {
		cfg.RequestWait = requestWait
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string, int, time.Duration) {}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string, error) {}
	}
	g := &Gateway{cfg: cfg, client: cfg.Client, mux: http.NewServeMux(), hooks: map[string]*webhook.Hook{},
		unknown: webhook.Unknown(), limits: newLimits(cfg.Rate, cfg.Streams), stopping: make(chan struct{})}
	g.stop = sync.OnceFunc(func() { close(g.stopping) })
	g.mcp = newMCP(g)
	for _, h := range cfg.Hooks {
		g.hooks[h.Name] = h
	}
	for _, r := range routes() {
		g.mux.Handle(r.method+" "+r.path, g.handler(r))
	}
	if cfg.Console != nil {
		return g, serveConsole(g)
	}
	return g, nil
}

// Serve answers at a listener until ctx ends. Then it takes no more requests, ends streams, lets the others finish for
// a moment, and returns.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: g, ReadHeaderTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader,
		ErrorLog: quiet(), BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
	answering, unprompt := context.WithCancel(context.WithoutCancel(ctx))
	l = bounded(l, maxConns)
	if g.cfg.TLS != nil {
		l = tls.NewListener(l, g.cfg.TLS) // a handshake may take as long as a header
	}
	served := make(chan error, 1) // its only value: no one may be there to take it
	var serving sync.WaitGroup
	serving.Go(func() { served <- srv.Serve(l) })
	serving.Go(func() { answerPrompts(answering, g) })
	defer serving.Wait()
	defer unprompt()
	select {
	case err := <-served:
		return fmt.Errorf("gateway: %w", err)
	case <-ctx.Done():
	}
	g.stop()
	unprompt()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	err := srv.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	g.mcp.close()
	return err
}

// ServeHTTP answers one request. What is wrong with its form is refused before anything is looked up.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, out := time.Now(), &recorder{ResponseWriter: w}
	route := "none"
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler { //nolint:errorlint // it is a value to panic with
				panic(v)
			}
			g.cfg.Failed(route, fmt.Errorf("panic: %v", v))
			g.refuse(out, r, route, &Problem{Status: http.StatusInternalServerError, Code: "internal"})
		}
		g.cfg.Observe(route, out.status, time.Since(began))
	}()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	// A request is read and answered within this time; who waits for something longer says so.
	within := http.NewResponseController(w)
	if err := errors.Join(within.SetReadDeadline(began.Add(g.cfg.RequestWait)),
		within.SetWriteDeadline(began.Add(g.cfg.RequestWait+g.cfg.WriteWait))); err != nil {
		g.cfg.Failed(route, err)
	}
	if ofConsole(g, r) || ofSignIn(g, r) {
		route = consolePath
		g.mux.ServeHTTP(out, r)
		return
	}
	if p := g.page(out, r); p != nil {
		g.refuse(out, r, route, p)
		return
	}
	if r.Method == http.MethodOptions && r.Header.Get("Origin") != "" {
		out.WriteHeader(http.StatusNoContent)
		return
	}
	_, pattern := g.mux.Handler(r)
	if pattern == "" || !clean(r.URL) { // the mux would redirect to the clean path
		g.refuse(out, r, route, g.missing(out, r))
		return
	}
	route = pattern
	g.mux.ServeHTTP(out, r)
}

// page refuses a request of a web page that is none of the origins, and answers the others what a browser asks for.
func (g *Gateway) page(w http.ResponseWriter, r *http.Request) *Problem {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			return &Problem{Status: http.StatusForbidden, Code: "origin"}
		}
		return nil
	}
	if len(origins) != 1 || !slices.Contains(g.cfg.Origins, strings.ToLower(origins[0])) {
		return &Problem{Status: http.StatusForbidden, Code: "origin",
			Hint: "an operator can add the origin of the page to INSPAN_GATEWAY_ORIGINS"}
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Add("Vary", "Origin")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, "+
			"Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, A2A-Version, A2A-Extensions")
		h.Set("Access-Control-Max-Age", "600")
	} else {
		h.Set("Access-Control-Expose-Headers", "Location, Retry-After, Mcp-Session-Id")
	}
	return nil
}

// missing says that there is nothing at a path, to those who have a token; others do not learn what there is.
func (g *Gateway) missing(w http.ResponseWriter, r *http.Request) *Problem {
	if _, p := g.token(r, ""); p != nil {
		return p
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := g.mux.Handler(other); pattern != "" && clean(r.URL) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return &Problem{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Hint: "use " + strings.Join(allowed,
			" or ")}
	}
	return &Problem{Status: http.StatusNotFound, Code: "not_found", Hint: "GET /api/v1/openapi.json lists what there is"}
}

// clean reports whether a path is in the one form that the routes have.
func clean(u *url.URL) bool {
	return !strings.Contains(u.Path, "//") && !strings.Contains(u.Path, "\x00") && !strings.Contains(u.Path, "\\") &&
		!slices.ContainsFunc(strings.Split(u.Path, "/"), func(part string) bool { return part == "." || part == ".." })
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
