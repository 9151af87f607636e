package toolrunner

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/sandbox/jobs"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// admitted is a call that is owed something: what a duty says, as of a state.
type admitted struct {
	state      run.State
	duty       call.Duty
	deliveries uint64
}

// admitter finds what is owed to a call, and keeps two workers of this process from doing it at once.
type admitter struct {
	leases   kernel.Leases
	instance string
	reap     func(context.Context)
	attempts *workspace.Attempts
	// follow says that workspaces follow their runs: then calls come from messages and from republished events.
	follow bool
	tools  Tools
	blobs  kernel.Blobs
	jobs   *jobs.Supervisor
}

const (
	// dueDeliveries stands for the deliveries of a timer, which are not counted.
	dueDeliveries = 4
	// watchFirst and watchEvery are how soon a call is looked at again that an instance works on.
	watchFirst = 5 * time.Millisecond
	watchEvery = 5 * time.Second
)

// next is what is owed to a call.
func (d admitter) next(ctx context.Context, runID, callID string, s run.State) (call.Duty, error) {
	lease, err := d.lease(ctx, runID, s.Open[callID])
	if err != nil {
		return call.Duty{}, err
	}
	return call.Next(s, callID, time.Now(), lease), nil
}

// lease reports whether the instance that began a call still works on it. Where that is lost, what it left on this
// machine is ended: a command of it could change the workspace in which the call goes on.
func (d admitter) lease(ctx context.Context, runID string, c *run.Call) (call.Lease, error) {
	if c == nil || c.Phase != run.CallStarted {
		return call.Lease{}, nil
	}
	if c.Runner == d.instance {
		return call.Lease{Held: d.attempts.Of(runID, c.ID) > 0}, nil
	}
	alive, err := d.leases.Alive(ctx, c.Runner)
	if err != nil {
		return call.Lease{}, fmt.Errorf("lease of %s: %w", c.Runner, err)
	}
	if !alive && d.reap != nil {
		d.reap(ctx)
	}
	return call.Lease{Held: alive}, nil
}

// watch is how soon a call is looked at again that an instance works on. What this one works on is mostly done soon.
func (d admitter) watch(s run.State, callID string, deliveries uint64) time.Duration {
	if c := s.Open[callID]; !d.follow || c == nil || c.Phase != run.CallStarted || c.Runner != d.instance {
		return watchEvery
	}
	return min(watchFirst<<min(deliveries, 10), watchEvery)
}

// claim takes a call for this worker until leave is called. The error is a *kernel.RetryAfter where another worker of
// this process has it, or where it goes on with jobs that run at another toolrunner.
func (d admitter) claim(ctx context.Context, a admitted) (leave func(), err error) {
	leave = d.attempts.Begin(a.state.HarnessID, a.duty.Call.ID)
	if d.follow && d.attempts.Of(a.state.HarnessID, a.duty.Call.ID) > 1 {
		leave()
		return nil, kernel.Busy(a.deliveries)
	}
	away, err := d.elsewhere(ctx, a.state, a.duty.Call)
	if err == nil && away {
		err = kernel.Busy(a.deliveries)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// elsewhere reports whether a call goes on with jobs that run at another toolrunner: it is left to that one.
func (d admitter) elsewhere(ctx context.Context, s run.State, c run.Call) (bool, error) {
	st := s.Step(c.Step)
	if st == nil || len(st.Background) == 0 {
		return false, nil
	}
	t, _ := d.tools.Find(s, c)
	continuing, ok := t.(tool.Continuing)
	if !ok {
		return false, nil
	}
	input, err := runlog.Input(ctx, d.blobs, c)
	if err != nil {
		return false, err
	}
	handle, ok := continuing.Continues(input)
	if !ok {
		return false, nil
	}
	return d.jobs.Elsewhere(ctx, s, c.Step, handle)
}
