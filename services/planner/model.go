package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// fromModel does what is owed to a run whose plan a model makes: the plan is requested, and the executor asks the
// model. An answer becomes the plan where it is one. Where it is none, the model is told why and asked again, a bounded
// number of times.
func (r *Role) fromModel(ctx context.Context, s run.State) (runlog.Written, error) {
	p := s.Planning
	switch {
	case s.Plan != nil:
		return r.write(ctx, s.HarnessID, lifecycle.Progress) // whoever made it may be gone
	case p == nil:
		names, err := r.cfg.Resolve.Names(ctx)
		if err != nil {
			return runlog.Written{}, fmt.Errorf("names of the agents: %w", err)
		}
		return r.write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
			return lifecycle.RequestPlan(s, now, names)
		})
	case p.Owed != 0:
		return runlog.Written{State: s}, nil // the executor's to get
	case p.Error != "":
		return r.write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
			return lifecycle.GiveUp(s, now, p.RunReason, "no plan: "+p.Error)
		})
	}
	made, err := r.cfg.Resolve.Read(ctx, s)
	refusal, bad := errors.AsType[*kernel.Refusal](err)
	if err != nil && !bad {
		return runlog.Written{}, err // a store gave no answer, which says nothing of the plan
	}
	return r.write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
		if bad {
			return lifecycle.RefusePlan(s, now, p.Answered, p.Agents, refusal.Reason, refusal.Hint)
		}
		return lifecycle.TakePlan(s, now, p.Answered, made)
	})
}
