package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/inspan/inspan/internal/oauth"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// maxResumes is how often the library tries to get at the rest of an answer whose stream ended before it was whole, one
// try after the other that brings nothing. That sends no call again: it asks for what comes after the last event, where
// the server gave that an id. resumeAfter is the least time before each try, whatever the server asks for.
const (
	maxResumes  = 5
	resumeAfter = 100 * time.Millisecond
)

// lastEvent is the header of a request for the rest of a stream.
const lastEvent = "Last-Event-ID"

// overHTTP speaks streamable HTTP with a server. Redirects are not followed: they would carry the headers elsewhere.
func overHTTP(s events.MCPServer, secrets map[string]secret.Value) (carrier, error) {
	headers := http.Header{}
	var granted *tokens
	for name, value := range s.Headers {
		v, err := fill(value, secrets)
		if err != nil {
			return carrier{}, err
		}
		if g, ok := oauth.Parse(v); ok {
			if granted, err = grantFor(s, name, g); err != nil {
				return carrier{}, err
			}
			continue
		}
		headers.Set(name, v)
	}
	life, end := context.WithCancel(context.Background()) // ends with the carrier
	pool := http.DefaultTransport.(*http.Transport).Clone()
	pool.MaxResponseHeaderBytes = 64 << 10
	w := &wire{pool: pool, headers: headers, granted: granted, life: life, cancelled: newNotice()}
	w.left.Store(maxReceived)
	client := &http.Client{Transport: w, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t := &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxRetries: maxResumes,
		DisableStandaloneSSE: true, MaxEventSize: maxMessage}
	return carrier{transport: t, cancelled: w.cancelled, lost: w.lost, allow: w.left.Store,
		end: func() { end(); pool.CloseIdleConnections() }, explain: w.explain, mask: w.mask}, nil
}

// grantFor takes a grant where it may be sent: as the authorization of the server that it was given for.
func grantFor(s events.MCPServer, header string, g oauth.Grant) (*tokens, error) {
	switch {
	case header != "Authorization":
		return nil, tool.Fail(tool.Permanent, "an operator must name it in the header Authorization",
			fmt.Errorf("a grant cannot be sent in the header %s", header))
	case !g.For(s.URL):
		return nil, tool.Fail(tool.Denied, "an operator must sign in at this server: inspan mcp login SERVER --agent NAME",
			errors.New("the grant was given for another server"))
	}
	return &tokens{grant: g, client: loginClient()}, nil
}

// wire carries the requests of one session.
type wire struct {
	pool    *http.Transport
	headers http.Header
	// granted gives the token of each request; nil where the headers have all.
	granted *tokens
	life    context.Context
	left    atomic.Int64
	// cancelled watches what is sent.
	cancelled *notice
	// flooded says that the server sent too much, broken that a connection broke.
	flooded, broken atomic.Bool
}

// lost reports whether a connection broke, or the server did.
func (w *wire) lost(x *exchange) bool {
	if x == nil {
		return w.broken.Load() || w.flooded.Load()
	}
	return x.broken.Load() || w.flooded.Load() || x.status.Load() >= http.StatusInternalServerError
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(w.life, cancel)
	done := func() { stop(); cancel() }
	req = req.Clone(ctx)
	for name, values := range w.headers {
		req.Header[name] = values
	}
	if w.granted != nil {
		bearer, err := w.granted.bearer(ctx)
		if err != nil {
			done()
			return nil, err
		}
		req.Header.Set("Authorization", bearer)
	}
	resume := req.Method == http.MethodGet && req.Header.Get(lastEvent) != ""
	if resume {
		select {
		case <-time.After(resumeAfter):
		case <-ctx.Done():
			done()
			return nil, ctx.Err()
		}
	}
	resp, err := w.pool.RoundTrip(req)
	if err != nil {
		w.broken.Store(true)
		x.broken.Store(true)
		done()
		return nil, err
	}
	w.watch(req)
	if resp.StatusCode == http.StatusUnauthorized && w.granted != nil {
		w.granted.refused()
	}
	switch {
	case resume: // its status says nothing of the call, which was sent before
		x.broken.Store(resp.StatusCode >= http.StatusMultipleChoices)
	case resp.StatusCode >= http.StatusMultipleChoices:
		x.status.Store(int64(resp.StatusCode))
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 3600 {
			x.after.Store(int64(s))
		}
		if scope := lacks(resp); scope != "" {
			x.scope.Store(&scope)
		}
	}
	resp.Body = &body{from: resp.Body, wire: w, exchange: x, done: done}
	return resp, nil
}

// maxScope is the most bytes of the scopes that a server asks for in an error.
const maxScope = 256

// lacks returns the scopes that a server wants for a request, where it refuses a grant for want of them (RFC 6750,
// section 3.1); "" for any other answer, and for text that names no scopes.
func lacks(resp *http.Response) string {
	if resp.StatusCode != http.StatusForbidden {
		return ""
	}
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return ""
	}
	for _, c := range all {
		scope := c.Params["scope"]
		if c.Scheme == "bearer" && c.Params["error"] == "insufficient_scope" && len(scope) <= maxScope &&
			!strings.ContainsFunc(scope, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`'"\`, r) }) {
			return scope
		}
	}
	return ""
}

// mask hides the token of a grant.
func (w *wire) mask(text string) string {
	if w.granted == nil {
		return text
	}
	return w.granted.mask(text)
}

// watch looks at what was sent, where it is short and can be read again.
func (w *wire) watch(req *http.Request) {
	if req.GetBody == nil || req.ContentLength > maxNotice {
		return
	}
	again, err := req.GetBody()
	if err != nil {
		return
	}
	defer again.Close()
	if data, err := io.ReadAll(io.LimitReader(again, maxNotice)); err == nil {
		w.cancelled.sent(data)
	}
}

// body is an answer that is counted.
type body struct {
	from     io.ReadCloser
	wire     *wire
	exchange *exchange
	done     func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.wire.left.Add(-int64(n)) < 0 {
		b.wire.flooded.Store(true)
		return 0, errFlood
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.wire.broken.Store(true)
		b.exchange.broken.Store(true)
	}
	return n, err
}

func (b *body) Close() error {
	b.done()
	return b.from.Close()
}

// explain says what an answer meant that was none of the protocol.
func (w *wire) explain(x *exchange, err error) error {
	if _, ok := errors.AsType[*tool.Error](err); ok || err == nil {
		return err
	}
	if w.flooded.Load() {
		return fmt.Errorf("%w: %w", errFlood, err)
	}
	code := int(x.status.Load())
	answer := fmt.Errorf("the server answered %d %s: %w", code, http.StatusText(code), clean(err))
	switch {
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && w.granted != nil:
		hint := "an operator can sign in again: inspan mcp login SERVER --agent NAME"
		if scope := x.scope.Load(); scope != nil {
			hint = fmt.Sprintf("an operator can grant what is missing: inspan mcp login SERVER --agent NAME --scope '%s'", *scope)
		}
		return tool.Fail(tool.Denied, hint, answer)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return tool.Fail(tool.Denied, "an operator must fix the secret that mcp.headers names", answer)
	case code == http.StatusTooManyRequests:
		return &tool.Error{Class: tool.Transient, Hint: "use another tool if the problem persists",
			RetryAfter: time.Duration(x.after.Load()) * time.Second, Err: answer}
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return tool.Fail(tool.Permanent, "an operator must set mcp.url to the address that it redirects to", answer)
	}
	return err
}
