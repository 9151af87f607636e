package toolrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/workspace/provision"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// cost is what an attempt took; usage is nil where it ran no command.
type cost struct {
	took  time.Duration
	usage *events.Usage
}

// attempt carries out one attempt and records its end.
func (r *Role) attempt(ctx context.Context, s run.State, a call.Attempt, input []byte, p place) (runlog.Written, error) {
	if p.broken != nil {
		return r.failed(ctx, s, a, unusable(p.broken), cost{}, input, &made{at: p})
	}
	begin := time.Now()
	m := made{at: p}
	result, notes, used, err := r.run(ctx, s, a, input, &m)
	if result.Background != nil && result.Background.Started {
		defer r.jobs.MayHaveEnded(s.HarnessID) // what no fact tells of does not run on
	}
	spent := cost{took: time.Since(begin), usage: used}
	if !errors.Is(err, runlog.ErrRunEnded) {
		switch end := r.settle(ctx, p, a); {
		case ended(end):
			err = end
		case end != nil:
			return runlog.Written{}, end // nothing is said of it: whoever is delivered the call next finds out
		}
	}
	if err != nil {
		return r.failed(ctx, s, a, err, spent, input, &m)
	}
	done, err := r.keep(ctx, result, spent.took)
	if err != nil {
		return r.failed(ctx, s, a, err, spent, input, &m)
	}
	done.Notes, done.Usage = notes, used
	return r.conclude(ctx, s, a, done, input, &m)
}

// conclude asks the hooks about a result and records it.
func (r *Role) conclude(ctx context.Context, s run.State, a call.Attempt, done call.Result, input []byte, m *made) (runlog.Written, error) {
	answers := r.told(ctx, s, a, input, hook.Result{Output: done.Output, Success: done.Success, DurationMS: done.Took.Milliseconds()})
	full := done.Output
	done = call.Judged(done, answers)
	shown := done.Output == full // else a hook held it back, with what it tells of the workspace
	l := r.look(ctx, s, a.Call, m)
	if done.Ref != nil && r.cfg.Artifacts != nil && !r.cfg.Artifacts.Off(rules(s, a.Call)) {
		l.Artifacts = append(l.Artifacts, logOf(s, a.Call, *done.Ref, r.cfg.Now()))
	}
	w, err := r.withMade(ctx, s, a.Call, a.Fence, l, m.at, func(s run.State, _ time.Time) []events.Payload { return call.Finish(s, a, done) })
	if _, said := w.Wrote(events.CallFinished); err == nil && said && shown {
		m.at.told()
	}
	return w, err
}

// insistEvery is how soon the end of an attempt is said again where the log could not take it.
const insistEvery = time.Second

// insist says what an attempt came to until the log has taken it or ctx ends: whoever is delivered the call next would
// find nobody at work on it, and call unknown what is known here. The worker is held meanwhile, which is as it should
// be while nothing can be written.
func (r *Role) insist(ctx context.Context, runID string, decide func(run.State, time.Time) []events.Payload) (runlog.Written, error) {
	for {
		w, err := r.say(ctx, runID, decide)
		if !errors.Is(err, kernel.ErrFull) && !errors.Is(err, kernel.ErrUnsettled) {
			return w, err
		}
		t := time.NewTimer(insistEvery)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return w, err
		}
	}
}

// run lets the tool work inside the run's sandbox, for at most its time limit and not longer than the run lives. said is
// the path of the workspace's notes that the result ends with.
func (r *Role) run(ctx context.Context, s run.State, a call.Attempt, input []byte, m *made) (result tool.Result, said string, used *events.Usage, err error) {
	t, ok := r.tool(s, a.Call)
	if !ok {
		return tool.Result{}, "", nil, tool.Fail(tool.Permanent, "this toolrunner does not have the tool", fmt.Errorf("no tool %q", a.Call.Tool))
	}
	work, done := r.cfg.Ends.Context(ctx, s.HarnessID)
	defer done()
	work, cancel := context.WithTimeout(work, timeout(t, a, input))
	defer cancel()
	env, out, shut := r.env(work, s, a, m)
	defer shut()
	defer func() {
		if box, ok := env.Box.(*pool.Lazy); ok {
			used = box.Usage()
		}
		if p := recover(); p != nil {
			result, said, err = tool.Result{}, "", tool.Fail(tool.Permanent, "report this to the author of the tool", fmt.Errorf("tool %s broke: %v\n%s", a.Call.Tool, p, debug.Stack()))
		}
	}()
	result, err = t.Run(work, tool.Call{ID: a.Call.ID, Key: r.key(s.HarnessID, a.Call.ID), Input: input, Env: env})
	switch {
	case errors.Is(context.Cause(work), runlog.ErrRunEnded):
		return tool.Result{}, "", nil, runlog.ErrRunEnded
	case ctx.Err() == nil && errors.Is(work.Err(), context.DeadlineExceeded) && cutShort(err):
		return tool.Result{}, "", nil, tool.Fail(tool.Timeout, "give it more time, or less to do", fmt.Errorf("the call took longer than %s and was ended", timeout(t, a, input)))
	}
	if err == nil {
		result.Output += out.Refused()
	}
	if err == nil && !result.Failed {
		var text string
		text, said = provision.Notes(s, a.Call, input, env.Box)
		result.Output += text
	}
	if err == nil && !m.bare {
		m.at.tell(ctx, s, &result)
	}
	return result, said, used, err
}

// timeout of one attempt: what the arguments ask for, else what was permitted, else the tool's own.
func timeout(t tool.Tool, a call.Attempt, input json.RawMessage) time.Duration {
	if timed, ok := t.(tool.Timed); ok {
		if d := timed.TimeoutFor(input); d > 0 {
			return d
		}
	}
	if a.Call.TimeoutMS > 0 {
		return time.Duration(a.Call.TimeoutMS) * time.Millisecond
	}
	return t.Spec().TimeoutOf()
}

// cutShort reports whether a tool failed because its context ended: not where it had finished, nor where it says another reason.
func cutShort(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	_, own := errors.AsType[*tool.Error](err)
	return err != nil && !own
}

// env opens the sandbox of the run for one attempt.
func (r *Role) env(ctx context.Context, s run.State, a call.Attempt, m *made) (tool.Env, *pool.Egress, func()) {
	out := r.egressWhile(s, a.Call.Step, a.Holds)
	open, pooled := r.opener(ctx, s, a.Call, m.at, out, false, until(ctx))
	leave := func() {}
	if !out.Narrow() { // else it has a way out of its own
		if join, left := r.jobs.Join(s.HarnessID, a.Call.Step); join != nil {
			leave, open = left, sync.OnceValues(func() (sandbox.Sandbox, error) {
				m.at.touch(a.Call.Effect)
				return join()
			})
		}
	}
	box := pool.NewLazy(pool.LazyConfig{ID: s.HarnessID, Mode: r.cfg.Sandboxes.ModeFor(s, a.Call.Step), Open: open, Pooled: pooled,
		Before: r.first(ctx, s, a.Call, m), Changed: m.wrote})
	said := r.cfg.Live.Open(s.HarnessID, streaming.About{Step: a.Call.Step, Attempt: a.Number, Call: a.Call.ID, Tool: a.Call.Tool})
	progress, rest := r.progress(said)
	m.note = func(line string) { progress("stderr", []byte(line)) }
	shut := func() {
		rest()
		said.Done(nil)
		said.Close()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = box.Destroy(end) // its processes are gone with Exec; what is left is a directory of ours
		leave()
		out.Close()
	}
	return tool.Env{Background: r.background(s, a, box, m), Box: box, Progress: progress, MaxOutput: events.MaxInlineOutput / 2, Skill: provision.Skills(s, a.Call), Fetch: out.Fetch(), Save: r.saver(s, a, m), Dir: dir(s, a), Git: r.gitWork(s, a, m, progress)}, out, shut
}

// opener returns what opens the sandbox of a call: one that is kept, or one of its own. shared says that more than one call uses it.
func (r *Role) opener(ctx context.Context, s run.State, c run.Call, p place, out *pool.Egress, shared bool, need time.Duration) (open func() (sandbox.Sandbox, error), pooled bool) {
	want := r.cfg.Sandboxes.RequestFor(s, c.Step, p.Dir, out)
	want.Shared = shared
	acquire := r.pool.Acquirer(ctx, r.cfg.Sandboxes, s, c.Step, want, need)
	return sync.OnceValues(func() (sandbox.Sandbox, error) {
		p.touch(c.Effect)
		if acquire != nil {
			return acquire()
		}
		return r.cfg.Sandboxes.Open(ctx, want)
	}), acquire != nil
}

// background returns what an attempt starts jobs with; nil where its agent may not.
func (r *Role) background(s run.State, a call.Attempt, box *pool.Lazy, m *made) tool.Background {
	return r.jobs.For(jobs.ForCall{State: s, Attempt: a, Sandbox: box, Workspace: m.at.Workspace,
		Starting: func() {
			m.at.touch(a.Call.Effect)
			m.all()
		},
		Captured: r.cfg.Artifacts != nil && !r.cfg.Artifacts.Off(rules(s, a.Call)),
		Open: func(ctx context.Context, limit time.Duration) (func() (sandbox.Sandbox, error), *pool.Egress) {
			out := r.egressWhile(s, a.Call.Step, func(now run.State) bool {
				st := now.Step(a.Call.Step)
				return !now.Status.Ended() && st != nil && st.Status == events.StepIsRunning
			})
			open, _ := r.opener(ctx, s, a.Call, m.at, out, true, limit)
			return open, out
		}})
}

// egressWhile is the way of a step's agent to what it may reach. It refuses when the run is not as holds wants it: another attempt
// has begun, or the call or its run has ended (SAFE-7).
func (r *Role) egressWhile(s run.State, step string, holds func(now run.State) bool) *pool.Egress {
	want := r.cfg.Sandboxes.RequestFor(s, step, workdir.Dir{}, nil).Want
	return pool.NewEgress(r.cfg.Egress, want, func(ctx context.Context) error {
		now, err := r.cfg.Ledger.Fresh(ctx, s.HarnessID)
		if err == nil && !holds(now) {
			err = egress.ErrStale
		}
		return err
	})
}

// until is how long a context has.
func until(ctx context.Context) time.Duration {
	at, ok := ctx.Deadline()
	if !ok {
		return 1<<63 - 1
	}
	return time.Until(at)
}

// progress says the output of a call live, with secrets masked also where they are cut in two. rest says what was held back.
func (r *Role) progress(said *streaming.Stream) (progress func(output string, chunk []byte), rest func()) {
	var mu sync.Mutex
	hide := map[string]*secret.Stream{} // guarded by mu
	pass := func(output string, text []byte) { said.Write(streaming.ToolOutput, output, string(text)) }
	progress = func(output string, chunk []byte) {
		mu.Lock()
		defer mu.Unlock()
		if hide[output] == nil {
			hide[output] = secret.NewStream(r.cfg.Secrets...)
		}
		pass(output, hide[output].Next(chunk))
	}
	return progress, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, output := range slices.Sorted(maps.Keys(hide)) {
			pass(output, hide[output].Rest())
		}
	}
}

// dir finds the folder that the step's shells begin in, in the facts: so it holds after a restart and on any toolrunner.
func dir(s run.State, a call.Attempt) func() string {
	return func() string {
		for _, r := range s.ToolCallHistory.Backward() {
			if r.Step == a.Call.Step && r.Dir != "" {
				return r.Dir
			}
		}
		return ""
	}
}

// keep stores what is too large for the log and returns the rest.
func (r *Role) keep(ctx context.Context, res tool.Result, took time.Duration) (call.Result, error) {
	if res.Full != nil {
		res.Full = []byte(r.mask(string(res.Full)))
	}
	images, note, err := r.images(ctx, res.Images)
	if err != nil {
		return call.Result{}, err
	}
	res.Output = r.mask(res.Output) + note
	out := call.Result{Images: images, Output: strings.ToValidUTF8(res.Output, "\uFFFD"), Success: !res.Failed, ExitCode: res.ExitCode, Took: took, Dir: res.Dir}
	if b := res.Background; b != nil {
		out.Background = &events.Background{ID: b.Handle, At: b.At}
		if b.Started {
			out.Background.Runner = r.cfg.Instance
		}
	}
	full := res.Full
	if len(out.Output) > events.MaxInlineOutput {
		if full == nil {
			full = []byte(res.Output)
		}
		out.Output = strings.ToValidUTF8(out.Output[:events.MaxInlineOutput/2], "") + fmt.Sprintf("\n... truncated: %d bytes in all, the whole is stored", len(full))
	}
	if full != nil {
		ref, err := r.cfg.Blobs.Put(ctx, "output", full)
		if err != nil {
			return call.Result{}, fmt.Errorf("store the output: %w", err)
		}
		out.Ref = &ref
	}
	return out, nil
}

// failed records a failed attempt and, where it will be made again, sets the timer for it. An attempt that ended
// because its run did is recorded by nobody: the run has ended.
func (r *Role) failed(ctx context.Context, s run.State, a call.Attempt, cause error, spent cost, input []byte, m *made) (runlog.Written, error) {
	runID := s.HarnessID
	if errors.Is(cause, runlog.ErrRunEnded) {
		s, err := r.cfg.Ledger.Fresh(ctx, runID)
		return runlog.Written{State: s}, err
	}
	f := failure(cause, spent.took, r.mask)
	f.Usage = spent.usage
	if call.Last(s, a, f) {
		f.Hooks = r.told(ctx, s, a, input, hook.Result{Error: f.Error, DurationMS: spent.took.Milliseconds()})
	}
	w, err := r.withMade(ctx, s, a.Call, a.Fence, r.look(ctx, s, a.Call, m), m.at, func(s run.State, now time.Time) []events.Payload { return call.Fail(s, a, f, now) })
	if err != nil {
		return w, err
	}
	if c := w.State.Open[a.Call.ID]; c != nil && c.Phase == run.CallDeferred {
		return w, r.cfg.Timers.Set(ctx, runID, "call."+c.ID, c.NotBefore)
	}
	return w, nil
}

// failure is what is recorded of a failed attempt: its class and its hint have places of their own.
func failure(cause error, took time.Duration, mask func(string) string) call.Failure {
	f := call.Failure{Class: string(tool.ClassOf(cause)), Took: took}
	f.Transient = f.Class == string(tool.Transient)
	if e, ok := errors.AsType[*tool.Error](cause); ok {
		f.Hint, f.RetryAfter = mask(e.Hint), e.RetryAfter
		if e == cause && e.Err != nil { //nolint:errorlint // wrapped in another, they stand in the middle of a text
			cause = e.Err
		}
	}
	f.Error = call.ClipError(mask(cause.Error()))
	return f
}

// verify asks a reconcilable tool whether the lost attempt took effect: then that is the result, else it is made
// again. A tool that can not tell leaves the outcome unknown.
func (r *Role) verify(ctx context.Context, s run.State, d call.Duty, p place) (runlog.Written, error) {
	begin := time.Now()
	done, result, err := r.ask(ctx, s, d, p)
	switch {
	case ctx.Err() != nil:
		return runlog.Written{}, ctx.Err()
	case err != nil:
		return r.lost(ctx, s, d, p)
	case !done:
		return r.begin(ctx, s, d, p)
	}
	kept, err := r.keep(ctx, result, time.Since(begin))
	if err != nil {
		return runlog.Written{}, err
	}
	kept.Reconciled = true
	a := call.Attempt{Call: d.Call, Number: d.Call.Attempt, Fence: d.Call.Fence, Sandbox: string(r.cfg.Sandboxes.ModeFor(s, d.Call.Step))}
	input, err := r.input(ctx, d.Call)
	if err != nil {
		return runlog.Written{}, err
	}
	return r.conclude(ctx, s, a, kept, input, anything(p))
}

func (r *Role) ask(ctx context.Context, s run.State, d call.Duty, p place) (bool, tool.Result, error) {
	if p.broken != nil {
		return false, tool.Result{}, p.broken
	}
	t, _ := r.tool(s, d.Call)
	v, ok := t.(tool.Verifier)
	if !ok {
		return false, tool.Result{}, fmt.Errorf("tool %s can not verify", d.Call.Tool)
	}
	input, err := r.input(ctx, d.Call)
	if err != nil {
		return false, tool.Result{}, err
	}
	work, cancel := context.WithTimeout(ctx, tool.DefaultTimeout)
	defer cancel()
	env, _, shut := r.env(work, s, call.Attempt{Call: d.Call, Number: d.Call.Attempt, Fence: d.Call.Fence}, anything(p))
	defer shut()
	return v.Verify(work, tool.Call{ID: d.Call.ID, Key: r.key(s.HarnessID, d.Call.ID), Input: input, Env: env})
}
