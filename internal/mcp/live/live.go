// Package live keeps connections to MCP servers between the calls that use them.
//
// Promises: a connection belongs to one agent in one run, or in one session, and serves no other. It is used only where
// nothing has come between: not after its server was lost, its definition or its sandbox has changed, or a call was
// made elsewhere. Whoever starts a server again in the place of another one is told, until a result has shown it. A
// connection ends once, with its sandbox and all that runs in it, when its owner ends, it was unused for too long, or
// too many are unused.
package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/pkg/tool"
)

// Limits of what is kept.
type Limits struct {
	// Idle is how long a connection that no call uses is kept; 0 keeps none.
	Idle time.Duration
	// Most is how many connections that no call uses are kept; the one that was unused for longest goes first.
	Most int
	// Bytes is how much a server may send while no call uses it.
	Bytes int64
}

// shutTime bounds the end of a sandbox.
const shutTime = 10 * time.Second

// Conn is a server that was reached. It is safe for concurrent use.
type Conn interface {
	// Lost reports whether it cannot be used any more.
	Lost() bool
	// Forgets reports whether the other side keeps something that is lost with the connection.
	Forgets() bool
	// Busy is called when a call begins to use it, Unused when none does any more: then it may send as many bytes.
	Busy()
	Unused(bytes int64)
	// Close ends it, by force where it does not end by itself, and returns when it is gone.
	Close()
}

// Servers are the connections of a toolrunner. A nil *Servers keeps none.
type Servers struct {
	limits Limits
	// ended takes note of a server that has ended, which may have written into a workspace until then.
	ended func(run, workspace string)

	mu sync.Mutex
	// Guarded by mu: by key.
	all    map[string]*place
	closed bool
	// ending waits for the ends of connections.
	ending sync.WaitGroup
}

// New returns Servers without connections. ended may be nil.
func New(limits Limits, ended func(run, workspace string)) *Servers {
	if ended == nil {
		ended = func(string, string) {}
	}
	return &Servers{limits: limits, ended: ended, all: map[string]*place{}}
}

// Keeps reports whether connections are kept at all.
func (s *Servers) Keeps() bool { return s != nil && s.limits.Idle > 0 }

// place is where the connection of an owner to one server is.
type place struct {
	key string
	// turn is held by whoever looks whether the connection can be used, or starts another; it has room for one.
	turn chan struct{}

	// Guarded by Servers.mu: the calls that are here; the run that was here last, its workspace, whether the owner is
	// that run; the connection, which is nil before the first and after the last was lost.
	users     int
	run       string
	workspace string
	ofRun     bool
	now       *kept
	// untold is what no result has shown yet of the start of the server; starts counts; gone says that the owner has
	// ended.
	untold string
	starts int
	gone   bool
}

// What an agent is shown of a server that may have lost what it knew.
const (
	startedAgain = "was started again: what it kept in memory is lost"
	startedLater = "was started for this run: what it kept in memory in earlier runs of the session is lost"
)

// kept is one connection.
type kept struct {
	place      *place
	conn       Conn
	definition string
	sandbox    sandbox.Sandbox // nil for a server elsewhere
	plan       *pool.Plan
	egress     *pool.Egress
	network    *network
	workspace  string
	// gone is closed when it has ended.
	gone chan struct{}

	// Guarded by Servers.mu: the calls that use it; since when none does; whether no further call gets it, and whether
	// its end has begun; the run that used it last, how many calls that had made before, and which of them came here.
	users  int
	idle   time.Time
	off    bool
	ending bool
	run    string
	since  int
	served map[string]bool
}

// errClosed means that nothing is started any more.
var errClosed = errors.New("the toolrunner ends")

// enter adds a call to the place of a key.
func (s *Servers) enter(h *Home, key string) (*place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, tool.Fail(tool.Transient, "", errClosed)
	}
	p := s.all[key]
	if p == nil {
		p = &place{key: key, turn: make(chan struct{}, 1)}
		s.all[key] = p
	}
	p.users++
	p.run, p.workspace, p.ofRun = h.Run, h.Workspace, h.OfRun
	return p, nil
}

// leave takes a call away from a place.
func (s *Servers) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.users--
	s.forget(p)
}

// forget removes a place without calls and connection; mu is held. That a server was lost is known by the calls of the
// run from then on.
func (s *Servers) forget(p *place) {
	if p.users == 0 && p.now == nil && s.all[p.key] == p {
		delete(s.all, p.key)
	}
}

// put gives a place a connection that was made, for its first call.
func (s *Servers) put(p *place, k *kept, again, laterRun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.users, p.starts = 1, p.starts+1
	switch {
	case again || p.starts > 1:
		p.untold = startedAgain
	case laterRun:
		p.untold = startedLater
	}
	if s.closed || p.gone {
		k.off = true // its owner has ended meanwhile
		return
	}
	p.now = k
}

// give takes a connection back from a call.
func (s *Servers) give(k *kept, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.users--; k.users > 0 {
		return
	}
	k.idle = now
	k.conn.Unused(s.limits.Bytes)
	if k.off || k.conn.Lost() {
		s.retire(k)
	}
	s.bound()
}

// retire takes a connection out of its place: no further call gets it, and it ends with its last one. mu is held.
func (s *Servers) retire(k *kept) {
	k.off = true
	if p := k.place; p.now == k {
		p.now = nil
		s.forget(p)
	}
	if k.users > 0 || k.ending {
		return
	}
	k.ending = true
	s.ending.Go(func() {
		defer close(k.gone)
		k.shut()
		s.ended(k.run, k.workspace)
	})
}

// shut ends the connection and its sandbox.
func (k *kept) shut() {
	k.conn.Close()
	k.egress.Close()
	if k.sandbox != nil {
		ctx, cancel := context.WithTimeout(context.Background(), shutTime)
		defer cancel()
		_ = k.sandbox.Destroy(ctx) // its processes are gone; what is left is a directory, which the reaper knows
	}
}

// bound lets those go that were not used for longest where there are too many; mu is held.
func (s *Servers) bound() {
	var idle []*kept
	for _, p := range s.all {
		if p.now != nil && p.now.users == 0 {
			idle = append(idle, p.now)
		}
	}
	slices.SortFunc(idle, func(a, b *kept) int { return a.idle.Compare(b.idle) })
	for _, k := range idle[:max(0, len(idle)-s.limits.Most)] {
		s.retire(k)
	}
}

// drop retires the connections that which reports, also those that are being made, and returns what is waited for
// until they are gone.
func (s *Servers) drop(which func(*place) bool) (ends []<-chan struct{}) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.all {
		if !which(p) {
			continue
		}
		p.gone = true
		delete(s.all, key)
		if k := p.now; k != nil {
			s.retire(k)
			ends = append(ends, k.gone)
		}
	}
	return ends
}

// wait returns when all have ended, or ctx does.
func wait(ctx context.Context, ends []<-chan struct{}) {
	for _, gone := range ends {
		select {
		case <-gone:
		case <-ctx.Done():
			return
		}
	}
}

// Expire retires what was unused for too long, or was lost.
func (s *Servers) Expire(now time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if k := p.now; k != nil && k.users == 0 && (now.Sub(k.idle) >= s.limits.Idle || k.conn.Lost()) {
			s.retire(k)
		}
	}
}

// EndRun ends the connections of a run that has ended, and waits for that until ctx ends. Those of its session stay,
// but where all is set.
func (s *Servers) EndRun(ctx context.Context, runID string, all bool) {
	wait(ctx, s.drop(func(p *place) bool { return p.run == runID && (all || p.ofRun) }))
}

// DropWorkspace ends the connections whose servers work in a workspace, and waits for that.
func (s *Servers) DropWorkspace(workspace string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*shutTime)
	defer cancel()
	wait(ctx, s.drop(func(p *place) bool { return p.workspace == workspace }))
}

// Clear ends all.
func (s *Servers) Clear() { s.drop(func(*place) bool { return true }) }

// Close ends all, and waits. Nothing is started any more.
func (s *Servers) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Clear()
	s.ending.Wait()
}

// Runs are those that used the connections last.
func (s *Servers) Runs() (ids []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		ids = append(ids, p.run)
	}
	return ids
}

// HandedOn reports whether the connections of a session may go on to a run: those that had them have ended. In a
// session of several runs at a time each has connections of its own.
func (s *Servers) HandedOn(owner, runID string, ended func(run string) bool) bool {
	var before []string
	s.mu.Lock()
	for key, p := range s.all {
		if strings.HasPrefix(key, owner+"\x00") && p.run != runID {
			before = append(before, p.run)
		}
	}
	s.mu.Unlock()
	for _, run := range before {
		if !ended(run) {
			return false
		}
	}
	return true
}
