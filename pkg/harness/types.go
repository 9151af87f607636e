package harness

import (
	"context"
	"iter"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Step is one recorded step: what Execute yielded, and what that changed in the state.
type Step[I, O any] struct {
	// StepNumber counts from 1, Timestamp is of the injected clock.
	StepNumber int        `json:"stepNumber"`
	Timestamp  time.Time  `json:"timestamp"`
	Input      I          `json:"input"`
	Output     O          `json:"output"`
	StateDelta StateDelta `json:"stateDelta"`
}

// StateDelta names the fields of the state that a step changed, with a summary where Execute gave one.
type StateDelta = events.HarnessDelta

// StepYield is what Execute yields: an input and the output that it led to.
type StepYield[I, O any] struct {
	Input  I
	Output O
}

// Pair makes a StepYield.
func Pair[I, O any](input I, output O) StepYield[I, O] { return StepYield[I, O]{input, output} }

// LoadedContext is what an agent needs to know: the state, what is known about it, and the most recent steps, the
// oldest first.
type LoadedContext[S, I, O any] struct {
	State             S            `json:"state"`
	RelevantKnowledge []string     `json:"relevantKnowledge,omitempty"`
	RecentSteps       []Step[I, O] `json:"recentSteps"`
}

// Constraints are handed to an agent for one call, for example maxDrawdown 0.1.
type Constraints map[string]any

// HarnessConfig is what a new harness begins with. One that is recorded goes on with the state that is recorded.
type HarnessConfig[S any] struct {
	// InitialState is encoded as JSON: all its fields must be exported.
	InitialState S
	// MaxContextSteps bounds the steps of a LoadedContext; 0 is DefaultContextSteps.
	MaxContextSteps int
}

// DefaultContextSteps is the MaxContextSteps of a config without one.
const DefaultContextSteps = 10

// Harness is a type that embeds BaseHarness and has Execute. It may have an IsComplete of its own.
type Harness[S, I, O any] interface {
	// Execute returns the steps as a sequence of pairs. An error ends Run with that error; the harness is not complete
	// then, and the next Run goes on after the last recorded step.
	Execute(ctx context.Context, run *Execution[S, I, O]) iter.Seq2[StepYield[I, O], error]
	// IsComplete is asked after each step; true ends the harness.
	IsComplete() bool
	CurrentStep() int
	StepHistory() []Step[I, O]
	State() S
	base() *BaseHarness[S, I, O]
}
