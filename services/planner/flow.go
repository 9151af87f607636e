package planner

import (
	"context"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/resolve"
)

// flowTimer is the timer of a run whose plan goes on by itself at some time: an attempt is due, or a time is up.
const flowTimer = "run.steps"

// maxAdvance bounds how many times a plan goes on for one message: each time at least one of its steps does.
const maxAdvance = 3 * plan.MaxRunSteps

// advance lets a plan go on as far as it does by itself. Conditions and lists are evaluated here, once: what they come
// to is an event, and no one evaluates them again. At the end the timer is set for what comes later.
func (r *Role) advance(ctx context.Context, s run.State) (run.State, error) {
	if !plan.Flows(s.Plan) {
		return s, nil
	}
	for range maxAdvance {
		if s.Status.Ended() {
			return s, nil
		}
		var answers []plan.Answer
		for _, q := range plan.Questions(s) {
			answers = append(answers, resolve.Evaluate(q))
		}
		w, err := r.write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
			if say := plan.Answered(s, answers, now); len(say) > 0 {
				return say, nil
			}
			return lifecycle.Progress(s, now)
		})
		if err != nil {
			return w.State, err
		}
		if s = w.State; len(w.Events) > 0 || len(plan.Questions(s)) > 0 {
			continue
		}
		if at, ok := plan.Wake(s); ok && !s.Status.Ended() {
			return s, r.cfg.Timers.Set(ctx, s.HarnessID, flowTimer, at, s.Sequence)
		}
		return s, nil
	}
	return s, &kernel.RetryAfter{After: time.Second}
}
