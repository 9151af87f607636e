package pool

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// maxUnused is how many sandboxes that no call uses are kept; the one that was unused for longest goes first.
const maxUnused = 32

// shutTime bounds the end of a sandbox.
const shutTime = 10 * time.Second

// slow reports whether sandboxes of a mode take so long to open that one is kept for all calls of a step. The others
// are there in milliseconds; they are kept for the inputs of a session alone, whose files they hold (SBX-19).
func slow(m sandbox.Mode) bool {
	switch m {
	case sandbox.Docker, sandbox.GVisor, sandbox.Firecracker, sandbox.QEMU, sandbox.E2B, sandbox.Kubernetes:
		return true
	default:
		return false
	}
}

// pooled is a sandbox that outlives the calls that use it. It belongs to one agent in one step of a run, or in one
// session.
type pooled struct {
	// key names it in the pool. run is the last that used it, guarded by Pool.mu; step is empty where a session has it.
	key, run, step, workspace string
	// opened is what it was opened with.
	opened fingerprint
	wall   time.Duration
	since  time.Time
	open   Open

	// Guarded by Pool.mu: how many use it, since when none does, whether it has left the pool, whether its last command
	// ended in a way that it may have died of.
	users int
	idle  time.Time
	off   bool
	doubt bool
}

// Pool has the sandboxes that are kept between calls.
type Pool struct {
	// ended reports whether a run has ended.
	ended func(ctx context.Context, run string) bool

	mu sync.Mutex
	// Guarded by mu: by key.
	all    map[string]*pooled
	closed bool
	// ending waits for the ends of sandboxes.
	ending sync.WaitGroup
}

// New returns an empty pool. ended reports whether a run has ended: the sandbox of a session goes on to its next run
// only then.
func New(ended func(ctx context.Context, run string) bool) *Pool { return &Pool{ended: ended} }

// wanted is what a call asks the pool for.
type wanted struct {
	key, run, step, workspace string
	opened                    fingerprint
	wall, need                time.Duration
	open                      Open
}

// take returns the sandbox of a key for one more user. One that was opened with something else, or does not live as
// long as is needed, gives way to a new one. rested is how long it was unused, less than 0 where it is new.
func (p *Pool) take(w wanted, now time.Time) (k *pooled, rested time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k = p.all[w.key]; k != nil {
		short := k.wall > 0 && k.wall-now.Sub(k.since) < min(w.need, k.wall)
		others := k.users > 0 && k.run != w.run
		if k.opened.same(w.opened) && !others && (!short || k.users > 0) {
			if k.users == 0 {
				rested = now.Sub(k.idle)
			}
			k.users++
			k.run = w.run
			return k, max(rested, 0)
		}
		p.remove(k)
	}
	k = &pooled{key: w.key, run: w.run, step: w.step, workspace: w.workspace, opened: w.opened, wall: w.wall, since: now,
		open: sync.OnceValues(w.open), users: 1}
	if k.off = p.closed; k.off {
		return k, -1
	}
	if p.all == nil {
		p.all = map[string]*pooled{}
	}
	p.all[w.key] = k
	return k, -1
}

// give takes a sandbox back from a user.
func (p *Pool) give(k *pooled, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.users--; k.users > 0 {
		return
	}
	k.idle = now
	if k.off {
		p.destroy(k)
		return
	}
	p.bound()
}

// discard takes a sandbox out of the pool: it ends with its last user.
func (p *Pool) discard(k *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(k)
}

// bound lets those go that were not used for longest where there are too many; mu is held.
func (p *Pool) bound() {
	var idle []*pooled
	for _, k := range p.all {
		if k.users == 0 {
			idle = append(idle, k)
		}
	}
	slices.SortFunc(idle, func(a, b *pooled) int { return a.idle.Compare(b.idle) })
	for _, k := range idle[:max(0, len(idle)-maxUnused)] {
		p.remove(k)
	}
}

// remove takes a sandbox out of the pool: no call gets it any more, and it ends with its last user. mu is held.
func (p *Pool) remove(k *pooled) {
	if k.off {
		return
	}
	k.off = true
	delete(p.all, k.key)
	if k.users == 0 {
		p.destroy(k)
	}
}

// destroy ends a sandbox that no call can get any more; mu is held.
func (p *Pool) destroy(k *pooled) {
	p.ending.Go(func() {
		sb, err := k.open()
		if err != nil {
			return // nothing was opened, and the call that wanted it knows why
		}
		ctx, cancel := context.WithTimeout(context.Background(), shutTime)
		defer cancel()
		_ = sb.Destroy(ctx) // what is left is known to the reaper
	})
}

// drop removes all that which reports.
func (p *Pool) drop(which func(*pooled) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.all {
		if which(k) {
			p.remove(k)
		}
	}
}

// Expire removes what was unused for some time.
func (p *Pool) Expire(keep time.Duration, now time.Time) {
	p.drop(func(k *pooled) bool {
		return k.users == 0 && (now.Sub(k.idle) >= keep || k.wall > 0 && now.Sub(k.since) >= k.wall)
	})
}

// EndSteps removes the sandboxes of steps of a run that have ended.
func (p *Pool) EndSteps(runID string, ended func(step string) bool) {
	p.drop(func(k *pooled) bool { return k.run == runID && k.step != "" && ended(k.step) })
}

// DropWorkspace removes the sandboxes on a workspace.
func (p *Pool) DropWorkspace(workspace string) {
	p.drop(func(k *pooled) bool { return k.workspace == workspace })
}

// Clear removes all.
func (p *Pool) Clear() { p.drop(func(*pooled) bool { return true }) }

// Close destroys all, and waits. Nothing is kept any more.
func (p *Pool) Close() {
	p.Clear()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ending.Wait()
}

// shut reports whether nothing is kept any more.
func (p *Pool) shut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Runs are those that have sandboxes of a step here.
func (p *Pool) Runs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []string
	for _, k := range p.all {
		if k.step != "" {
			ids = append(ids, k.run)
		}
	}
	return ids
}

// Has reports whether a run has sandboxes of a step here.
func (p *Pool) Has(runID string) bool { return slices.Contains(p.Runs(), runID) }

// Size is how many sandboxes are kept.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// last returns the run that used the sandbox of a key last; empty where there is none.
func (p *Pool) last(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.all[key]; k != nil {
		return k.run
	}
	return ""
}

// suspect notes that a sandbox may be dead.
func (p *Pool) suspect(k *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.doubt = true
}

func (p *Pool) doubts(k *pooled) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.doubt
}
