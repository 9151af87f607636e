package hooks

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxShown is the most of a call's arguments that a hook is shown, in bytes; of larger ones it gets the hash alone.
const maxShown = 256 << 10

// Outcome is what a call came to.
type Outcome struct {
	Output, Error string
	Success       bool
	Took          time.Duration
}

// AfterCall asks the hooks of an agent about what came of a call. What was done cannot be undone, so an end of this
// service while they are asked is no reason to forget the result: it is then held back, as if a hook had blocked.
func (a *Asker) AfterCall(ctx context.Context, s run.State, c run.Call, input []byte, o Outcome) []events.HookAnswer {
	st := s.Step(c.Step)
	if st == nil {
		return nil
	}
	agent, _ := s.Agent(st.AssignedAgent)
	due := a.Due(agent, events.OnPostTool, c.Tool)
	if len(due) == 0 {
		return nil
	}
	about := &hook.Call{ID: c.ID, Tool: c.Tool, Effect: c.Effect, InputHash: c.InputHash}
	if len(input) <= maxShown {
		about.Input = input
	}
	result := &hook.Result{Output: o.Output, Error: o.Error, Success: o.Success, DurationMS: o.Took.Milliseconds()}
	answers, err := a.Ask(ctx, due, hook.Question{Run: s.HarnessID, Agent: agent.Name, Step: st.ID, Turn: c.Turn,
		Call: about, Result: result})
	if err != nil {
		return []events.HookAnswer{{Hook: due[0].Name(), On: events.OnPostTool, Answer: events.HookBlock,
			Fault:   hook.FaultUnavailable,
			Message: "the service stopped during the request"}}
	}
	return answers
}
