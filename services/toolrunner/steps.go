package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// keepTime bounds the snapshot at the end of a step.
const keepTime = 5 * time.Minute

// overhearStep notes the end of a step of a run that works in a workspace held here. What it lets go is kept before the
// next step's first call, or when the workspace is given back.
func (r *Role) overhearStep(runID string, kind events.Kind) {
	if kind != events.StepFinished && kind != events.StepFailed || r.cfg.Trees == nil || !r.cfg.Trees.AtSteps() || !r.cfg.Trees.Holds(runID) {
		return
	}
	select {
	case r.steps <- runID:
	default:
	}
}

// keepSteps keeps workspaces at the ends of steps until ctx ends.
func (r *Role) keepSteps(ctx context.Context, report func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case runID := <-r.steps:
			limited, cancel := context.WithTimeout(ctx, keepTime)
			s, err := r.cfg.Ledger.Fresh(limited, runID)
			if err == nil && s.Created != nil {
				err = r.cfg.Trees.Boundary(limited, s.Created.Workspace)
			}
			cancel()
			if err != nil && ctx.Err() == nil && !errors.Is(err, workspace.ErrChanging) && !errors.Is(err, workspace.ErrLost) { // kept later, or by another
				report(fmt.Errorf("keep the workspace of run %s at the end of a step: %w", runID, err))
			}
		}
	}
}

// missing says what the calls were whose changes are lost, where they are of this run.
func missing(s run.State, calls []string) string {
	var b strings.Builder
	for _, name := range calls {
		runID, id, _ := strings.Cut(name, "/")
		for _, c := range s.ToolCallHistory.Backward() {
			if runID == s.HarnessID && c.ID == id {
				fmt.Fprintf(&b, "\n- %s: %s of step %s", id, c.CallName, c.Step)
				break
			}
		}
	}
	return b.String()
}
