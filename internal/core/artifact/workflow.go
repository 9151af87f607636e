package artifact

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// WorkflowOf names what a run has in common with the other runs of its workflow (ART-9): the run of the orchestrator
// that the task named, else the run of the workflow. The name consists of two tokens and is fit for a key; it is empty
// for a run of no workflow, and for a fork, which is another way to do a step and not a step of its own.
func WorkflowOf(c *events.RunCreatedData) string {
	switch {
	case c == nil || c.ForkOf != nil:
		return ""
	case events.ValidID(c.Orchestrator):
		return "orchestrator." + c.Orchestrator
	case events.ValidID(c.WorkflowRun):
		return "workflow." + c.WorkflowRun
	}
	return ""
}

// Stored reports whether a run has files in the store of artifacts, as far as its events tell.
func Stored(s run.State) bool {
	return slices.ContainsFunc(Latest(s), func(a events.Artifact) bool {
		return a.Path != "" &&
			a.Kept == events.StoredInBucket
	})
}
