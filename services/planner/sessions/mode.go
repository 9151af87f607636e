package sessions

import (
	"fmt"

	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
)

// modeOf is the mode that a session gets from a task: who asks for parallel collaboration wants others to be let in.
func modeOf(t events.Task, c *events.RunCreatedData) events.SessionMode {
	asked := c.Agents[c.Agent].Git != nil && c.Agents[c.Agent].Git.Collaboration == events.Parallel &&
		!c.Agents[c.Agent].GitDefaults
	if t.Git != nil && t.Git.Collaboration != "" {
		asked = t.Git.Collaboration == events.Parallel
	}
	if t.SessionMode == "" && asked {
		return events.Parallel
	}
	return t.SessionMode
}

// alone refuses a run that would work in the same working tree, or on the same branch, as another one of its session
// that has not ended. others are those, by run.
func alone(e events.Session, c *events.RunCreatedData, runID string, others map[string]*events.RunCreatedData) error {
	if c.Git == nil || e.Mode != events.Parallel {
		return nil
	}
	for _, h := range e.Holders {
		o := others[h.Run]
		same := o == nil && h.Agent == c.Agent // it is not born yet
		if o != nil && o.Git != nil {
			same = o.Workspace == c.Workspace || o.Git.NewBranch != "" && o.Git.NewBranch == c.Git.NewBranch
		}
		if h.Run != runID && same {
			return &session.Refused{Code: "branch_busy",
				Reason: fmt.Sprintf("run %s of %s works on the same branch of session %q", h.Run, h.Agent, e.ID),
				Hint: "wait for it: inspan logs " + h.Run +
					" --follow; or let another agent do it, which has a branch of its own"}
		}
	}
	return nil
}
