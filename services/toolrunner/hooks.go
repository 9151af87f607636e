package toolrunner

import (
	"context"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxAsked is the most of a call's arguments that a hook is shown, in bytes; of larger ones it gets the hash alone.
const maxAsked = 256 << 10

// told asks the hooks about what came of a call. What was done can not be undone, so an end of this service while they
// are asked is no reason to forget the result: it is then held back, as if a hook had blocked.
func (r *Role) told(ctx context.Context, s run.State, a call.Attempt, input []byte, result hook.Result) []events.HookAnswer {
	st := s.Step(a.Call.Step)
	if st == nil {
		return nil
	}
	agent, _ := s.Agent(st.AssignedAgent)
	due := r.cfg.Hooks.Due(agent, events.OnPostTool, a.Call.Tool)
	if len(due) == 0 {
		return nil
	}
	about := &hook.Call{ID: a.Call.ID, Tool: a.Call.Tool, Effect: a.Call.Effect, InputHash: a.Call.InputHash}
	if len(input) <= maxAsked {
		about.Input = input
	}
	answers, err := r.cfg.Hooks.Ask(ctx, due, hook.Question{Run: s.HarnessID, Agent: agent.Name, Step: st.ID, Turn: a.Call.Turn, Call: about, Result: &result})
	if err != nil {
		return []events.HookAnswer{{Hook: due[0].Name(), On: events.OnPostTool, Answer: events.HookBlock, Fault: hook.FaultUnavailable,
			Message: "the service ended while it was asked"}}
	}
	return answers
}
