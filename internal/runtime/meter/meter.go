// Package meter is where a program of others asks its model: an HTTP endpoint that passes requests on to the provider.
//
// Promises: the program has a token that is good here, for as long as its call runs; the key of the provider is added
// here. Before a request is passed on, what it may use is set aside, and its output is limited to that; after the
// answer that is replaced by what the provider counted. A request that does not fit is refused with an error in the
// form of the provider, and so is every path that is not known to be counted. Close returns when no request is left.
package meter

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	// MaxRequest is the most bytes of a request.
	MaxRequest = 32 << 20
	// settleWait bounds how long it takes to record what an answer used, once its call has ended.
	settleWait = 10 * time.Second
	// headWait bounds how long a provider may take to begin an answer.
	headWait = 15 * time.Minute
)

// Config of a Meter.
type Config struct {
	Model events.RuntimeModel
	// URL of the provider, and its key.
	URL string
	Key secret.Value
	// Inner records what is set aside and used.
	Inner tool.Inner
	// Asks is called when a request is passed on, and what it returns when that has ended; nil does nothing.
	Asks func() (answered func())
	// Transport sends requests; nil sends them by itself, and through no proxy.
	Transport http.RoundTripper
}

// Meter implements http.Handler for the program of one call.
type Meter struct {
	cfg   Config
	form  form
	url   *url.URL
	token string
	life  context.Context
	end   context.CancelFunc
	mu    sync.Mutex
	// Guarded by mu.
	closed  bool
	serving sync.WaitGroup
}

var _ http.Handler = (*Meter)(nil)

// New checks the configuration. ctx is that of the call.
func New(ctx context.Context, cfg Config) (*Meter, error) {
	f, ok := forms[cfg.Model.API]
	if !ok {
		return nil, fmt.Errorf("no form of requests is called %.64q", cfg.Model.API)
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the address of the model is no URL of http or https") // it is not repeated: it may be a secret
	}
	if cfg.Key.Reveal() == "" {
		return nil, errors.New("the key of the model is empty")
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{DisableCompression: true, ForceAttemptHTTP2: true, ResponseHeaderTimeout: headWait,
			IdleConnTimeout: time.Minute}
	}
	m := &Meter{cfg: cfg, form: f, url: u, token: rand.Text()}
	m.life, m.end = context.WithCancel(ctx)
	return m, nil
}

// Env are the variables of the program, where the Meter is served at an address.
func (m *Meter) Env(base string) []string {
	return []string{m.cfg.Model.BaseEnv + "=" + base + m.form.prefix, m.cfg.Model.KeyEnv + "=" + m.token}
}

// Close ends all requests and refuses those that come later.
func (m *Meter) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.serving.Wait()
	if t, ok := m.cfg.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

func (m *Meter) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.serving.Add(1)
	return true
}

// ServeHTTP implements http.Handler.
func (m *Meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !m.enter() {
		m.refuse(w, refusal{http.StatusServiceUnavailable, "api_error", "the call has ended"})
		return
	}
	defer m.serving.Done()
	if !m.knows(r) {
		m.refuse(w, refusal{http.StatusUnauthorized, "authentication_error", "the token is not that of a call that runs"})
		return
	}
	if m.cfg.Asks != nil {
		defer m.cfg.Asks()()
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	path, ok := strings.CutPrefix(r.URL.Path, m.form.prefix)
	if !ok || strings.Contains(path, "..") || strings.Contains(r.URL.EscapedPath(), "%") {
		m.refuse(w, unknownPath)
		return
	}
	if r.Method == http.MethodGet && m.form.free(path) {
		_, _ = m.pass(ctx, w, r, path, nil, nil)
		return
	}
	k := m.form.kindOf(path)
	if r.Method != http.MethodPost || k == nil {
		m.refuse(w, unknownPath)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
	if err != nil {
		m.refuse(w, refusal{http.StatusRequestEntityTooLarge, "request_too_large",
			fmt.Sprintf("the request cannot be read, or has more than %d bytes", MaxRequest)})
		return
	}
	if _, free := k.(tally); free {
		_, _ = m.pass(ctx, w, r, path, body, nil)
		return
	}
	m.ask(ctx, w, r, path, k, body)
}

// knows reports whether a request has the token, in whichever place programs put it.
func (m *Meter) knows(r *http.Request) bool {
	_, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for _, given := range []string{r.Header.Get("X-Api-Key"), bearer, r.Header.Get("X-Goog-Api-Key"),
		r.URL.Query().Get("key")} {
		if subtle.ConstantTimeCompare([]byte(given), []byte(m.token)) == 1 {
			return true
		}
	}
	return false
}

// ask passes on a request that is counted.
func (m *Meter) ask(ctx context.Context, w http.ResponseWriter, r *http.Request, path string, k kind, body []byte) {
	doc, err := parse(k, path, body)
	if err != nil {
		m.refuse(w, refusal{http.StatusBadRequest, "invalid_request_error", err.Error()})
		return
	}
	q := tool.InnerRequest{API: m.cfg.Model.API, Model: doc.model, Bytes: len(body), Output: doc.output * doc.answers}
	g, err := m.cfg.Inner.Reserve(ctx, q)
	if err != nil {
		m.refuse(w, refusal{http.StatusServiceUnavailable, "api_error", "the station could not record the request"})
		return
	}
	if g.Refused == "" && g.Output < doc.answers {
		g.Refused = "less is left than one token for each answer"
		m.settle(q, g, tool.InnerUse{})
	}
	if g.Refused != "" {
		m.refuse(w, refusal{http.StatusPaymentRequired, m.form.spent, "refused by the station: " + g.Refused})
		return
	}
	use := tool.InnerUse{Unknown: true}
	defer func() { m.settle(q, g, use) }()
	sent, err := doc.limited(g.Output / doc.answers)
	if err != nil {
		use = tool.InnerUse{}
		m.refuse(w, refusal{http.StatusBadRequest, "invalid_request_error", err.Error()})
		return
	}
	count := &counter{kind: k}
	status, err := m.pass(ctx, w, r, path, sent, count)
	switch {
	case status >= 400: // it was not answered
		use = tool.InnerUse{}
	case err == nil:
		use = count.use()
	}
}

// settle records what a request used, also where its call has just ended.
func (m *Meter) settle(q tool.InnerRequest, g tool.InnerGrant, u tool.InnerUse) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.life), settleWait)
	defer cancel()
	_ = m.cfg.Inner.Settle(ctx, q, g, u) // without it what was set aside counts
}

// passed are the headers that go on to the provider, answered those that come back.
var (
	passed = []string{"Accept", "Content-Type", "User-Agent", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta",
		"Anthropic-Dangerous-Direct-Browser-Access", "X-App"}
	answered = []string{"Content-Type", "Request-Id", "X-Request-Id", "Retry-After", "X-Should-Retry"}
)

// pass sends a request and copies the answer. status is 0 where there was none; the error says that the answer did not
// come whole.
func (m *Meter) pass(ctx context.Context, w http.ResponseWriter, r *http.Request, path string, body []byte,
	count *counter) (status int, err error) {
	to := *m.url
	to.Path = strings.TrimSuffix(to.Path, "/") + path
	query := r.URL.Query()
	query.Del("key")
	to.RawQuery = query.Encode()
	out, err := http.NewRequestWithContext(ctx, r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		m.refuse(w, unknownPath)
		return 0, err
	}
	for _, name := range passed {
		if v := r.Header.Get(name); v != "" {
			out.Header.Set(name, v)
		}
	}
	out.Header.Set(m.form.keyHeader, m.form.keyBefore+m.cfg.Key.Reveal())
	resp, err := m.cfg.Transport.RoundTrip(out)
	if err != nil {
		m.refuse(w, refusal{http.StatusBadGateway, "api_error", "the provider of the model does not answer"})
		return 0, errors.New("the provider of the model does not answer") // the error has its address
	}
	defer func() { _ = resp.Body.Close() }()
	for _, name := range answered {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if count != nil {
		count.begin(resp.Header.Get("Content-Type"))
	}
	return resp.StatusCode, m.copy(w, resp.Body, count)
}

// copy passes an answer on as it comes. A secret of the provider in it is masked where it stands in one piece.
func (m *Meter) copy(w http.ResponseWriter, body io.Reader, count *counter) error {
	flush := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	key := []byte(m.cfg.Key.Reveal())
	gone := false
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if count != nil {
				count.add(buf[:n])
			}
			if !gone { // what the program does not read any more is counted all the same
				_, bad := w.Write(bytes.ReplaceAll(buf[:n], key, bytes.Repeat([]byte("*"), len(key))))
				gone = bad != nil || flush.Flush() != nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New("the answer of the provider was cut")
		}
	}
}
