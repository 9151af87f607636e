package toolrunner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/gitwork/gitcall"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// captured is an executed call with what is recorded of it: its end, and what it made. All that is too large for the
// log is stored.
type captured struct {
	executed
	// end is what the attempt came to, for a state in which it is the current one.
	end func(s run.State, now time.Time) []events.Payload
	// shown says that the agent will see the output, with the news of its workspace.
	shown bool
	look  *capture.Look
}

// capturer stores what calls answer and make, and asks the hooks about it.
type capturer struct {
	results   capture.Results
	artifacts *capture.Calls
	hooks     *hooks.Asker
	tools     Tools
	git       *gitcall.Calls
}

// capture stores the output of a call, asks the hooks about it, and stores what it made in its workspace.
func (c capturer) capture(ctx context.Context, x executed) captured {
	if x.err == nil {
		done, err := c.results.Store(ctx, x.result, x.took)
		if err == nil {
			return c.judge(ctx, x, done)
		}
		x.err = err
	}
	a, f := x.attempt, c.results.Failure(x.err, x.took)
	f.Usage = x.usage
	if call.Last(x.state, a, f) {
		f.Hooks = c.hooks.AfterCall(ctx, x.state, a.Call, x.input, hooks.Outcome{Error: f.Error, Took: x.took})
	}
	return captured{executed: x, look: c.made(ctx, x),
		end: func(s run.State, now time.Time) []events.Payload { return call.Fail(s, a, f, now) }}
}

// judge asks the hooks about a result and looks for what the call made.
func (c capturer) judge(ctx context.Context, x executed, done call.Result) captured {
	a := x.attempt
	done.Notes, done.Usage = x.notes, x.usage
	if call.NeedsStart(a.Call.Effect) {
		done.Uncommitted = c.git.Uncommitted(ctx, x.state, x.Dir)
	}
	full := done.Output
	o := hooks.Outcome{Output: full, Success: done.Success, Took: done.Took}
	done = call.Judged(done, c.hooks.AfterCall(ctx, x.state, a.Call, x.input, o))
	look := c.made(ctx, x)
	if done.Ref != nil {
		c.artifacts.AddLog(look, x.state, a.Call, *done.Ref, time.Now())
	}
	return captured{executed: x, look: look, shown: done.Output == full, // else a hook held it back
		end: func(s run.State, _ time.Time) []events.Payload { return call.Finish(s, a, done) }}
}

// lost is an attempt of which it is not known what came of it; what it left in the workspace is kept.
func (c capturer) lost(ctx context.Context, at acquired) captured {
	d := at.duty
	st := &started{acquired: at, attempt: call.Attempt{Call: d.Call, Fence: d.Call.Fence}}
	x := executed{started: st, changes: capture.Anything()}
	return captured{executed: x, look: c.made(ctx, x),
		end: func(s run.State, _ time.Time) []events.Payload { return call.Lost(s, d) }}
}

// made finds and stores what a call made.
func (c capturer) made(ctx context.Context, x executed) *capture.Look {
	t, _ := c.tools.Find(x.state, x.attempt.Call)
	_, continuing := t.(tool.Continuing)
	return c.artifacts.Look(ctx, x.state, x.attempt.Call, x.Dir, x.changes, continuing)
}
