package planner

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// resolver looks up what a run is made of, and fixes it in its first events or its plan: agents, prices, the operator's
// context, the workspace.
type resolver struct{ cfg Config }

// fit pins the context window of an agent's model, where the agent's file does not say (LOOP-10).
func (r *resolver) fit(a events.Agent) events.Agent {
	if a.ContextWindow == 0 && r.cfg.Windows != nil {
		a.ContextWindow = r.cfg.Windows(a.Model)
	}
	return a
}

// context is what the operator tells all agents, as it is now (PRMT-5). One that is too long is refused with the task,
// so that no run begins without what it should have been told.
func (r *resolver) context(ctx context.Context) (string, error) {
	if r.cfg.Context == nil {
		return "", nil
	}
	text, err := r.cfg.Context(ctx)
	if err != nil {
		return "", fmt.Errorf("read the operator's context: %w", err)
	}
	if len(text) > events.MaxContext {
		return "", kernel.Refuse("bad_context", "let the operator shorten it; it is in the file that INSPAN_CONTEXT names",
			"the operator's context has %d bytes, the limit is %d", len(text), events.MaxContext)
	}
	return text, nil
}
