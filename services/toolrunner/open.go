package toolrunner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/gitwork/gitcall"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// opened is a started call with all that its tool works with, until that is closed. The sandbox is opened on first use.
type opened struct {
	*started
	env     tool.Env
	sandbox *pool.Lazy
	egress  *pool.Egress
	// plain says that the result is read by programs: nothing is put before it. It is set before the tool works.
	plain bool
	close func()
}

// opener opens sandboxes for calls, and what else tools work with.
type opener struct {
	ledger    *runlog.Ledger
	sandboxes *pool.Opener
	pool      *pool.Pool
	jobs      *jobs.Supervisor
	provision provisioner
	artifacts *capture.Calls
	git       *gitcall.Calls
	output    func(run string, about streaming.About) *streaming.Output
	inner     Inner
}

// closeTime bounds the end of the sandbox of a call.
const closeTime = 10 * time.Second

// open gives a call its sandbox. What it changes is noted in changes.
func (o opener) open(ctx context.Context, st *started, changes *capture.Changes) *opened {
	s, c := st.state, st.attempt.Call
	out := o.egress(s, c.Step, st.attempt.Holds)
	open, pooled := o.sandbox(ctx, st, out, false, until(ctx))
	leave := func() {}
	if !out.Narrow() { // else it has an egress of its own
		if join, left := o.jobs.Join(s.HarnessID, c.Step); join != nil {
			leave, open = left, pool.OnFirstUse(st.touch, join)
		}
	}
	output := o.output(s.HarnessID, streaming.About{Step: c.Step, Attempt: st.attempt.Number, Call: c.ID, Tool: c.Tool})
	note := func(line string) { output.Write("stderr", []byte(line)) }
	sb := pool.NewLazy(pool.LazyConfig{ID: s.HarnessID, Mode: o.sandboxes.ModeFor(s, c.Step), Open: open, Pooled: pooled,
		Before: o.provision.first(ctx, st.acquired, note), Changed: changes.File})
	x := &opened{started: st, sandbox: sb, egress: out}
	x.env = tool.Env{Background: o.background(st, sb, changes), Sandbox: sb, Progress: output.Write,
		MaxOutput: events.MaxInlineOutput / 2, Skill: provision.Skills(s, c), Inner: o.inner.Of(s.HarnessID, st.attempt),
		Fetch: out.Fetch(), Save: o.artifacts.Saver(s, c, st.Dir, changes),
		Dir: func() string { return call.ShellDir(s, c.Step) },
		Git: o.git.For(s, st.attempt, st.Dir, func() {
			x.plain = true
			st.touch()
		}, note)}
	var unserve func()
	x.env.Local, unserve = pool.Local(out, sb.Mode())
	x.env.Sandbox = o.jobs.Home(ctx, jobs.ForServers{State: s, Attempt: st.attempt, Sandbox: sb, Dir: st.Dir,
		Sandboxes: o.sandboxes, Using: st.changing(changes)})
	x.close = func() {
		output.Close()
		unserve()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		_ = sb.Destroy(end) // its processes are gone with Exec; what is left is a directory of ours
		leave()
		out.Close()
	}
	return x
}

// sandbox returns what opens the sandbox of a call: one that is pooled, or one of its own. shared says that more than
// one call uses it.
func (o opener) sandbox(ctx context.Context, st *started, out *pool.Egress, shared bool,
	need time.Duration) (pool.Open, bool) {
	want := o.sandboxes.RequestFor(st.state, st.attempt.Call.Step, st.Dir, out)
	want.Shared = shared
	open := o.pool.Acquirer(ctx, o.sandboxes, st.state, st.attempt.Call.Step, want, need)
	pooled := open != nil
	if !pooled {
		open = o.sandboxes.Opening(ctx, want)
	}
	return pool.OnFirstUse(st.touch, open), pooled
}

// egress is the way of a step's agent to what it may reach, for as long as holds says so of the run.
func (o opener) egress(s run.State, step string, holds func(now run.State) bool) *pool.Egress {
	return o.sandboxes.EgressFor(s, step, func(ctx context.Context) (bool, error) {
		now, err := o.ledger.Fresh(ctx, s.HarnessID)
		return err == nil && holds(now), err
	})
}

// background is what a call starts jobs with; nil where its agent may not.
func (o opener) background(st *started, sb *pool.Lazy, changes *capture.Changes) tool.Background {
	step := st.attempt.Call.Step
	return o.jobs.For(jobs.ForCall{State: st.state, Attempt: st.attempt, Sandbox: sb, Workspace: st.Workspace,
		Captured: o.artifacts.On(st.state, st.attempt.Call),
		Starting: st.changing(changes),
		Open: func(ctx context.Context, limit time.Duration) (pool.Open, *pool.Egress) {
			out := o.egress(st.state, step, func(now run.State) bool {
				running := now.Step(step)
				return !now.Status.Ended() && running != nil && running.Status == events.StepIsRunning
			})
			open, _ := o.sandbox(ctx, st, out, true, limit)
			return open, out
		}})
}

// changing notes that any file may be changed from now on.
func (st *started) changing(changes *capture.Changes) func() {
	return func() {
		st.touch()
		changes.File("")
	}
}

// until is how long a context has.
func until(ctx context.Context) time.Duration {
	at, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	return time.Until(at)
}
