package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/inspan/inspan/internal/egress/policy"
)

// newTransport makes what carries requests to hosts. Each connection is judged, also those that it opens by itself.
func (d *Session) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			t, err := policy.ParseTarget(addr, 0)
			if err != nil {
				return nil, err
			}
			l, err := d.reach(ctx, t, "http")
			if err != nil {
				return nil, err
			}
			return l, nil
		},
		TLSClientConfig:        &tls.Config{RootCAs: d.proxy.cfg.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    d.proxy.cfg.Limits.Dial,
		ResponseHeaderTimeout:  d.proxy.cfg.Limits.Idle,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: maxHead,
		DisableCompression:     true,
	}
}

// forward passes a request on to a target and its answer back. scheme is http or https, where TLS of the client ended
// here.
func (d *Session) forward(w http.ResponseWriter, r *http.Request, t policy.Target, scheme string) {
	if _, err := d.allow(r.Context(), t); err != nil {
		d.refuse(w, t, err)
		return
	}
	held := d.proxy.credential(t, scheme)
	if held != nil && (r.Method == http.MethodTrace || r.Header.Get("Upgrade") != "") {
		d.refuse(w, t, policy.Refuse(policy.BadRequest, t, "a host with a credential takes no TRACE and no Upgrade", ""))
		return
	}
	host := hostHeader(t, scheme)
	proxy := httputil.ReverseProxy{
		Transport:     d.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.User = scheme, t.String(), nil
			p.Out.Host = host
			if held != nil {
				held.add(p.Out.Header)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { answer(w, explain(t, err)) },
	}
	if held != nil {
		w = &maskedWriter{ResponseWriter: w, held: held}
		proxy.ModifyResponse = func(resp *http.Response) error { return held.hide(t, resp) }
	}
	proxy.ServeHTTP(w, r)
}

// hostHeader is the Host of a request: without the port of its scheme.
func hostHeader(t policy.Target, scheme string) string {
	usual := uint16(policy.PortHTTP)
	if scheme == "https" {
		usual = policy.PortHTTPS
	}
	if t.Port != usual {
		return t.String()
	}
	if t.Addr.Is6() {
		return "[" + t.Host() + "]"
	}
	return t.Host()
}

// explain makes a refusal of whatever went wrong on the way to a host. What the host said is not repeated.
func explain(t policy.Target, err error) error {
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		return r
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return policy.Refuse(policy.Unreachable, t, "its certificate could not be verified", "")
	}
	return policy.Refuse(policy.Unreachable, t, "its response is not HTTP", "")
}

// inside serves the requests in a tunnel: each must be for the target of the tunnel.
func (d *Session) inside(conn net.Conn, t policy.Target, scheme string) {
	serveHTTP(conn, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := policy.ParseTarget(r.Host, t.Port)
		if err == nil && (got != t || r.Method == http.MethodConnect) {
			err = policy.Refuse(policy.Differs, t, "the request inside the tunnel names another host",
				"connect to that host directly")
		}
		if err != nil {
			d.refuse(w, t, err)
			return
		}
		d.forward(w, r, t, scheme)
	}))
}

// RoundTrip sends one request as a client of the Session would, without a sandbox between: it implements
// http.RoundTripper for tools that fetch. Redirects are the caller's own new requests.
func (d *Session) RoundTrip(r *http.Request) (*http.Response, error) {
	usual := uint16(policy.PortHTTP)
	switch r.URL.Scheme {
	case "http":
	case "https":
		usual = policy.PortHTTPS
	default:
		return nil, &policy.Refusal{Code: policy.BadRequest, Target: "request", Reason: "want http or https"}
	}
	t, err := policy.ParseTarget(r.URL.Host, usual)
	if err == nil {
		_, err = d.allow(r.Context(), t)
	}
	if err != nil {
		d.refused(t, "fetch", "", err)
		return nil, err
	}
	ctx, done := d.within(r.Context(), requestMax)
	out := r.Clone(ctx)
	out.URL.Host, out.URL.User = t.String(), nil
	out.Host = hostHeader(t, r.URL.Scheme)
	held := d.proxy.credential(t, r.URL.Scheme)
	if held != nil {
		held.add(out.Header)
	}
	resp, err := d.transport.RoundTrip(out)
	if err == nil && held != nil {
		if err = held.hide(t, resp); err != nil {
			_ = resp.Body.Close()
		} else {
			held.hideHeader(resp.Header)
		}
	}
	if err != nil {
		done()
		if ctxErr := r.Context().Err(); ctxErr != nil {
			return nil, ctxErr
		}
		return nil, explain(t, err)
	}
	resp.Request = r
	resp.Body = &endedBody{resp.Body, done}
	return resp, nil
}

// requestMax bounds one request of RoundTrip.
const requestMax = 10 * time.Minute

// endedBody lets go of a request when its answer is closed.
type endedBody struct {
	io.ReadCloser
	done func()
}

func (b *endedBody) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}
