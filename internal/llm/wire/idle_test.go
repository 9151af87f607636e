package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/llm/wire"
)

// piped is a transport whose server is the function; it and the client share the clock of the test.
func piped(t *testing.T, serve http.HandlerFunc) *http.Client {
	t.Helper()
	there, here := make(chan net.Conn), make(chan struct{})
	l := &pipes{conns: there, done: here}
	server := &http.Server{Handler: serve, ReadHeaderTimeout: time.Hour}
	go func() { _ = server.Serve(l) }()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		a, b := net.Pipe()
		select {
		case there <- a:
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		_ = server.Close()
		transport.CloseIdleConnections()
	})
	return &http.Client{Transport: transport}
}

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func get(t *testing.T, c *http.Client) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://model.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// speaks answers with a word after each of these pauses, and then with nothing for ever where open.
func speaks(open bool, pauses ...time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, p := range pauses {
			<-time.After(p)
			_, _ = io.WriteString(w, "word ")
			_ = http.NewResponseController(w).Flush()
		}
		if open {
			<-r.Context().Done()
		}
	}
}

func TestWatched(t *testing.T) {
	t.Parallel()
	const idle = time.Minute
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		text  string
		took  time.Duration
		idle  bool
	}{
		"a stream that falls silent is noticed a minute after its last byte": {speaks(true, time.Second, 50*time.Second), "word word ",
			51*time.Second + idle, true},
		"a slow answer is whole":                        {speaks(false, 4*time.Minute, 59*time.Second, 59*time.Second), "word word word ", 358 * time.Second, false},
		"a server that does not answer is noticed, too": {speaks(true), "", 5 * idle, true},
	} {
		t.Run("PLUS-13 "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				text, err := get(t, wire.Watched(piped(t, c.serve), idle))
				if got := time.Since(begin); text != c.text || errors.Is(err, wire.ErrIdle) != c.idle || !c.idle && err != nil || got != c.took {
					t.Errorf("got %q, %v after %s, want %q after %s", text, err, got, c.text, c.took)
				}
			})
		})
	}
	t.Run("PLUS-13 the end of the request itself is not taken for silence", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://model.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := wire.Watched(piped(t, speaks(true)), idle).Do(req)
			if err == nil {
				res.Body.Close()
			}
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, wire.ErrIdle) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("PLUS-13 without a limit nothing is watched", func(t *testing.T) {
		t.Parallel()
		if wire.Watched(nil, 0) != nil {
			t.Error("the client was wrapped")
		}
	})
}
