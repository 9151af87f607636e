package toolrunner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// maxShelved is how many sandboxes that nobody uses are kept; the one that was not used for longest goes first.
const maxShelved = 32

// slow reports whether sandboxes of a mode take so long to open that one is kept for all calls of a step. The others are
// there in milliseconds; they are kept for the inputs of a session alone, whose files they hold (SBX-19).
func slow(m sandbox.Mode) bool {
	switch m {
	case sandbox.Docker, sandbox.GVisor, sandbox.Firecracker, sandbox.QEMU, sandbox.E2B, sandbox.Kubernetes:
		return true
	default:
		return false
	}
}

// kept is a sandbox that outlives the calls that use it. It belongs to one agent in one step of a run, or in one session.
type kept struct {
	// key is its place on the shelf. run is the last that used it, guarded by shelf.mu; step is empty where a session has it.
	key, run, step, workspace string
	// plan is what it was opened with.
	plan  plan
	wall  time.Duration
	since time.Time
	open  func() (sandbox.Sandbox, error)

	// Guarded by shelf.mu: how many use it, since when nobody does, whether it is on the shelf no more, whether its last
	// command ended in a way that it may have died of.
	users int
	idle  time.Time
	off   bool
	doubt bool
}

// shelf has the sandboxes that are kept. The zero shelf is empty.
type shelf struct {
	mu sync.Mutex
	// Guarded by mu: by key.
	all    map[string]*kept
	closed bool
	// ending waits for the ends of sandboxes.
	ending sync.WaitGroup
}

// want is what a call asks the shelf for.
type want struct {
	key, run, step, workspace string
	plan                      plan
	wall, need                time.Duration
	open                      func() (sandbox.Sandbox, error)
}

// take returns the sandbox of a key for one more user. One that was opened with something else, or does not live as long as is
// needed, gives way to a new one. rested is how long nobody used it, less than 0 where it is new.
func (s *shelf) take(w want, now time.Time) (k *kept, rested time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k = s.all[w.key]; k != nil {
		short := k.wall > 0 && k.wall-now.Sub(k.since) < min(w.need, k.wall)
		others := k.users > 0 && k.run != w.run
		if k.plan.same(w.plan) && !others && (!short || k.users > 0) {
			if k.users == 0 {
				rested = now.Sub(k.idle)
			}
			k.users++
			k.run = w.run
			return k, max(rested, 0)
		}
		s.remove(k)
	}
	k = &kept{key: w.key, run: w.run, step: w.step, workspace: w.workspace, plan: w.plan, wall: w.wall, since: now, open: sync.OnceValues(w.open), users: 1}
	if k.off = s.closed; k.off {
		return k, -1
	}
	if s.all == nil {
		s.all = map[string]*kept{}
	}
	s.all[w.key] = k
	return k, -1
}

// give takes a sandbox back from a user.
func (s *shelf) give(k *kept, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.users--; k.users > 0 {
		return
	}
	k.idle = now
	if k.off {
		s.destroy(k)
		return
	}
	s.bound()
}

// discard takes a sandbox off the shelf: it ends with its last user.
func (s *shelf) discard(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(k)
}

// bound lets those go that were not used for longest where there are too many; mu is held.
func (s *shelf) bound() {
	var idle []*kept
	for _, k := range s.all {
		if k.users == 0 {
			idle = append(idle, k)
		}
	}
	slices.SortFunc(idle, func(a, b *kept) int { return a.idle.Compare(b.idle) })
	for _, k := range idle[:max(0, len(idle)-maxShelved)] {
		s.remove(k)
	}
}

// remove takes a sandbox off the shelf: nobody gets it any more, and it ends with its last user. mu is held.
func (s *shelf) remove(k *kept) {
	if k.off {
		return
	}
	k.off = true
	delete(s.all, k.key)
	if k.users == 0 {
		s.destroy(k)
	}
}

// destroy ends a sandbox that nobody can get any more; mu is held.
func (s *shelf) destroy(k *kept) {
	s.ending.Go(func() {
		box, err := k.open()
		if err != nil {
			return // nothing was opened, and who wanted it was told
		}
		ctx, cancel := context.WithTimeout(context.Background(), shutTime)
		defer cancel()
		_ = box.Destroy(ctx) // what is left is known to the reaper
	})
}

// drop removes all that which reports.
func (s *shelf) drop(which func(*kept) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.all {
		if which(k) {
			s.remove(k)
		}
	}
}

// expire removes what nobody used for some time.
func (s *shelf) expire(keep time.Duration, now time.Time) {
	s.drop(func(k *kept) bool {
		return k.users == 0 && (now.Sub(k.idle) >= keep || k.wall > 0 && now.Sub(k.since) >= k.wall)
	})
}

// end removes the sandboxes of steps of a run that have ended.
func (s *shelf) end(runID string, ended func(step string) bool) {
	s.drop(func(k *kept) bool { return k.run == runID && k.step != "" && ended(k.step) })
}

// leave removes the sandboxes on a workspace.
func (s *shelf) leave(workspace string) {
	s.drop(func(k *kept) bool { return k.workspace == workspace })
}

// clear removes all.
func (s *shelf) clear() { s.drop(func(*kept) bool { return true }) }

// close destroys all, and waits. Nothing is kept any more.
func (s *shelf) close() {
	s.clear()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ending.Wait()
}

// shut reports whether nothing is kept any more.
func (s *shelf) shut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// runs are those that have sandboxes of a step here.
func (s *shelf) runs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, k := range s.all {
		if k.step != "" {
			ids = append(ids, k.run)
		}
	}
	return ids
}

func (s *shelf) has(runID string) bool { return slices.Contains(s.runs(), runID) }

func (s *shelf) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// last returns the run that used the sandbox of a key last; empty where there is none.
func (s *shelf) last(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.all[key]; k != nil {
		return k.run
	}
	return ""
}

// suspect notes that a sandbox may be dead.
func (s *shelf) suspect(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.doubt = true
}

func (s *shelf) doubts(k *kept) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return k.doubt
}
