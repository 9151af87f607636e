package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
)

// Homed is implemented by sandboxes of calls whose servers may live on after them.
type Homed interface{ Home() *Home }

// Home is where the servers of one call live on: what the call knows of its run.
type Home struct {
	Servers *Servers
	// Owner is the run, or the session of it, with the agent; OfRun says that it is the run alone.
	Owner string
	OfRun bool
	// Run, Call and Workspace are those of the call.
	Run, Call, Workspace string
	// Enter is called before the server is used, which may change any file. An error of it is that of the call.
	Enter func() error
	// Sandboxes says that programs may live on too: they see the very files of the workspace. Plan is the sandbox that
	// one would get now, with the way to what the agent may reach; Egress makes that.
	Sandboxes bool
	Plan      func(out *pool.Egress) (*pool.Plan, error)
	Egress    func(holds func(context.Context) (bool, error)) *pool.Egress
	// Holds reports whether the attempt is the current one: the network of a server is open only while one is.
	Holds func(context.Context) (bool, error)
	// Earlier are the calls of the run to a server that came to an end, the oldest first; LaterRun says that the owner
	// had other runs before.
	Earlier  func(server string) []string
	LaterRun bool
}

// Want is the server that a call needs.
type Want struct {
	Server string
	// Definition distinguishes servers that must not stand for each other.
	Definition string
	// Program says that it runs in a sandbox.
	Program bool
	// Start reaches the server.
	Start func(ctx context.Context, sb sandbox.Sandbox) (Conn, error)
}

// Allows reports whether a server may live on.
func (h *Home) Allows(w Want) bool {
	return h != nil && h.Servers.Keeps() && (!w.Program || h.Sandboxes)
}

// Use is a connection that a call uses, until Leave.
type Use struct {
	home  *Home
	place *place
	kept  *kept
	want  Want
	// Fresh says that the server was started for this call.
	Fresh bool
}

// Use returns the connection to a server: the one that is there, where it can be used, or a new one.
func (h *Home) Use(ctx context.Context, w Want) (*Use, error) {
	if err := h.Enter(); err != nil {
		return nil, err
	}
	s := h.Servers
	p, err := s.enter(h, strings.Join([]string{h.Owner, w.Server}, "\x00"))
	if err != nil {
		return nil, err
	}
	u := &Use{home: h, place: p, want: w}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		s.leave(p)
		return nil, ctx.Err()
	}
	defer func() { <-p.turn }()
	if u.kept, err = u.current(); err == nil && u.kept == nil {
		u.Fresh = true
		u.kept, err = u.start(ctx)
	}
	if err != nil {
		s.leave(p)
		return nil, err
	}
	u.kept.network.add(h)
	u.kept.conn.Busy()
	return u, nil
}

// current takes the connection that is there; nil where there is none that can be used. turn is held.
func (u *Use) current() (*kept, error) {
	s, h, p := u.home.Servers, u.home, u.place
	s.mu.Lock()
	k := p.now
	s.mu.Unlock()
	if k == nil {
		return nil, nil
	}
	fits := k.definition == u.want.Definition && !k.conn.Lost()
	if fits && k.plan != nil {
		plan, err := h.Plan(k.egress)
		if err != nil {
			return nil, err
		}
		fits = k.plan.Same(plan)
	}
	earlier := h.Earlier(u.want.Server)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.off {
		return nil, nil
	}
	if k.run != h.Run {
		if k.users > 0 {
			fits = false // two runs never share one
		}
		k.run, k.since, k.served = h.Run, 0, map[string]bool{}
	}
	for _, call := range earlier[min(k.since, len(earlier)):] {
		fits = fits && k.served[call] // else it was made elsewhere, and the server knows nothing of it
	}
	if !fits {
		s.retire(k)
		return nil, nil
	}
	k.served[h.Call] = true
	k.users++
	return k, nil
}

// start starts the server. turn is held.
func (u *Use) start(ctx context.Context) (*kept, error) {
	h, earlier := u.home, u.home.Earlier(u.want.Server)
	k := &kept{place: u.place, definition: u.want.Definition, network: &network{}, workspace: h.Workspace, run: h.Run,
		since: len(earlier), served: map[string]bool{h.Call: true}, gone: make(chan struct{})}
	var err error
	if u.want.Program {
		k.egress = h.Egress(k.network.holds)
		if k.plan, err = h.Plan(k.egress); err == nil {
			k.sandbox, err = k.plan.Open(ctx)
		}
	}
	if err == nil {
		k.network.add(h)
		k.conn, err = u.want.Start(ctx, k.sandbox)
		k.network.remove(h)
	}
	if err != nil {
		k.egress.Close()
		if k.sandbox != nil {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutTime)
			defer cancel()
			err = errors.Join(err, k.sandbox.Destroy(end))
		}
		return nil, err
	}
	h.Servers.put(u.place, k, len(earlier) > 0, h.LaterRun)
	return k, nil
}

// Conn is the connection.
func (u *Use) Conn() Conn { return u.kept.conn }

// Note is what the agent must know before it reads the result, empty where there is nothing: it counts as shown then.
func (u *Use) Note() string {
	s := u.home.Servers
	s.mu.Lock()
	untold := u.place.untold
	u.place.untold = ""
	s.mu.Unlock()
	if untold == "" || !u.kept.conn.Forgets() {
		return ""
	}
	return fmt.Sprintf("[server %s %s]\n", u.want.Server, untold)
}

// Refused is a note of what the server could not reach since the last one; empty where there is nothing.
func (u *Use) Refused() string { return u.kept.egress.TakeRefused() }

// Discard ends the connection at once, for all who use it, and returns when it is gone.
func (u *Use) Discard() {
	s := u.home.Servers
	s.mu.Lock()
	s.retire(u.kept)
	s.mu.Unlock()
	u.kept.conn.Close()
}

// Leave gives the connection back.
func (u *Use) Leave() {
	u.kept.network.remove(u.home)
	u.home.Servers.give(u.kept, time.Now())
	u.home.Servers.leave(u.place)
}

// network lets a server reach something only while a call of it is under way.
type network struct {
	mu sync.Mutex
	// Guarded by mu: the calls that are under way.
	calls []*Home
}

func (n *network) add(h *Home) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, h)
}

func (n *network) remove(h *Home) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, other := range n.calls {
		if other == h {
			n.calls = append(n.calls[:i:i], n.calls[i+1:]...)
			return
		}
	}
}

// holds reports whether one of the calls that are under way is the current attempt.
func (n *network) holds(ctx context.Context) (ok bool, err error) {
	n.mu.Lock()
	calls := n.calls
	n.mu.Unlock()
	for _, h := range calls {
		if ok, err = h.Holds(ctx); ok {
			return true, nil
		}
	}
	return false, err
}
