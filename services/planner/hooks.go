package planner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// stopPatience is how long the end of a run that fails, is stopped or timed out waits for all hooks together.
const stopPatience = 5 * time.Second

// write is Ledger.Write that asks the hooks before the end of a run is said, and settles the run's session after it.
func (r *Role) write(ctx context.Context, runID string, decide runlog.Decide) (runlog.Written, error) {
	var answers []events.HookAnswer
	var asked *events.Result // the end that answers are about
	for {
		var owed *events.Result
		var due []hook.Due
		w, err := r.cfg.Ledger.Write(ctx, runID, func(s run.State, now time.Time) ([]events.Payload, error) {
			say, err := decide(s, now)
			owed = nil
			if due = r.cfg.Hooks.Due(s.Agents[s.AgentName], events.OnRunStop, ""); err != nil || len(due) == 0 {
				return say, err
			}
			then, end := lifecycle.AtStop(s, say, false, nil)
			if end == nil {
				return then, nil
			}
			if asked == nil || !lifecycle.SameEnd(*asked, *end) { // what came meanwhile may have given it another end
				owed = end
				return nil, nil
			}
			say, _ = lifecycle.AtStop(s, say, true, answers)
			return say, nil
		})
		if err == nil && owed == nil {
			err = r.parts.Sessions.Settle(ctx, w.State)
		}
		if err != nil || owed == nil {
			return w, err
		}
		if answers, err = r.stopping(ctx, w.State, due, *owed); err != nil {
			return w, err
		}
		asked = owed
	}
}

// stopping asks about the end of a run.
func (r *Role) stopping(ctx context.Context, s run.State, due []hook.Due,
	end events.Result) ([]events.HookAnswer, error) {
	ask, cancel := ctx, context.CancelFunc(func() {})
	if end.Status != events.Completed {
		ask, cancel = context.WithTimeout(ctx, stopPatience)
	}
	defer cancel()
	answers, err := r.cfg.Hooks.Ask(ask, due, hook.Question{Run: s.HarnessID, Agent: s.AgentName,
		End: &hook.End{Status: string(end.Status), Reason: end.FinishReason, Output: end.Output, Error: end.Error}})
	if err != nil && ctx.Err() == nil {
		return []events.HookAnswer{{Hook: due[0].Name(), On: events.OnRunStop, Answer: events.HookBlock,
			Fault:   hook.FaultTimeout,
			Message: "the run ends without it: no answer within " + stopPatience.String()}}, nil
	}
	return answers, err
}

// starting asks the hooks before a run begins; none where it has begun already.
func (r *Role) starting(ctx context.Context, there run.State, runID string,
	c *events.RunCreatedData) ([]events.HookAnswer, error) {
	if there.Sequence > 0 && there.Status != events.Created {
		return nil, nil
	}
	due := r.cfg.Hooks.Due(c.Agents[c.Agent], events.OnRunStart, "")
	if len(due) == 0 {
		return nil, nil
	}
	return r.cfg.Hooks.Ask(ctx, due, hook.Question{Run: runID, Agent: c.Agent, Task: c.Task})
}
