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
	"github.com/inspan/inspan/pkg/events/ce"
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
		names, err := r.cfg.Agents.Names(ctx)
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
	made, err := r.resolve.read(ctx, s)
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

// read makes the plan of an answer, checked and with the agents that it names. What is wrong with it is a
// *kernel.Refusal.
func (r *resolver) read(ctx context.Context, s run.State) (*events.PlanMadeData, error) {
	text := []byte(s.Planning.Text)
	if ref := s.Planning.TextRef; ref != nil {
		if r.cfg.Blobs == nil {
			return nil, errors.New("a planner without objects cannot read the answer of a model")
		}
		var err error
		if text, err = r.cfg.Blobs.Get(ctx, *ref); err != nil {
			return nil, fmt.Errorf("answer of the model: %w", err)
		}
	}
	if s.Planning.FinishReason == events.FinishLength {
		return nil, kernel.Refuse("bad_plan", "use fewer steps and shorter descriptions",
			"the answer was cut at the model's output limit")
	}
	var p events.TaskPlan
	if err := ce.Strict(text, &p); err != nil {
		return nil, kernel.Refuse("bad_plan", "the model must answer with the plan's JSON", "%v", err)
	}
	if err := ofModel(p); err != nil {
		return nil, err
	}
	made := &events.PlanMadeData{Event: "plan_made", TaskID: s.TaskID, Origin: events.OriginModel,
		Steps: p.PlanSteps(s.AgentName)}
	return made, r.complete(ctx, s.Created, made)
}

// ofModel refuses what a plan of a model may not have: git settings, because it must not decide what a person is asked
// about, checks, because no guard judges their commands, and a control flow, by which it could put approvals that no
// one gives, or work without an end, in the place of what it was asked for. It may have ids, descriptions, agents,
// dependencies, critical and child.
func ofModel(p events.TaskPlan) error {
	if len(p.Vars) > 0 {
		return kernel.Refuse("bad_plan", "leave vars out", "a model cannot set vars")
	}
	for _, st := range p.Steps {
		if st.Flow != nil {
			return kernel.Refuse("bad_plan", "leave flow out", "plan step %q: %v", st.ID, errModelFlow)
		}
		if st.Accept != nil {
			return kernel.Refuse("bad_plan", "leave accept out",
				"plan step %q: a model cannot set accept, the checks of a step", st.ID)
		}
		if st.Git != nil {
			return kernel.Refuse("bad_plan", "leave git out", "plan step %q: a model cannot set git for a step", st.ID)
		}
	}
	return nil
}
