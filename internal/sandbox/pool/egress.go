package pool

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/inside"
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
)

// Egress is the way of one attempt to what its agent may reach. It is opened on first use: most calls never do. A nil
// *Egress leads nowhere.
type Egress struct {
	open func() (*egress.Session, error)
	// narrow is true where the agent's file names hosts: then commands have this way and no other.
	narrow bool
	mu     sync.Mutex
	egress *egress.Session // guarded by mu, as are no and local
	no     []string        // what was refused, each thing once
	local  http.Handler    // what is served at the proxy itself; nil for nothing
}

// maxRefused is how many refused hosts a result names.
const maxRefused = 8

// NewEgress returns the way to what an agent may reach by its sandbox settings, nil where it may reach nothing. proxy
// is asked for it, and may be nil: then it leads nowhere, with an error. current is asked for each connection: an error
// of it refuses that.
func NewEgress(proxy *egress.Proxy, want events.Sandbox, current func(context.Context) error) *Egress {
	hosts := want.AllowedHosts
	if len(hosts) == 0 {
		if !want.Network {
			return nil
		}
		hosts = []string{"*"}
	}
	e := &Egress{narrow: len(want.AllowedHosts) > 0}
	e.open = sync.OnceValues(func() (*egress.Session, error) {
		if proxy == nil {
			return nil, fmt.Errorf("egress to allowed hosts: %w: this toolrunner has no proxy", sandbox.ErrUnavailable)
		}
		list, err := policy.ParseList(hosts)
		if err != nil {
			return nil, err
		}
		return proxy.Open(egress.Grant{Allow: list, Report: e.report, Current: current, Local: http.HandlerFunc(e.serve)})
	})
	return e
}

// Narrow reports whether the agent's file names hosts: then commands reach these and nothing else.
func (e *Egress) Narrow() bool { return e != nil && e.narrow }

// opened opens the door, if it was not yet.
func (e *Egress) opened() (*egress.Session, error) {
	egress, err := e.open()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.egress = egress
	return egress, err
}

// Local serves requests of commands that they make to the proxy itself; base is its address for them. ok is false where
// commands do not have the proxy.
func (e *Egress) Local(h http.Handler) (base string, ok bool) {
	if !e.Narrow() {
		return "", false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.local = h
	return fmt.Sprintf("http://127.0.0.1:%d", inside.Port), true
}

func (e *Egress) serve(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	h := e.local
	e.mu.Unlock()
	if h == nil {
		http.Error(w, "inspan: this is a proxy, and nothing is served here", http.StatusBadRequest)
		return
	}
	h.ServeHTTP(w, r)
}

// Close cuts what is open.
func (e *Egress) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	egress := e.egress
	e.mu.Unlock()
	if egress != nil {
		egress.Close()
	}
}

// report remembers what was refused.
func (e *Egress) report(a egress.Attempt) {
	if a.Code == "" || a.Target.Port == 0 {
		return
	}
	text := fmt.Sprintf("%s (%s): %s", a.Target, a.Code, a.Reason)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.no) < maxRefused && !slices.Contains(e.no, text) {
		e.no = append(e.no, text)
	}
}

// Refused is a note for the agent of what its commands could not reach, since many programs do not show why.
func (e *Egress) Refused() string { return e.refused(false) }

// TakeRefused is Refused of what no note has named yet.
func (e *Egress) TakeRefused() string { return e.refused(true) }

func (e *Egress) refused(forget bool) string {
	if e == nil {
		return ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.no) == 0 {
		return ""
	}
	text := "\n[network] refused by sandbox.network in the agent's file:\n" + strings.Join(e.no, "\n")
	if forget {
		e.no = nil
	}
	return text
}

// Fetch is the way of tools that ask by themselves.
func (e *Egress) Fetch() func(*http.Request) (*http.Response, error) {
	if e == nil {
		return nil
	}
	return func(r *http.Request) (*http.Response, error) {
		egress, err := e.opened()
		if err != nil {
			return nil, err
		}
		return egress.RoundTrip(r)
	}
}

// lead gives a sandbox the way, where the agent's file names hosts. A backend that cannot keep commands to it is an
// error, never an open network (SBX-20).
func (e *Egress) lead(cfg *sandbox.Config, backend sandbox.Backend) error {
	if e == nil || !e.narrow {
		return nil
	}
	if _, ok := backend.(sandbox.Doored); !ok {
		return fmt.Errorf("sandbox %s: %w: it cannot restrict commands to the allowed_hosts of the agent: use bwrap",
			backend.Mode(), sandbox.ErrUnavailable)
	}
	egress, err := e.opened()
	if err != nil {
		return err
	}
	cfg.Network, cfg.Egress = false, egress
	cfg.Env = append(append([]string{}, cfg.Env...), egress.Env()...)
	cfg.ReadOnly = append(append([]string{}, cfg.ReadOnly...), egress.Shown()...)
	return nil
}
