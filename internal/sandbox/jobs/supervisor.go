// Package jobs supervises the commands that go on after the call that started them.
//
// Promises: a job belongs to the process that started it and ends with it, with its step, with its run, or when another
// toolrunner works for the run. It runs under the fence of its call: where the end of that call is not recorded, the
// job ends. Its output is kept in memory within bounds and passed on with secrets masked. The calls of a step share one
// sandbox while a job is in it.
package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mcp/live"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Config holds what a supervisor needs.
type Config struct {
	Ledger *runlog.Ledger
	Leases kernel.Leases
	// Trees are the workspaces that follow their runs; nil where each stays on the machine that made it.
	Trees *workspace.Trees
	// Pool has the sandboxes that are kept between calls, each for Keep.
	Pool *pool.Pool
	Keep time.Duration
	// Servers are the connections to MCP servers that are kept between calls; nil keeps none.
	Servers *live.Servers
	// Live takes the output of jobs as it comes; nil takes none.
	Live *streaming.Feed
	// Instance names this process.
	Instance string
	// Secrets are masked in what jobs write.
	Secrets []secret.Value
}

// Supervisor has the jobs of this process.
type Supervisor struct {
	cfg  Config
	jobs registry
	// mask takes the secrets out of a text.
	mask func(string) string
	// hints are runs of which a step may have ended.
	hints chan string
}

// New returns a supervisor without jobs.
func New(cfg Config) *Supervisor {
	return &Supervisor{cfg: cfg, mask: secret.Mask(cfg.Secrets...), hints: make(chan string, maxHints)}
}

// Join returns what opens the sandbox of a step that has a job in it, for a call, which does not end it. leave must be
// called then. It returns nil where there is none.
func (u *Supervisor) Join(runID, step string) (open pool.Open, leave func()) {
	sb, leave := u.jobs.join(runID, step)
	if sb == nil {
		return nil, nil
	}
	return func() (sandbox.Sandbox, error) {
		opened, err := sb.open()
		return shared{opened}, err
	}, leave
}

// End ends the jobs of a run, waits until they are gone or ctx ends, and forgets them.
func (u *Supervisor) End(ctx context.Context, runID string) {
	u.finish(ctx, errStepOver, u.jobs.of(runID)...)
	u.cfg.Servers.EndRun(ctx, runID, u.cfg.Trees != nil) // another machine may have the workspace of a session then
}

// EndStep ends the jobs of one step, waits until they are gone or ctx ends, and forgets them. It reports whether all of
// them are gone.
func (u *Supervisor) EndStep(ctx context.Context, runID, step string) bool {
	list := slices.DeleteFunc(u.jobs.of(runID), func(j *job) bool { return j.step != step })
	u.finish(ctx, errStepOver, list...)
	return !slices.ContainsFunc(list, func(j *job) bool { return !j.ended() })
}

// Wrote returns whether jobs of a run, of whatever step, may have written what was not looked at since: n is 0 where
// none has. quiet says that all of them have ended.
func (u *Supervisor) Wrote(runID string) (n int, quiet bool) { return u.jobs.wrote(runID) }

// Looked notes that a run was looked at when n jobs of it had written and all had ended, or with 0 that the run has
// ended.
func (u *Supervisor) Looked(runID string, n int) { u.jobs.rest(runID, n) }

// Run ends jobs, and the sandboxes and servers that are kept between calls, when their step or their run has ended, or
// this instance is not the one that works for it any more, until ctx ends; then it ends all of them. Errors go to
// report, and the run is looked at again.
func (u *Supervisor) Run(ctx context.Context, report func(error)) {
	tick := time.NewTicker(topology.LeaseTerm / 3)
	defer tick.Stop()
	sure := time.Now() // that this instance counted as alive
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case runID := <-u.hints:
			if err := u.tidy(ctx, runID); err != nil && ctx.Err() == nil {
				report(err)
			}
		case <-tick.C:
			runs := u.runsHere()
			alive, err := u.cfg.Leases.Alive(ctx, u.cfg.Instance)
			if err == nil && alive || len(runs) == 0 && u.cfg.Pool.Size() == 0 && len(u.cfg.Servers.Runs()) == 0 {
				sure = time.Now()
			}
			lost := err == nil && !alive || time.Since(sure) > 2*topology.LeaseTerm/3 // others take it for lost
			u.cfg.Servers.Expire(time.Now())
			if u.cfg.Pool.Expire(u.cfg.Keep, time.Now()); lost {
				u.cfg.Pool.Clear()
				u.cfg.Servers.Clear()
			}
			for _, runID := range runs {
				if lost {
					u.finish(ctx, errTakenOver, u.jobs.of(runID)...)
				} else if err := u.tidy(ctx, runID); err != nil && ctx.Err() == nil {
					report(err)
				}
			}
		}
	}
	u.jobs.close()
	u.cfg.Servers.Close()
	u.cfg.Pool.Close()
}

// runsHere are the runs that have jobs, sandboxes of a step or servers here.
func (u *Supervisor) runsHere() []string {
	all := slices.Concat(u.jobs.runs(), u.cfg.Pool.Runs(), u.cfg.Servers.Runs())
	slices.Sort(all)
	return slices.Compact(all)
}

// tidy ends the jobs of a run that have to end.
func (u *Supervisor) tidy(ctx context.Context, runID string) error {
	list := u.jobs.of(runID)
	if len(list) == 0 && !u.has(runID) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if u.cfg.Trees != nil && !u.cfg.Trees.Holds(runID) {
		u.finish(limited, errTakenOver, list...)
		u.cfg.Pool.EndSteps(runID, func(string) bool { return true })
		u.cfg.Servers.EndRun(limited, runID, true)
		return nil
	}
	s, err := u.cfg.Ledger.Fresh(limited, runID)
	if err != nil {
		return fmt.Errorf("background commands of run %s: %w", runID, err)
	}
	for _, j := range list {
		if why := fate(s, j); why != nil {
			u.finish(limited, why, j)
		}
	}
	u.cfg.Pool.EndSteps(runID, func(step string) bool { return call.StepEnded(s, step) })
	if s.Status.Ended() {
		u.cfg.Servers.EndRun(limited, runID, false)
	}
	return nil
}

// has reports whether a run has sandboxes of a step or servers here.
func (u *Supervisor) has(runID string) bool {
	return u.cfg.Pool.Has(runID) || slices.Contains(u.cfg.Servers.Runs(), runID)
}

// MayHaveEnded notes a run of which a step may have ended. It never waits.
func (u *Supervisor) MayHaveEnded(runID string) {
	if len(u.jobs.of(runID)) == 0 && !u.has(runID) {
		return
	}
	select {
	case u.hints <- runID:
	default:
	}
}

// launch starts a job that was added and leaves it to itself. ctx bounds the start alone.
func (u *Supervisor) launch(ctx context.Context, j *job, c tool.BackgroundCommand, sb *stepSandbox, leave func(),
	said *streaming.Output) error {
	defer u.jobs.all.Done() // of add
	abort := func(err error) error {
		j.free()
		said.Cancel()
		leave()
		u.jobs.drop(j)
		close(j.exited)
		return err
	}
	opened, err := sb.open()
	if err != nil {
		return abort(err)
	}
	hurry := context.AfterFunc(ctx, func() { j.stop(context.Cause(ctx)) })
	text := said.Writer("stdout") // both are one output: they come in their order
	p, err := opened.Start(j.life, sandbox.Cmd{Args: c.Args, Dir: c.Dir, Stdout: text, Stderr: text})
	if err == nil && !hurry() { // the call ended meanwhile
		_, _ = p.Wait()
		err = context.Cause(ctx)
	}
	if err != nil {
		hurry()
		return abort(err)
	}
	u.jobs.all.Go(func() {
		defer close(j.exited)
		exit, err := p.Wait()
		j.exit, j.took = exit, time.Since(j.began)
		j.end, j.code = u.ending(j.life, exit, err)
		j.free()
		said.Close()
		leave()
		u.touched(j)
	})
	return nil
}

// ending says how a job ended.
func (u *Supervisor) ending(life context.Context, exit sandbox.Exit, err error) (end string, code *int) {
	switch {
	case err == nil && exit.Signal != "":
		return "ended by signal " + exit.Signal, nil
	case err == nil:
		return fmt.Sprintf("exit status %d", exit.Code), &exit.Code
	case life.Err() != nil:
		return context.Cause(life).Error(), nil
	}
	return call.ClipError(u.mask(err.Error())), nil
}

// touched notes that a job may have changed files after the last call that was kept.
func (u *Supervisor) touched(j *job) { Touched(u.cfg.Trees, j.run, j.workspace) }

// Touched notes that what worked for a run between its calls may have changed files after the last call that was kept.
// trees may be nil.
func Touched(trees *workspace.Trees, runID, at string) {
	if trees == nil || !trees.Holds(runID) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutTime)
	defer cancel()
	if v, err := trees.Enter(ctx, at, runID); err == nil {
		v.Touch(true)
		v.Leave()
	}
}

// fate says why a job has to end; nil where it goes on.
func fate(s run.State, j *job) error {
	st := s.Step(j.step)
	switch {
	case s.Status.Ended(), st == nil, st.Status != events.StepIsRunning:
		return errStepOver
	case slices.ContainsFunc(st.Background, func(k events.Background) bool { return k.ID == j.handle }):
		return nil
	}
	if c := s.Open[j.call]; c != nil && c.Fence == j.fence && c.Phase == run.CallStarted {
		return nil // its result is on the way
	}
	return errUnrecorded
}

// finish ends jobs, waits until they are gone or ctx ends, and forgets them.
func (u *Supervisor) finish(ctx context.Context, why error, list ...*job) {
	for _, j := range list {
		j.stop(why)
	}
	for _, j := range list {
		select {
		case <-j.exited:
			u.jobs.drop(j)
		case <-ctx.Done():
		}
	}
}
