// Package toolrunner is the role that carries out tool calls.
//
// Promises: written before done, done before acknowledged. A call with effects begins only after this very delivery
// has stored its call.started; its result counts only with that fence. A once call whose runner was lost is never
// begun again. When a call's time is up or its run ends, the work itself is ended, not only the waiting for it.
package toolrunner

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/janitor"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Config holds what the role needs.
type Config struct {
	Ledger *runlog.Ledger
	Timers kernel.Timers
	Blobs  kernel.Blobs
	// Live takes what tools say as it comes; nil says nothing.
	Live   *streaming.Feed
	Leases kernel.Leases
	// Ends may be nil; it ends calls of runs that were stopped.
	Ends  *runlog.Ends
	Tools *tool.Registry
	// ToolsOf returns the tools of an agent, those of its servers too; nil means Tools for every agent.
	ToolsOf   func(events.Agent) *tool.Registry
	Sandboxes *pool.Opener
	// Trees let workspaces follow their runs; nil leaves each on the machine that made it.
	Trees *workspace.Trees
	// Uses notes which runs work in the workspaces of this machine, so that CleanUp can take them away; nil takes none away.
	Uses *workspace.Uses
	// Egress opens the way out for agents that may reach something; nil lets none reach anything.
	Egress *egress.Proxy
	// Git does the git work of runs; nil does none.
	Git *gitwork.Desk
	// Rescue keeps elsewhere, in a scope, what the repository of a directory has and no remote has, and reports whether that is
	// all of its work. Nil keeps nothing: then directories with a repository are put aside instead of removed.
	Rescue func(ctx context.Context, scope, dir string) (bool, error)
	// Artifacts keeps what calls make; nil keeps nothing.
	Artifacts *capture.Keeper
	// Hooks asks those who are to be asked about a result; nil lets every hook of an agent block.
	Hooks *hooks.Asker
	// Sessions tells of the sessions that runs work in; nil writes no files of them.
	Sessions kernel.Shelf
	// Instance names this process; it holds the leases of the attempts it begins.
	Instance string
	// Key makes idempotency keys; the same for all toolrunners of a station.
	Key []byte
	// Secrets are taken out of what tools answer, before it is stored or shown.
	Secrets []secret.Value
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Role is the toolrunner.
type Role struct {
	cfg Config
	mu  sync.Mutex
	// busy counts the attempts under way by run and call, guarded by mu.
	busy map[string]int
	// janitor looks after the workspaces of runs that have ended.
	janitor *janitor.Janitor
	// overheard are permitted calls of workspaces held here, for Early; more than maxOverheard are let go.
	overheard chan permitted
	// clean are the runs that began here whose artifacts are taken out of their workspace at the end, guarded by mu.
	clean    map[string]string
	sessions *provision.SessionFiles
	files    *provision.RunFiles
	// mask takes the secrets out of a text.
	mask func(string) string
	// jobs has the commands that go on after their calls.
	jobs *jobs.Supervisor
	// pool has the sandboxes that are kept between calls.
	pool *pool.Pool
}

var _ runlog.Role = (*Role)(nil)

// New checks the configuration.
func New(cfg Config) (*Role, error) {
	if cfg.Ledger == nil || cfg.Timers == nil || cfg.Blobs == nil || cfg.Leases == nil || cfg.Tools == nil || cfg.Sandboxes == nil {
		return nil, errors.New("toolrunner needs a ledger, timers, blobs, leases, tools and sandboxes")
	}
	if cfg.Instance == "" || len(cfg.Key) == 0 {
		return nil, errors.New("toolrunner needs an instance name and a station key")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.ToolsOf == nil {
		cfg.ToolsOf = func(events.Agent) *tool.Registry { return cfg.Tools }
	}
	ended := func(ctx context.Context, runID string) bool {
		s, err := cfg.Ledger.Fresh(ctx, runID)
		return err == nil && s.Status.Ended()
	}
	sandboxes := pool.New(ended)
	r := &Role{cfg: cfg, pool: sandboxes, busy: make(map[string]int), overheard: make(chan permitted, maxOverheard), clean: make(map[string]string),
		mask: secret.Mask(cfg.Secrets...), files: provision.NewRunFiles(cfg.Sandboxes.Root()), sessions: provision.NewSessionFiles(cfg.Sandboxes.Root(), cfg.Sessions, cfg.Blobs)}
	r.jobs = jobs.New(jobs.Config{Ledger: cfg.Ledger, Leases: cfg.Leases, Trees: cfg.Trees, Pool: sandboxes, Keep: cfg.Sandboxes.Keep(), Live: cfg.Live,
		Instance: cfg.Instance, Secrets: cfg.Secrets})
	r.janitor = janitor.New(janitor.Config{Ledger: cfg.Ledger, Leases: cfg.Leases, Sessions: cfg.Sessions, Root: cfg.Sandboxes.Root(), Cache: cfg.Sandboxes.Cache(),
		Trees: cfg.Trees, Uses: cfg.Uses, Git: cfg.Git, Rescue: cfg.Rescue, Files: r.sessions, Working: r.working, EndJobs: r.jobs.End,
		DropSandboxes: sandboxes.DropWorkspace, Instance: cfg.Instance, Now: cfg.Now})
	return r, nil
}

// Service implements runlog.Role.
func (*Role) Service() events.Service { return events.Toolrunner }

// Fact implements runlog.Role.
func (r *Role) Fact(ctx context.Context, h runlog.Heard) error {
	return r.serve(ctx, h.Run, h.Call, h.State, h.Deliveries)
}

// Due implements runlog.Role: a deferred call may be tried again.
func (r *Role) Due(ctx context.Context, runID, _, callID string, s run.State) error {
	return r.serve(ctx, runID, callID, s, busyDue)
}

// watchEvery is how soon a call that another instance holds is looked at again.
const watchEvery = 5 * time.Second

// serve does what is owed to one call, until this very delivery has said something or nothing is owed any more. A duty
// that was found in an old state is not done by somebody else just because it is not there any more: the state that took
// its place is looked at before the message is let go.
func (r *Role) serve(ctx context.Context, runID, callID string, s run.State, deliveries uint64) error {
	for {
		lease, err := r.lease(ctx, runID, s.Open[callID])
		if err != nil {
			return err
		}
		duty := call.Next(s, callID, r.cfg.Now(), lease)
		switch duty.Kind {
		case call.Nothing:
			return nil
		case call.Wait:
			return r.cfg.Timers.Set(ctx, runID, "call."+callID, duty.At)
		case call.Watch:
			return &kernel.Later{After: r.watch(s, callID, deliveries)}
		default: // there is something to do now
		}
		w, err := r.act(ctx, s, duty, deliveries)
		if err != nil || len(w.Facts) > 0 {
			return err
		}
		s = w.State
	}
}

// act does what a duty asks for and tells what was said about it in the end: nothing where the duty is out of date.
func (r *Role) act(ctx context.Context, s run.State, duty call.Duty, deliveries uint64) (w runlog.Written, err error) {
	switch duty.Kind {
	case call.Begin, call.Verify:
		defer r.hold(s.HarnessID, duty.Call.ID)()
		if !r.single(s.HarnessID, duty) {
			return runlog.Written{}, &kernel.Later{After: again(deliveries)}
		}
		if away, err := r.elsewhere(ctx, s, duty.Call); err != nil {
			return runlog.Written{}, err
		} else if away {
			return runlog.Written{}, &kernel.Later{After: again(deliveries)}
		}
		var p place
		if p, err = r.enter(ctx, s, duty.Call.Step, deliveries); err != nil {
			return runlog.Written{}, err
		}
		defer func() {
			p.leave()
			if err != nil || w.State.Status.Ended() {
				r.janitor.MayGiveBack(s.HarnessID) // the run may have ended before it came into its workspace
			}
		}()
		if duty.Kind == call.Begin {
			return r.begin(ctx, s, duty, p)
		}
		return r.verify(ctx, s, duty, p)
	case call.Exhausted:
		return r.say(ctx, s.HarnessID, func(s run.State, _ time.Time) []events.Payload { return call.GiveUp(s, duty) })
	default: // it is lost
	}
	return r.lost(ctx, s, duty, r.here(s))
}

func (r *Role) say(ctx context.Context, runID string, decide func(run.State, time.Time) []events.Payload) (runlog.Written, error) {
	return r.cfg.Ledger.Write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) { return decide(s, now), nil })
}

// lease tells whether the instance that began a call still works on it.
func (r *Role) lease(ctx context.Context, runID string, c *run.Call) (call.Lease, error) {
	if c == nil || c.Phase != run.CallStarted {
		return call.Lease{}, nil
	}
	if c.Runner == r.cfg.Instance {
		r.mu.Lock()
		defer r.mu.Unlock()
		return call.Lease{Held: r.busy[runID+"/"+c.ID] > 0}, nil
	}
	alive, err := r.cfg.Leases.Alive(ctx, c.Runner)
	if err != nil {
		return call.Lease{}, fmt.Errorf("lease of %s: %w", c.Runner, err)
	}
	return call.Lease{Held: alive}, nil
}

// hold marks a call as worked on by this instance until the function returned is called.
func (r *Role) hold(runID, callID string) func() {
	key := runID + "/" + callID
	r.mu.Lock()
	r.busy[key]++
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.busy[key]--; r.busy[key] <= 0 {
			delete(r.busy, key)
		}
	}
}

// working reports whether this instance is at work for a run.
func (r *Role) working(runID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.busy {
		if strings.HasPrefix(key, runID+"/") {
			return true
		}
	}
	return false
}

// begin announces an attempt, carries it out and says what came of it. Only the Write that stored call.started gives
// the right to act.
func (r *Role) begin(ctx context.Context, s run.State, d call.Duty, p place) (runlog.Written, error) {
	if p.broken == nil {
		if err := r.sessions.Write(ctx, s, p.Dir, func(ctx context.Context, e events.Session) error {
			return r.janitor.Clear(ctx, p.Dir, events.DeletedScope(e))
		}); spoiled(err) {
			p.broken = err
		} else if err != nil {
			return runlog.Written{}, err
		}
	}
	a := call.Attempt{Call: d.Call, Number: d.Attempt, Sandbox: string(r.cfg.Sandboxes.ModeFor(s, d.Call.Step))}
	input, err := r.input(ctx, d.Call)
	if err != nil {
		return runlog.Written{}, err
	}
	a.Fence = d.Call.Fence
	if call.NeedsStart(d.Call.Effect) {
		w, err := r.say(ctx, s.HarnessID, func(s run.State, _ time.Time) []events.Payload {
			return call.Start(s, d, r.cfg.Instance, a.Sandbox, events.Preview(input))
		})
		said, mine := w.Wrote(events.CallStarted)
		if err != nil || !mine {
			return w, err
		}
		a.Fence = said.Sequence
	}
	return r.attempt(ctx, s, a, input, p)
}

func (r *Role) input(ctx context.Context, c run.Call) ([]byte, error) {
	if c.InputRef == nil {
		return c.Input, nil
	}
	b, err := r.cfg.Blobs.Get(ctx, *c.InputRef)
	if err != nil {
		return nil, fmt.Errorf("arguments of call %s: %w", c.ID, err)
	}
	return b, nil
}

// elsewhere reports whether a call goes on with jobs that run at another toolrunner: it is left to that one.
func (r *Role) elsewhere(ctx context.Context, s run.State, c run.Call) (bool, error) {
	st := s.Step(c.Step)
	if st == nil || len(st.Background) == 0 {
		return false, nil
	}
	t, _ := r.tool(s, c)
	goesOn, ok := t.(tool.Continuing)
	if !ok {
		return false, nil
	}
	input, err := r.input(ctx, c)
	if err != nil {
		return false, err
	}
	handle, ok := goesOn.Continues(input)
	if !ok {
		return false, nil
	}
	return r.jobs.Elsewhere(ctx, s, c.Step, handle)
}

// Ended takes note of a run that may have ended. It may wait for those who write files of sessions.
func (r *Role) Ended(runID string) {
	r.janitor.MayGiveBack(runID)
	r.jobs.MayHaveEnded(runID)
	r.sessions.Ended(runID)
	r.Leave(runID)
	r.janitor.MayRemove(runID) // last: the files above are in the workspace
}

// Input implements kernel.Role: the files of a session that was deleted go.
func (r *Role) Input(ctx context.Context, m kernel.Message) error {
	return r.janitor.DeleteSession(ctx, m)
}

// Janitor looks after the workspaces of runs that have ended; its loops are the caller's.
func (r *Role) Janitor() *janitor.Janitor { return r.janitor }

// Mind supervises jobs and pooled sandboxes until ctx ends, and then ends them all.
func (r *Role) Mind(ctx context.Context, report func(error)) { r.jobs.Run(ctx, report) }

// tool finds the tool of a call among those of the agent that made it.
func (r *Role) tool(s run.State, c run.Call) (tool.Tool, bool) {
	tools := r.cfg.Tools
	if st := s.Step(c.Step); st != nil {
		if agent, ok := s.Agent(st.AssignedAgent); ok {
			tools = r.cfg.ToolsOf(agent)
		}
	}
	return tools.Get(c.Tool)
}

// key is the idempotency key of a call: the same for each of its attempts, and unguessable without the station key.
func (r *Role) key(runID, callID string) string {
	h := hmac.New(sha256.New, r.cfg.Key)
	h.Write([]byte(runID + "|" + callID))
	return hex.EncodeToString(h.Sum(nil))
}
