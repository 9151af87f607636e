package harness

import (
	"cmp"
	"context"
)

// AgentConfig says what an agent is. Only Run is needed.
type AgentConfig[S, I, O any] struct {
	// Name is "Agent" where it is empty.
	Name string
	// Effect is what may happen where the program is lost while the agent runs: see Class. Empty is Once.
	Effect Class
	// Run answers one input.
	Run func(ctx context.Context, p AgentRunParams[S, I, O]) (O, error)
	// Complete tells from the state that the agent has nothing more to do; nil is never.
	Complete func(S) bool
}

// AgentRunParams is what an agent gets for one call.
type AgentRunParams[S, I, O any] struct {
	Input   I
	Context LoadedContext[S, I, O]
	// StepNumber is that of the step under way, StepHistory are those before it.
	StepNumber  int
	StepHistory []Step[I, O]
	Constraints Constraints
	// Key is the same each time that this call is made, also after a restart, and no other call has it.
	Key string
}

// Agent answers inputs within a harness: a model, a rule, a person. It is a value and has no state of its own.
type Agent[S, I, O any] struct{ cfg AgentConfig[S, I, O] }

// NewAgent makes an agent.
func NewAgent[S, I, O any](cfg AgentConfig[S, I, O]) Agent[S, I, O] {
	cfg.Name, cfg.Effect = cmp.Or(cfg.Name, "Agent"), cmp.Or(cfg.Effect, Once)
	return Agent[S, I, O]{cfg}
}

// Name of the agent.
func (a Agent[S, I, O]) Name() string { return a.cfg.Name }

// Run answers one input, outside of a harness too.
func (a Agent[S, I, O]) Run(ctx context.Context, p AgentRunParams[S, I, O]) (O, error) {
	return a.cfg.Run(ctx, p)
}

// IsComplete reports whether the agent has nothing more to do.
func (a Agent[S, I, O]) IsComplete(state S) bool {
	return a.cfg.Complete != nil && a.cfg.Complete(state)
}
