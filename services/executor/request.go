package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Request returns what the model would be asked for the turn that a step is owed: the same as an executor asks, which
// is the same for the same state. It returns an error where the step is owed none, or where an object of the run is
// missing.
func Request(ctx context.Context, blobs kernel.Blobs, tools func(events.Agent) *tool.Registry, s run.State, step string,
	now time.Time) (llm.Request, error) {
	duty := turn.Next(s, step, now)
	if duty.Ask == nil {
		return llm.Request{}, fmt.Errorf("step %s is owed no turn", step)
	}
	agent, ok := s.Agent(duty.Ask.Step.AssignedAgent)
	if !ok {
		return llm.Request{}, fmt.Errorf("agent %s is not pinned in the run", duty.Ask.Step.AssignedAgent)
	}
	r := Role{cfg: Config{Blobs: blobs, ToolsOf: tools}}
	return r.request(ctx, s, *duty.Ask, agent, agent.Model, nil)
}
