package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/streaming"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// jobTools are the tools that an agent must have to start jobs: what it starts it can read and end.
var jobTools = []string{"bash", "bash_output", "kill_shell"}

// ForCall is a call that may start jobs.
type ForCall struct {
	State   run.State
	Attempt call.Attempt
	// Sandbox is that of the call. It is prepared before a job starts, and counts what jobs used that the call found
	// ended.
	Sandbox *pool.Lazy
	// Workspace is that of the run.
	Workspace string
	// Starting is called before a job starts, which may change any file.
	Starting func()
	// Captured says that what a job writes is looked for later.
	Captured bool
	// Open returns what opens the sandbox of the step, and its egress, for a job that may run for some time.
	Open func(ctx context.Context, limit time.Duration) (pool.Open, *pool.Egress)
}

// callJobs is what one call sees of the jobs of its step.
type callJobs struct {
	u *Supervisor
	ForCall
}

var _ tool.Background = (*callJobs)(nil)

// For returns what a call starts jobs with; nil where its agent may not.
func (u *Supervisor) For(c ForCall) tool.Background {
	st := c.State.Step(c.Attempt.Call.Step)
	if st == nil {
		return nil
	}
	agent, _ := c.State.Agent(st.AssignedAgent)
	for _, name := range jobTools {
		if !slices.Contains(agent.Tools, name) {
			return nil
		}
	}
	return &callJobs{u: u, ForCall: c}
}

// known are the jobs of the step that events name.
func (c *callJobs) known() []events.Background {
	if st := c.State.Step(c.Attempt.Call.Step); st != nil {
		return st.Background
	}
	return nil
}

// Shown implements tool.Background.
func (c *callJobs) Shown(handle string) int64 {
	for _, k := range c.known() {
		if k.ID == handle {
			return k.At
		}
	}
	return 0
}

// Start implements tool.Background.
func (c *callJobs) Start(ctx context.Context, cmd tool.BackgroundCommand) (string, error) {
	if n := len(c.known()); n >= maxStarted {
		return "", tool.Fail(tool.Permanent, "run further commands without run_in_background",
			fmt.Errorf("this step has started %d background commands, which is the limit", n))
	}
	if cmd.Limit <= 0 || cmd.Limit > tool.MaxBackground {
		cmd.Limit = tool.MaxBackground
	}
	if err := c.Sandbox.Prepare(); err != nil {
		return "", err
	}
	c.Starting()
	u, s, a := c.u, c.State, c.Attempt
	j := &job{run: s.HarnessID, step: a.Call.Step, call: a.Call.ID, handle: "bg-" + a.Call.ID, text: u.mask(cmd.Text),
		workspace: c.Workspace,
		fence:     a.Fence, began: time.Now(), exited: make(chan struct{})}
	var life context.Context
	life, j.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	j.life, j.free = context.WithTimeoutCause(life, cmd.Limit, errTimeUp)
	if err := u.jobs.add(j); err != nil {
		j.free()
		return "", err
	}
	if c.Captured {
		u.jobs.writes(s.HarnessID)
	}
	sb, leave := u.jobs.enter(s.HarnessID, a.Call.Step, func() *stepSandbox {
		open, out := c.Open(context.WithoutCancel(ctx), cmd.Limit)
		return &stepSandbox{open: open, egress: out}
	})
	said := u.cfg.Live.Output(s.HarnessID, streaming.About{Step: a.Call.Step, Attempt: a.Number, Call: j.handle,
		Tool: a.Call.Tool}, j.out.append, u.cfg.Secrets...)
	err := u.launch(ctx, j, cmd, sb, leave, said)
	switch {
	case err == nil:
		return j.handle, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, errors.ErrUnsupported):
		return "", tool.Fail(tool.Permanent, "run it without run_in_background", err)
	}
	return "", tool.Fail(tool.Permanent, "inspan doctor lists what this machine can run",
		fmt.Errorf("start the background command: %w", err))
}

// find returns a job of the step; nil with a look where it is lost.
func (c *callJobs) find(handle string) (*job, tool.BackgroundLook, error) {
	if j := c.u.jobs.find(c.State.HarnessID, c.Attempt.Call.Step, handle); j != nil {
		return j, tool.BackgroundLook{}, nil
	}
	for _, k := range c.known() {
		if k.ID == handle {
			return nil, c.lost(k), nil
		}
	}
	return nil, tool.BackgroundLook{}, tool.Fail(tool.Invalid, "bash_output without bash_id lists them",
		fmt.Errorf("no command of this step has the handle %q", handle))
}

// lost is a job that does not run here. The toolrunner that it belongs to is lost, else the call would have been left
// to that one.
func (c *callJobs) lost(k events.Background) tool.BackgroundLook {
	return tool.BackgroundLook{Handle: k.ID, Lost: true,
		End: fmt.Sprintf("it was lost with its toolrunner %s; it is not restarted automatically", k.Runner)}
}

// Look implements tool.Background.
func (c *callJobs) Look(ctx context.Context, handle string, after int64, wait time.Duration) (tool.BackgroundLook,
	error) {
	j, lost, err := c.find(handle)
	if err != nil || j == nil {
		return lost, err
	}
	patience := time.NewTimer(max(wait, 0))
	defer patience.Stop()
	for {
		l, more := j.look(after)
		if len(l.Output) > 0 || !l.Running || wait <= 0 {
			c.charge(j)
			return l, ctx.Err()
		}
		select {
		case <-more:
		case <-j.exited:
		case <-patience.C:
			wait = 0
		case <-ctx.Done():
			return tool.BackgroundLook{}, ctx.Err()
		}
	}
}

// List implements tool.Background.
func (c *callJobs) List(ctx context.Context) ([]tool.BackgroundLook, error) {
	var all []tool.BackgroundLook
	here := map[string]bool{}
	for _, j := range c.u.jobs.of(c.State.HarnessID) {
		if j.step == c.Attempt.Call.Step {
			l, _ := j.look(j.out.size())
			all = append(all, l)
			here[j.handle] = true
		}
	}
	for _, k := range c.known() {
		if here[k.ID] {
			continue
		}
		l := c.lost(k)
		if alive, err := c.u.elsewhere(ctx, k); err != nil {
			return nil, err
		} else if alive {
			l = tool.BackgroundLook{Handle: k.ID, Running: true, Text: "(at another toolrunner: pass its handle as bash_id)"}
		}
		all = append(all, l)
	}
	return all, ctx.Err()
}

// Kill implements tool.Background.
func (c *callJobs) Kill(ctx context.Context, handle string) (tool.BackgroundLook, error) {
	j, lost, err := c.find(handle)
	if err != nil || j == nil {
		return lost, err
	}
	j.stop(errKilled)
	select {
	case <-j.exited:
	case <-ctx.Done():
		return tool.BackgroundLook{}, ctx.Err()
	}
	c.charge(j)
	l, _ := j.look(j.out.size())
	return l, nil
}

// charge counts what a job used with the call that found it ended.
func (c *callJobs) charge(j *job) {
	if exit, ok := c.u.jobs.charge(j); ok {
		c.Sandbox.Spend(exit)
	}
}

// elsewhere reports whether a job belongs to another toolrunner that lives. Where workspaces follow their runs none
// does: the toolrunner that holds the workspace answers for it.
func (u *Supervisor) elsewhere(ctx context.Context, k events.Background) (bool, error) {
	if u.cfg.Trees != nil || k.Runner == u.cfg.Instance {
		return false, nil
	}
	alive, err := u.cfg.Leases.Alive(ctx, k.Runner)
	if err != nil {
		return false, fmt.Errorf("lease of %s: %w", k.Runner, err)
	}
	return alive, nil
}

// Elsewhere reports whether the jobs that a call goes on with run at another toolrunner that lives: those of a handle,
// or without one the latest of the step that is not lost.
func (u *Supervisor) Elsewhere(ctx context.Context, s run.State, step, handle string) (bool, error) {
	st := s.Step(step)
	if st == nil {
		return false, nil
	}
	lost := ""
	for _, k := range slices.Backward(st.Background) {
		if handle != "" && k.ID != handle || k.Runner == lost {
			continue
		}
		if u.jobs.find(s.HarnessID, step, k.ID) != nil {
			return false, nil
		}
		if alive, err := u.elsewhere(ctx, k); err != nil || alive {
			return alive, err
		}
		lost = k.Runner
	}
	return false, nil
}
