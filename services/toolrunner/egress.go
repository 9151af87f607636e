package toolrunner

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/run"
)

// wayOut is the way of one attempt to what its agent may reach. It is opened on first use: most calls never do. A nil
// *wayOut leads nowhere.
type wayOut struct {
	open func() (*egress.Door, error)
	// narrow is true where the agent's file names hosts: then commands have this way and no other.
	narrow bool
	mu     sync.Mutex
	door   *egress.Door // guarded by mu, as is no
	no     []string     // what was refused, each thing once
}

// maxRefused is how many refused hosts a result tells of.
const maxRefused = 8

// wayOut returns the way of an attempt, nil where its agent may reach nothing. It leads nowhere any more when another
// attempt has begun, or the call or its run has ended (SAFE-7).
func (r *Role) wayOut(s run.State, a call.Attempt) *wayOut {
	return r.wayOutWhile(s, a.Call.Step, a.Holds)
}

// wayOutWhile is a way of a step's agent that leads nowhere any more when the run is not as holds wants it.
func (r *Role) wayOutWhile(s run.State, step string, holds func(now run.State) bool) *wayOut {
	st := s.Step(step)
	if st == nil {
		return nil
	}
	box := s.Agents[st.AssignedAgent].Sandbox
	hosts := box.AllowedHosts
	if len(hosts) == 0 {
		if !box.Network {
			return nil
		}
		hosts = []string{"*"}
	}
	w := &wayOut{narrow: len(box.AllowedHosts) > 0}
	w.open = sync.OnceValues(func() (*egress.Door, error) {
		if r.cfg.Egress == nil {
			return nil, fmt.Errorf("the way to allowed hosts: %w: this toolrunner has none", sandbox.ErrUnavailable)
		}
		list, err := policy.ParseList(hosts)
		if err != nil {
			return nil, err
		}
		return r.cfg.Egress.Open(egress.Grant{Allow: list, Report: w.heard, Current: func(ctx context.Context) error {
			now, err := r.cfg.Ledger.Fresh(ctx, s.HarnessID)
			if err == nil && !holds(now) {
				err = egress.ErrStale
			}
			return err
		}})
	})
	return w
}

// opened opens the door, if it was not yet.
func (w *wayOut) opened() (*egress.Door, error) {
	door, err := w.open()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door = door
	return door, err
}

// close cuts what is open.
func (w *wayOut) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	door := w.door
	w.mu.Unlock()
	if door != nil {
		door.Close()
	}
}

// heard remembers what was refused.
func (w *wayOut) heard(a egress.Attempt) {
	if a.Code == "" || a.Target.Port == 0 {
		return
	}
	text := fmt.Sprintf("%s (%s): %s", a.Target, a.Code, a.Reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.no) < maxRefused && !slices.Contains(w.no, text) {
		w.no = append(w.no, text)
	}
}

// refused is a note for the agent of what its commands could not reach, since many programs do not show why.
func (w *wayOut) refused() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.no) == 0 {
		return ""
	}
	return "\n[network] refused by sandbox.network of the agent's file:\n" + strings.Join(w.no, "\n")
}

// fetch is the way of tools that ask by themselves.
func (w *wayOut) fetch() func(*http.Request) (*http.Response, error) {
	if w == nil {
		return nil
	}
	return func(r *http.Request) (*http.Response, error) {
		door, err := w.opened()
		if err != nil {
			return nil, err
		}
		return door.RoundTrip(r)
	}
}

// lead gives a sandbox the way, where the agent's file names hosts. A backend that can not keep commands to it is an
// error, never an open network (SBX-20).
func (w *wayOut) lead(cfg *sandbox.Config, backend sandbox.Backend) error {
	if w == nil || !w.narrow {
		return nil
	}
	if _, ok := backend.(sandbox.Doored); !ok {
		return fmt.Errorf("sandbox %s: %w: it can not keep commands to the agent's allowed_hosts: use bwrap", backend.Mode(), sandbox.ErrUnavailable)
	}
	door, err := w.opened()
	if err != nil {
		return err
	}
	cfg.Network, cfg.Door = false, door
	cfg.Env = append(append([]string{}, cfg.Env...), door.Env()...)
	cfg.ReadOnly = append(append([]string{}, cfg.ReadOnly...), door.Shown()...)
	return nil
}

// through returns boxes whose sandboxes have a way out.
func (b *Boxes) through(w *wayOut) *Boxes {
	return &Boxes{cfg: b.cfg, out: w, lasting: b.lasting, met: b.met}
}

// forMany returns boxes whose sandboxes more than one call uses.
func (b *Boxes) forMany() *Boxes { return &Boxes{cfg: b.cfg, out: b.out, lasting: true, met: b.met} }
