package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

// maxPlanTries bounds how often a model is asked for one plan, bad answers and failed requests together.
const maxPlanTries = 5

// planSchema is what a model must answer with.
var planSchema = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["steps"],"properties":{"steps":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["id","description","dependencies","critical"],"properties":{"id":{"type":"string"},"description":{"type":"string"},"agent":{"type":"string"},"dependencies":{"type":"array","items":{"type":"string"}},"critical":{"type":"boolean"}}}}}}`)

// askForPlan lets the agent's model make the plan. A request that failed is made again with the message; after
// maxPlanTries the run fails with the reason.
func (r *Role) askForPlan(ctx context.Context, s run.State, deliveries uint64) (runlog.Written, error) {
	lost := int(min(max(deliveries, 1)-1, maxPlanTries))
	if v := budget.AskPlan(s, lost); v.Reason != "" {
		return r.write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
			return lifecycle.GiveUp(s, now, v.Reason, "no plan: "+v.Text)
		})
	}
	made, err := r.modelPlan(ctx, s)
	if err == nil {
		made.Lost = budget.LostPlans(s, lost)
		return r.begin(ctx, s.HarnessID, s.Created, made, nil)
	}
	if _, away := errors.AsType[*awayError](err); away || ctx.Err() != nil {
		return runlog.Written{}, err
	}
	after, again := llm.Retryable(err)
	if _, bad := errors.AsType[*kernel.Refusal](err); (again || bad) && deliveries < maxPlanTries {
		return runlog.Written{}, &kernel.RetryAfter{After: max(after, time.Second<<min(deliveries-1, 5))}
	}
	return r.write(ctx, s.HarnessID, func(s run.State, now time.Time) ([]events.Payload, error) {
		return lifecycle.GiveUp(s, now, events.FinishError, "no plan: "+err.Error())
	})
}

// awayError is a store that gave no answer: it says nothing of the plan, and is no reason to end a run.
type awayError struct{ error }

func (e *awayError) Unwrap() error { return e.error }

func (r *Role) modelPlan(ctx context.Context, s run.State) (*events.PlanMadeData, error) {
	agent := s.Agents[s.AgentName]
	model, name, err := r.cfg.Models.Model(agent.Model)
	if err != nil {
		return nil, err
	}
	names, err := r.cfg.Agents.Names(ctx)
	if err != nil {
		return nil, &awayError{fmt.Errorf("names of the agents: %w", err)}
	}
	answer, err := model.Ask(ctx, llm.Request{
		Model:  name,
		System: "You plan work. Answer with one JSON document: the steps, each with a short id, a description, the agent that does it, the ids it depends on, and whether it is critical (hard to undo). Use as few steps as the task needs.",
		Messages: []llm.Message{{Role: llm.User, Text: fmt.Sprintf("Task: %s\n\nRegistered agents: %v. Your own name: %s.",
			s.Created.Task, names, s.AgentName)}},
		Schema: planSchema, Temperature: agent.Temperature, MaxOutputTokens: agent.MaxOutputTokens,
		Meta: llm.Meta{Run: s.HarnessID, Agent: s.AgentName, Turn: 1, Purpose: "plan"},
	}, nil)
	if err != nil {
		return nil, err
	}
	var p events.TaskPlan
	if err := ce.Strict([]byte(answer.Text), &p); err != nil {
		return nil, kernel.Refuse("bad_plan", "the model must answer with the plan's JSON", "%v", err)
	}
	if err := withoutGit(p.Steps); err != nil {
		return nil, err
	}
	made := &events.PlanMadeData{Event: "plan_made", TaskID: s.TaskID, Origin: events.OriginModel, Steps: p.PlanSteps(s.AgentName),
		InputTokens: answer.Usage.Input, OutputTokens: answer.Usage.Output}
	made.ModelRef, made.Cost = budget.Paid(s.Prices, agent.Model, answer.Provider, answer.Model,
		budget.Usage{Input: answer.Usage.Input, Output: answer.Usage.Output, Cached: answer.Usage.CachedInput})
	return made, r.complete(ctx, s.Created, made)
}

// withoutGit refuses git settings in a plan of a model: it must not decide what a person is asked about.
func withoutGit(steps []events.TaskStep) error {
	for _, st := range steps {
		if st.Git != nil {
			return kernel.Refuse("bad_plan", "leave git out", "plan step %q: a model cannot set git for a step", st.ID)
		}
	}
	return nil
}
