package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/run"
)

// acquired is an admitted call with the workspace that it is carried out in, until that is released.
type acquired struct {
	admitted
	workspace.Acquired
}

// acquirer acquires the workspaces of runs.
type acquirer struct{ workspaces workspace.Workspaces }

// acquire returns the workspace of a call, which must be released. The error is a *kernel.RetryAfter where a living
// instance holds it: the call is left to that one.
func (q acquirer) acquire(ctx context.Context, a admitted) (acquired, error) {
	s := a.state
	if s.Created == nil {
		return acquired{admitted: a}, nil
	}
	w, err := q.workspaces.Acquire(ctx, s.Created.Workspace, s.HarnessID, a.duty.Call.Step, func(runID, step string) bool {
		return runID == s.HarnessID && call.StepEnded(s, step)
	})
	if _, busy := errors.AsType[*workspace.BusyError](err); busy || errors.Is(err, workspace.ErrTaken) {
		err = fmt.Errorf("%w: %w", err, kernel.Busy(a.deliveries))
	}
	return acquired{a, w}, err
}

// here is the workspace of a call on this machine, whether it was acquired or not.
func (q acquirer) here(a admitted) acquired {
	if a.state.Created == nil {
		return acquired{admitted: a}
	}
	return acquired{a, q.workspaces.Here(a.state.Created.Workspace)}
}

// touch says that the workspace is looked at from now on, by this call.
func (a acquired) touch() { a.Touch(call.NeedsStart(a.duty.Call.Effect)) }

// news is what the agent must know of its workspace, to be put before a result; empty where there is nothing.
func (a acquired) news(ctx context.Context) string {
	text, lost := a.News(ctx)
	if text == "" {
		return ""
	}
	var b strings.Builder
	for _, name := range lost {
		runID, id, _ := strings.Cut(name, "/")
		for _, c := range run.Backward(a.state.ToolCallHistory) {
			if runID == a.state.HarnessID && c.ID == id {
				fmt.Fprintf(&b, "\n- %s: %s of step %s", id, c.CallName, c.Step)
				break
			}
		}
	}
	return "<workspace-news>\n" + text + b.String() + "\n</workspace-news>\n\n"
}
