package jobs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/pkg/tool"
)

// Limits of jobs.
const (
	// maxPerRun is how many jobs of one run may run at a time, maxHere how many of all runs.
	maxPerRun = 8
	maxHere   = 128
	// maxStarted is how many one step may start.
	maxStarted = 32
	// maxOutput is how many bytes of a job's output are kept at least, the newest; a quarter more at most.
	maxOutput = 1 << 20
	// maxHints is how many hints wait to be looked at; what is let go is found by the next look at all.
	maxHints = 1024
	// shutTime bounds the end of a sandbox.
	shutTime = 10 * time.Second
	// lookTime bounds one look at a run.
	lookTime = 30 * time.Second
)

// registry has the jobs of this process, and the sandboxes that they are in. The zero registry is empty.
type registry struct {
	mu sync.Mutex
	// Guarded by mu: the jobs by run, the oldest first, and the sandboxes that they are in by run and step.
	byRun     map[string][]*job
	sandboxes map[string]*stepSandbox
	closed    bool
	// wrotes counts the jobs of runs in whose workspace one may have written after the last look at it; guarded by mu.
	wrotes map[string]int
	// all waits for the ends of jobs.
	all sync.WaitGroup
}

// stepSandbox is the sandbox of a step, as long as a job is in it. Other calls of the step are carried out in it too:
// they see the same HOME and TMPDIR, and limits bound all of them together.
type stepSandbox struct {
	open   pool.Open
	egress *pool.Egress
	// users of it, guarded by registry.mu.
	users int
}

// shared is the sandbox of a step for one call, which does not end it.
type shared struct{ sandbox.Sandbox }

var _ sandbox.Sandbox = shared{}

// Inside implements sandbox.Elsewhere.
func (s shared) Inside() string { return sandbox.Seen(s.Sandbox) }

// Destroy implements sandbox.Sandbox.
func (shared) Destroy(context.Context) error { return nil }

// join returns the sandbox of a step that has one; leave must be called.
func (g *registry) join(runID, step string) (sb *stepSandbox, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sb = g.sandboxes[runID+"/"+step]
	if sb == nil {
		return nil, nil
	}
	sb.users++
	return sb, func() { g.leave(runID, step, sb) }
}

// enter is join, where make makes one that is missing.
func (g *registry) enter(runID, step string, make func() *stepSandbox) (sb *stepSandbox, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := runID + "/" + step
	if sb = g.sandboxes[key]; sb == nil {
		sb = make()
		if g.sandboxes == nil {
			g.sandboxes = map[string]*stepSandbox{}
		}
		g.sandboxes[key] = sb
	}
	sb.users++
	return sb, func() { g.leave(runID, step, sb) }
}

// leave destroys a sandbox that no call uses any more.
func (g *registry) leave(runID, step string, sb *stepSandbox) {
	g.mu.Lock()
	sb.users--
	last := sb.users == 0
	if key := runID + "/" + step; last && g.sandboxes[key] == sb {
		delete(g.sandboxes, key)
	}
	g.mu.Unlock()
	if !last {
		return
	}
	if opened, err := sb.open(); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), shutTime)
		defer cancel()
		_ = opened.Destroy(ctx) // its processes are gone; what is left is a directory of ours, which the reaper knows
	}
	sb.egress.Close()
}

// add makes room for a job, which must be launched then: until that has returned, close waits.
func (g *registry) add(j *job) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	here, ofRun := 0, 0
	for id, list := range g.byRun {
		for _, other := range list {
			if !other.ended() {
				here++
				if id == j.run {
					ofRun++
				}
			}
		}
	}
	switch {
	case g.closed:
		return tool.Fail(tool.Transient, "", errClosing)
	case ofRun >= maxPerRun:
		return tool.Fail(tool.Permanent, "end a background command with kill_shell, or wait until one ends",
			fmt.Errorf("this run has %d background commands, the limit is %d", ofRun, maxPerRun))
	case here >= maxHere:
		return tool.Fail(tool.Transient, "", fmt.Errorf("this machine has %d background commands, the limit is %d", here,
			maxHere))
	}
	if g.byRun == nil {
		g.byRun = map[string][]*job{}
	}
	g.byRun[j.run] = append(g.byRun[j.run], j)
	g.all.Add(1)
	return nil
}

// writes notes that a job of a run is about to write into its workspace.
func (g *registry) writes(runID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrotes == nil {
		g.wrotes = map[string]int{}
	}
	g.wrotes[runID]++
}

// wrote returns whether jobs of a run, of whatever step, may have written what was not looked at since: n is 0 where
// none has. quiet says that all of them have ended.
func (g *registry) wrote(runID string) (n int, quiet bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wrotes[runID], !slices.ContainsFunc(g.byRun[runID], func(j *job) bool { return !j.ended() })
}

// rest notes that a run was looked at when n jobs of it had written and all were gone, or with 0 that it has ended.
func (g *registry) rest(runID string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == 0 || g.wrotes[runID] == n {
		delete(g.wrotes, runID)
	}
}

// drop forgets a job.
func (g *registry) drop(j *job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := slices.DeleteFunc(g.byRun[j.run], func(o *job) bool { return o == j })
	if g.byRun[j.run] = list; len(list) == 0 {
		delete(g.byRun, j.run)
	}
}

// of returns the jobs of a run, the oldest first.
func (g *registry) of(runID string) []*job {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.byRun[runID])
}

// find returns a job of a step; nil where it is not here.
func (g *registry) find(runID, step, handle string) *job {
	for _, j := range g.of(runID) {
		if j.step == step && j.handle == handle {
			return j
		}
	}
	return nil
}

// runs are the ids of the runs that have jobs here.
func (g *registry) runs() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ids []string
	for id := range g.byRun {
		ids = append(ids, id)
	}
	return ids
}

// charge returns what a job used that has ended, once.
func (g *registry) charge(j *job) (sandbox.Exit, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !j.ended() || j.charged {
		return sandbox.Exit{}, false
	}
	j.charged = true
	return j.exit, true
}

// close ends all jobs and waits until they are gone. None is started any more.
func (g *registry) close() {
	g.mu.Lock()
	g.closed = true
	for _, list := range g.byRun {
		for _, j := range list {
			j.stop(errClosing)
		}
	}
	g.mu.Unlock()
	g.all.Wait()
}
