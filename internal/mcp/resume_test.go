package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/internal/mcp/mcptest"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// parted serves the test's tools over HTTP as a server does that closes the stream of a call after the event that names
// it (SEP-1699), or whose connection breaks there: cut says how. What comes then for the rest is done by rest, which
// passes it on to the server by next.
func parted(t *testing.T, cut func(http.ResponseWriter), rest func(w http.ResponseWriter, r *http.Request, next http.Handler)) (s events.MCPServer, calls, resumes *atomic.Int64) {
	t.Helper()
	calls, resumes = new(atomic.Int64), new(atomic.Int64)
	server := mcptest.New(mcptest.Good, t.TempDir())
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "" {
			resumes.Add(1)
			rest(w, r, h)
			return
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		switch {
		case bytes.Contains(data, []byte(`"server/discover"`)): // it knows the revisions with sessions alone
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`)
		case bytes.Contains(data, []byte(`"tools/call"`)):
			calls.Add(1)
			whole := httptest.NewRecorder()
			h.ServeHTTP(whole, r)
			first, _, _ := strings.Cut(whole.Body.String(), "\n\n")
			if !strings.Contains(first, "id: ") || strings.Contains(first, "result") {
				t.Errorf("the first event of the call is %q", first)
			}
			for name, v := range whole.Header() {
				w.Header()[name] = v
			}
			_, _ = io.WriteString(w, first+"\n\n")
			cut(w)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	return events.MCPServer{Name: "test", URL: web.URL, Effects: []events.MCPEffect{{Tool: "echo", Effect: "once"}}}, calls, resumes
}

func TestResume(t *testing.T) {
	t.Parallel()
	closed := func(http.ResponseWriter) {}
	broken := func(w http.ResponseWriter) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	pass := func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }
	for name, cut := range map[string]func(http.ResponseWriter){"the server closed it": closed, "the connection broke": broken} {
		t.Run("ECO-3 SAFE-7 the rest of an answer is asked for, and the call is not sent again: "+name, func(t *testing.T) {
			t.Parallel()
			s, calls, resumes := parted(t, cut, pass)
			b := pinned(t, s, nil)
			for n := int64(1); n <= 2; n++ {
				r, err := b.call(within(t), "mcp__test__echo", `{"text":"hello"}`)
				if err != nil || r.Output != "hello" || calls.Load() != n || resumes.Load() != n {
					t.Errorf("%q, %v, %d calls, %d resumes", r.Output, err, calls.Load(), resumes.Load())
				}
			}
		})
		t.Run("ECO-3 an answer that refuses a call is one where it came in two parts: "+name, func(t *testing.T) {
			t.Parallel()
			s, _, _ := parted(t, cut, pass)
			b := pinned(t, s, nil)
			if _, err := b.call(within(t), "mcp__test__refuse", `{}`); tool.ClassOf(err) != tool.Permanent || !strings.Contains(err.Error(), "no such thing") {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, status := range []int{http.StatusNotFound, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusTooManyRequests,
		http.StatusFound, http.StatusInternalServerError} {
		t.Run("SAFE-7 a server that has no rest leaves an unknown outcome, whatever it says: "+http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			s, calls, _ := parted(t, closed, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"it never was"}}`)
			})
			b := pinned(t, s, nil)
			if _, err := b.call(within(t), "mcp__test__echo", `{"text":"x"}`); tool.ClassOf(err) != tool.Unknown || calls.Load() != 1 {
				t.Errorf("got %v, class %v, after %d calls", err, tool.ClassOf(err), calls.Load())
			}
		})
	}
	t.Run("SAFE-7 a server that has the rest come without end is asked at most ten times a second, and no longer than the call may take", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		began, asked := time.Now(), atomic.Int64{}
		s, _, _ := parted(t, closed, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: x"+time.Now().String()+"\nretry: 1\ndata: \n\n")
			if asked.Add(1) == 8 {
				cancel()
			}
		})
		b := pinned(t, s, nil)
		if _, err := b.call(ctx, "mcp__test__echo", `{"text":"x"}`); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < 700*time.Millisecond {
			t.Errorf("asked %d times in %s", asked.Load(), took)
		}
	})
}
