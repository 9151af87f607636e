package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// theKey is what the credential of a host holds.
const theKey = "Bearer key-of-the-host-that-no-tool-sees"

// network is a way out of a station to one server of this machine, which all names below example lead to.
func network(t *testing.T, h http.HandlerFunc) *egress.Proxy {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	p, err := egress.New(egress.Config{
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if !strings.HasSuffix(name, ".example") {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", s.Listener.Addr().String())
		},
		Credentials: []egress.Credential{{Host: "keyed.example", Plain: true, Header: "Authorization", Value: secret.New(theKey)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEgress(t *testing.T) {
	t.Parallel()
	sandboxtest.Need(t, bwrap.New("", ""))
	w := newWorld(t)
	w.ports.Egress = network(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, "<h1>%s</h1><p>key %q</p>", r.Host, r.Header.Get("Authorization"))
	})
	w.tune = func(c *service.Config) { c.Sandbox = "bwrap" }
	open := events.Sandbox{Mode: "bwrap", AllowedHosts: []string{"*.example"}}
	w.agent(events.Agent{Name: "curl", Tools: []string{"bash"}, Sandbox: open}, calling("bash", `{command: "curl -sS http://api.example/; curl -sS http://evil.test/; curl -sS https://evil.test/; exec 9<>/dev/tcp/127.0.0.1/4222"}`))
	w.agent(events.Agent{Name: "fetch", Tools: []string{"web_fetch"}, Sandbox: open}, calling("web_fetch", `{url: "http://keyed.example/page"}`))
	w.agent(events.Agent{Name: "away", Tools: []string{"web_fetch"}, Sandbox: open}, calling("web_fetch", `{url: "http://evil.test/"}`))
	w.agent(events.Agent{Name: "closed", Tools: []string{"web_fetch"}, Sandbox: events.Sandbox{Mode: "bwrap"}}, calling("web_fetch", `{url: "http://api.example/"}`))
	w.agent(events.Agent{Name: "weak", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "host", AllowedHosts: []string{"*.example"}}}, calling("bash", `{command: "echo reached"}`))
	w.start()
	for _, tc := range []struct{ id, agent, want, not string }{
		{"SBX-13 a command reaches an allowed host and no other, and the agent is told which", "curl", "<h1>api.example</h1>", "evil.test</h1>"},
		{"SBX-13 the agent reads which hosts were refused", "curl", "[network] refused by sandbox.network in the agent's file:\nevil.test:80 (not_allowed)", ""},
		{"SAFE-11 a page of a host with a credential is fetched, and the key is in no event", "fetch", "# keyed.example\n\nkey \"\\*\\*\\*", theKey},
		{"SBX-13 a fetch of another host is refused", "away", "sandbox.network.allowed_hosts", "<h1>"},
		{"SBX-13 a fetch without a network is refused", "closed", "has no network access", "<h1>"},
		{"SBX-20 hosts are never allowed where nothing keeps commands to them", "weak", "use bwrap", "reached\n"},
	} {
		t.Run(tc.id, func(t *testing.T) {
			w := w.on(t)
			id := strings.ReplaceAll(strings.ToLower(tc.id[len(tc.id)-12:]), " ", "-")
			w.task(events.Task{ID: id, Agent: tc.agent, Task: "go"})
			s := w.ended(id)
			var said strings.Builder
			for _, r := range w.events(id) {
				said.Write(r.Bytes)
			}
			rec := s.ToolCallHistory.At(0)
			got := rec.Result + " " + rec.Hint // the agent is told both
			if !strings.Contains(got, tc.want) || tc.not != "" && strings.Contains(got, tc.not) || strings.Contains(said.String(), theKey) {
				t.Errorf("got %s %+v", got, rec)
			}
		})
	}
}

// TestEgressFence lets another toolrunner begin a call again while the first one is in the middle of it.
func TestEgressFence(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	began, again := make(chan string, 4), make(chan struct{})
	answers := make(chan error, 4)
	var once sync.Once
	ask := func(ctx context.Context, c tool.Call) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.example/pay", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := c.Env.Fetch(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
	payer := &probe{name: "payer", effect: tool.Idempotent, do: func(ctx context.Context, attempt int64, c tool.Call) (tool.Result, error) {
		if attempt > 1 { // one with a fence of its own
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}
		answers <- ask(ctx, c)
		began <- c.ID
		select {
		case <-again:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
		// One answer about the fence holds for a second; a process that slept has slept longer.
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range 100 {
			if err := ask(ctx, c); err != nil {
				once.Do(func() { answers <- err })
				break
			}
			<-tick.C
		}
		return tool.Result{Output: "paid"}, nil
	}}
	w := newWorld(t, payer)
	w.ports.Egress = network(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	w.agent(events.Agent{Name: "payer", Tools: []string{"payer"}, Sandbox: events.Sandbox{AllowedHosts: []string{"api.example"}}}, calling("payer", "{}"))
	w.start()
	t.Run("SAFE-7 SAFE-8 an attempt whose fence was lost reaches nothing any more", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "paid", Agent: "payer", Task: "pay"})
		id := <-began
		if err := <-answers; err != nil || asked.Load() != 1 {
			t.Fatalf("with its fence it is asked %d times: %v", asked.Load(), err)
		}
		other, err := runlog.NewLedger(runlog.LedgerConfig{Station: "test", By: events.Toolrunner, Journal: w.ports.Journal, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		written, err := other.Write(w.ctx(), "paid", func(s run.State, _ time.Time) ([]events.Payload, error) {
			c := s.Open[id]
			return []events.Payload{&events.CallStartedData{Event: "tool_start", ToolRef: events.ToolRef{Step: c.Step, Call: c.ID, Tool: c.Tool}, Attempt: c.Attempt + 1, Effect: c.Effect, Runner: "another", Sandbox: "host"}}, nil
		})
		if _, ok := written.Wrote(events.CallStarted); err != nil || !ok {
			t.Fatal(err)
		}
		close(again)
		err = <-answers
		var r *policy.Refusal
		if !errors.As(err, &r) || r.Code != policy.Revoked {
			t.Errorf("got %v, want it revoked", err)
		}
		before := asked.Load()
		w.publish("station.test.run.paid.control", `{"action":"stop"}`)
		w.ended("paid")
		if after := asked.Load(); after != before {
			t.Errorf("it was asked %d times more", after-before)
		}
	})
}
