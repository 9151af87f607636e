// Package resolve is the part of the planner that looks up what a run is made of, and fixes it in the first events of
// the run or in its plan: agents, prices, the operator's context, how it works in git, its path, its plan.
//
// Promises: a run is made of the same for ever, whatever changes meanwhile. What cannot be carried out is refused with
// the fault named before the run begins.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/route"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/part"
)

// Config holds what the part needs.
type Config struct {
	Agents part.Agents
	// Windows returns the context window of a model in tokens, 0 for none; nil knows of none. It is pinned with each
	// agent whose file does not say.
	Windows func(model string) int
	// Context returns what the operator tells all agents, at most events.MaxContext bytes; nil means nothing.
	Context func(ctx context.Context) (string, error)
	// Prices of models; a run keeps those of its own when it begins.
	Prices part.Prices
	// Blobs holds histories, and answers of models that no event has room for; nil has none.
	Blobs kernel.Blobs
	// Isolation is "per_workflow" (default), "per_run" or "shared" (WS-2).
	Isolation string
	// Durability of the server, recorded in each run (SAFE-1).
	Durability string
	// LongRunning is how long a task must be thought to take to be long-running; 0 means route.Threshold.
	LongRunning time.Duration
	// Sessions says that the station keeps sessions; if not, tasks that name one only share its directory.
	Sessions bool
}

// Resolver is the part.
type Resolver struct{ cfg Config }

// New checks the configuration.
func New(cfg Config) (*Resolver, error) {
	if cfg.Agents == nil {
		return nil, errors.New("planner needs agents")
	}
	switch cfg.Isolation {
	case "":
		cfg.Isolation = "per_workflow"
	case "per_workflow", "per_run", "shared":
	default:
		return nil, fmt.Errorf("isolation mode %q: want per_workflow, per_run or shared", cfg.Isolation)
	}
	if cfg.LongRunning < 0 {
		return nil, fmt.Errorf("long-running tasks begin at %s: want a duration above zero", cfg.LongRunning)
	}
	if cfg.LongRunning == 0 {
		cfg.LongRunning = route.Threshold
	}
	return &Resolver{cfg}, nil
}

// Fit pins the context window of an agent's model, where the agent's file does not say (LOOP-10).
func (r *Resolver) Fit(a events.Agent) events.Agent {
	if a.ContextWindow == 0 && r.cfg.Windows != nil {
		a.ContextWindow = r.cfg.Windows(a.Model)
	}
	return a
}

// context is what the operator tells all agents, as it is now (PRMT-5). One that is too long is refused with the task,
// so that no run begins without what it should have been told.
func (r *Resolver) context(ctx context.Context) (string, error) {
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
