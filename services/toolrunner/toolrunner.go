// Package toolrunner is the role that carries out tool calls.
//
// Promises: written before done, done before acknowledged. A call with effects begins only after this very delivery
// has stored its call.started; its result counts only with that fence. A once call whose runner was lost is never
// begun again. When a call's time is up or its run ends, the work itself is ended, not only the waiting for it.
//
// A call passes through stages, each in a file of its own: admit, acquire, provision, start, open, execute, snapshot,
// capture, finish. A stage takes the value of the one before and returns its own; from start on the value carries the
// fence.
package toolrunner

import (
	"context"
	"errors"
	"slices"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/gitwork/gitcall"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/janitor"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Config holds what the role needs. Ends and Hooks may be nil.
type Config struct {
	Ledger *runlog.Ledger
	Timers kernel.Timers
	Blobs  kernel.Blobs
	Leases kernel.Leases
	// Ends ends the calls of runs that were stopped.
	Ends  *runlog.Ends
	Tools Tools
	// Sandboxes opens the sandboxes of calls, Pool keeps some of them between calls, Jobs are the commands that go on
	// after them.
	Sandboxes *pool.Opener
	Pool      *pool.Pool
	Jobs      *jobs.Supervisor
	// Workspaces are those of runs; Sessions and Files write readable files into them, Janitor removes them.
	Workspaces workspace.Workspaces
	Sessions   *provision.SessionFiles
	Files      *provision.RunFiles
	Janitor    *janitor.Janitor
	// Artifacts captures what calls make, Git does the git work of calls.
	Artifacts *capture.Calls
	Git       *gitcall.Calls
	Judges
	Parts
	// Output takes what tools write as it comes, and Mask takes the secrets out of what is stored.
	Output func(run string, about streaming.About) *streaming.Output
	Mask   func(string) string
	Identity
}

// Judges decide about what calls and steps came to.
type Judges struct {
	// Hooks asks those that are to be asked about a result; nil lets every hook of an agent block.
	Hooks *hooks.Asker
	// Checks carries out the acceptance checks of claims.
	Checks Checks
}

// Checks carries out the acceptance checks of a step that are due, and records what they come to.
type Checks interface {
	Step(ctx context.Context, s run.State, step string) error
	// Fill makes the workspace of a run that reviews, at a path below the workspace root, a copy of what it reviews.
	Fill(ctx context.Context, s run.State, at string) error
}

// Parts serve what is no stage of a call.
type Parts struct {
	Previews Previews
	Inner    Inner
}

// Previews shows what calls at gates would change.
type Previews interface {
	// Serve receives the event that opened a gate.
	Serve(ctx context.Context, h runlog.ReceivedEvent) error
}

// Inner records what programs of others do inside of calls.
type Inner interface {
	// Of returns what records the work inside of an attempt of a run; nil for calls that no program carries out.
	Of(runID string, a call.Attempt) tool.Inner
	// Verdict says that there may be a verdict on a call inside of a run.
	Verdict(runID string)
}

// Identity is what a toolrunner has of its own.
type Identity struct {
	// Instance names this process; it holds the leases of the attempts it begins.
	Instance string
	// Reap ends what lost toolrunners left on this machine, before one of their calls goes on here; nil does nothing.
	Reap func(ctx context.Context)
	// Keys make idempotency keys; the same for all toolrunners of a station.
	Keys Keyring
}

// Role is the toolrunner: the stages of a call, in their order.
type Role struct {
	cfg       Config
	admit     admitter
	acquire   acquirer
	provision provisioner
	start     starter
	execute   executor // with the opener
	capture   capturer
	finish    finisher
	delegate  delegator
	// permitted are calls of workspaces held here that were republished as allowed; more than maxPermitted are let go.
	permitted chan permitted
}

var _ runlog.Role = (*Role)(nil)

// New checks the configuration.
func New(cfg Config) (*Role, error) {
	ports := cfg.Ledger != nil && cfg.Timers != nil && cfg.Blobs != nil && cfg.Leases != nil
	if !ports || cfg.Tools.All == nil || cfg.Tools.Of == nil || cfg.Output == nil || cfg.Mask == nil {
		return nil, errors.New("toolrunner needs a ledger, timers, blobs, leases, tools, an output and a mask")
	}
	sandboxes := cfg.Sandboxes != nil && cfg.Pool != nil && cfg.Jobs != nil
	workspaces := cfg.Workspaces.Attempts != nil && cfg.Sessions != nil && cfg.Files != nil && cfg.Janitor != nil
	if !sandboxes || !workspaces || cfg.Artifacts == nil || cfg.Git == nil {
		return nil, errors.New("toolrunner needs sandboxes, workspaces and what works in them")
	}
	if cfg.Checks == nil || cfg.Previews == nil || cfg.Inner == nil {
		return nil, errors.New("toolrunner needs checks, previews and what records the work of programs")
	}
	if cfg.Instance == "" || cfg.Keys == nil {
		return nil, errors.New("toolrunner needs an instance name and the keys of the station")
	}
	r := &Role{cfg: cfg, permitted: make(chan permitted, maxPermitted)}
	r.admit = admitter{leases: cfg.Leases, instance: cfg.Instance, reap: cfg.Reap, attempts: cfg.Workspaces.Attempts,
		follow: cfg.Workspaces.Trees != nil, tools: cfg.Tools, blobs: cfg.Blobs, jobs: cfg.Jobs}
	r.acquire = acquirer{cfg.Workspaces}
	r.provision = provisioner{cfg.Sessions, cfg.Files, cfg.Janitor, cfg.Artifacts}
	r.start = starter{ledger: cfg.Ledger, blobs: cfg.Blobs, sandboxes: cfg.Sandboxes, instance: cfg.Instance,
		keys: cfg.Keys}
	results := capture.Results{Blobs: cfg.Blobs, Mask: cfg.Mask, Instance: cfg.Instance}
	open := opener{ledger: cfg.Ledger, sandboxes: cfg.Sandboxes, pool: cfg.Pool, jobs: cfg.Jobs, provision: r.provision,
		artifacts: cfg.Artifacts, git: cfg.Git, output: cfg.Output, inner: cfg.Inner}
	r.finish = finisher{ledger: cfg.Ledger, timers: cfg.Timers, files: cfg.Files}
	r.execute = executor{opener: open, tools: cfg.Tools, ends: cfg.Ends}
	r.capture = capturer{results: results, artifacts: cfg.Artifacts, hooks: cfg.Hooks, tools: cfg.Tools,
		git: cfg.Git}
	r.delegate = delegator{blobs: cfg.Blobs, hooks: cfg.Hooks, ledger: cfg.Ledger}
	return r, nil
}

// Service implements runlog.Role.
func (*Role) Service() events.Service { return events.Toolrunner }

// Event implements runlog.Role.
func (r *Role) Event(ctx context.Context, h runlog.ReceivedEvent) error {
	switch h.Kind {
	case events.GateOpened:
		return r.cfg.Previews.Serve(ctx, h)
	case events.StepClaimed:
		return r.cfg.Checks.Step(ctx, h.State, h.Step)
	case events.GateApproved, events.GateRejected, events.GateExpired:
		// A person may have decided a check; of another gate none is due.
		return r.cfg.Checks.Step(ctx, h.State, h.Step)
	case events.ChildSpawned, events.ChildFinished:
		return r.child(ctx, h)
	default:
		return r.serve(ctx, h.Run, h.Call, h.State, h.Deliveries)
	}
}

// Due implements runlog.Role: a deferred call may be tried again.
func (r *Role) Due(ctx context.Context, runID, _, callID string, s run.State) error {
	return r.serve(ctx, runID, callID, s, dueDeliveries)
}

// Input implements runlog.Role: the files of a session that was deleted go.
func (r *Role) Input(ctx context.Context, m kernel.Message) error {
	return r.cfg.Janitor.DeleteSession(ctx, m)
}

// serve does what is owed to one call, until this very delivery has stored something or nothing is owed any more. A
// duty that was found in an old state is not done by another worker just because it is not there any more: the state
// that took its place is looked at before the message is let go.
func (r *Role) serve(ctx context.Context, runID, callID string, s run.State, deliveries uint64) error {
	if c := s.Open[callID]; c != nil && call.Waits(c.Tool) {
		return r.delegate.serve(ctx, runID, callID, s)
	}
	for {
		duty, err := r.admit.next(ctx, runID, callID, s)
		if err != nil {
			return err
		}
		switch duty.Kind {
		case call.Nothing:
			return nil
		case call.Wait:
			return r.cfg.Timers.Set(ctx, runID, "call."+callID, duty.At, s.Sequence)
		case call.Watch:
			return &kernel.RetryAfter{After: r.admit.watch(s, callID, deliveries)}
		default: // there is something to do now
		}
		w, err := r.act(ctx, admitted{s, duty, deliveries})
		if err != nil || decided(w) {
			return err
		}
		s = w.State
	}
}

// decided reports whether it was stored what a call came to. What it made alone does not say that: another may have
// taken the call over between the two, and the message must not be let go while that one works.
func decided(w runlog.Written) bool {
	return slices.ContainsFunc(w.Events, func(e kernel.Appended) bool { return e.Payload.Kind() != events.ArtifactSaved })
}

// act does what a duty asks for and returns what was stored in the end: nothing where the duty is out of date.
func (r *Role) act(ctx context.Context, a admitted) (w runlog.Written, err error) {
	switch a.duty.Kind {
	case call.Begin, call.Verify:
	case call.Exhausted:
		return r.giveUp(ctx, a)
	default: // it is lost
		return r.lost(ctx, r.acquire.here(a))
	}
	leave, err := r.admit.claim(ctx, a)
	if err != nil {
		return w, err
	}
	defer leave()
	at, err := r.acquire.acquire(ctx, a)
	if err != nil {
		return w, err
	}
	defer func() {
		at.Release()
		if err != nil || w.State.Status.Ended() {
			r.cfg.Janitor.MayGiveBack(a.state.HarnessID) // the run may have ended before it came into its workspace
		}
	}()
	if a.duty.Kind == call.Verify {
		return r.verify(ctx, at)
	}
	return r.begin(ctx, at)
}

// begin announces an attempt, carries it out and records what came of it.
func (r *Role) begin(ctx context.Context, at acquired) (runlog.Written, error) {
	at, err := r.provision.provision(ctx, at)
	if err != nil {
		return runlog.Written{}, err
	}
	if at.Broken == nil && at.state.Created != nil && at.state.Created.Review != nil {
		if at.Broken, err = broken(ctx, r.cfg.Checks.Fill(ctx, at.state, at.Path)); err != nil {
			return runlog.Written{}, err
		}
	}
	st, w, err := r.start.start(ctx, at)
	if err != nil || st == nil { // another delivery announced it
		return w, err
	}
	x := r.execute.execute(ctx, st)
	if b := x.result.Background; b != nil && b.Started {
		defer r.cfg.Jobs.MayHaveEnded(at.state.HarnessID) // a job that no event names does not go on
	}
	x, err = snapshot(ctx, x)
	if err != nil {
		return runlog.Written{}, err
	}
	if errors.Is(x.err, runlog.ErrRunEnded) { // nothing is recorded of it
		s, err := r.cfg.Ledger.Fresh(ctx, at.state.HarnessID)
		return runlog.Written{State: s}, err
	}
	return r.finish.finish(ctx, r.capture.capture(ctx, x))
}
