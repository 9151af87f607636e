package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// Revision prepares another plan for what has not begun of a run (PLAN-9): the agents that its steps name are looked up
// once, and the plan is checked against the state it is written to.
func (r *Resolver) Revision(ctx context.Context, runID string, s run.State, c events.Control,
	input uint64) (decide runlog.Decide, err error) {
	want := plan.Revision{Plan: c.Plan, By: part.OrUnknown(c.By), Reason: c.Reason, Input: input}
	if c.Plan != nil && len(c.Plan.Vars) > 0 {
		return nil, part.Named(runID, kernel.Refuse("bad_plan", "leave vars out: those of the plan stay",
			"a revision cannot set vars"))
	}
	if s.Sequence > 0 && c.Plan != nil {
		if s.Plan != nil {
			if err := checkFlow(c.Plan.PlanSteps(s.AgentName), s.Plan.Vars); err != nil {
				return nil, ofRun(runID, err)
			}
		}
		if want.Agents, err = r.named(ctx, s, c.Plan); err != nil {
			return nil, err
		}
		if want.Prices, err = r.Prices(want.Agents, s.Options); err != nil {
			return nil, ofRun(runID, err)
		}
	}
	return func(s run.State, _ time.Time) ([]events.Payload, error) {
		say, err := plan.Revise(s, want)
		if err != nil {
			return nil, ofRun(runID, refuseRevision(s, err))
		}
		for _, p := range say { // a plan that no event has room for is refused before it is written
			whole, err := json.Marshal(p)
			if err != nil {
				return nil, fmt.Errorf("encode the revised plan: %w", err)
			}
			if len(whole) > events.MaxEvent-envelope {
				return nil, part.Named(runID, kernel.Refuse("bad_plan", "put long material in a file of the workspace",
					"the plan has %d bytes, the limit is %d", len(whole), events.MaxEvent-envelope))
			}
		}
		return say, nil
	}, nil
}

// named looks up the agents of a plan that the run has not pinned. One that is not registered is left out, and the
// check names it.
func (r *Resolver) named(ctx context.Context, s run.State, p *events.TaskPlan) (map[string]events.Agent, error) {
	var found map[string]events.Agent
	steps := p.PlanSteps(s.AgentName)
	for _, st := range steps {
		if _, pinned := s.Agents[st.Agent]; pinned || !events.ValidID(st.Agent) {
			continue
		}
		a, err := r.cfg.Agents.Agent(ctx, st.Agent)
		if errors.Is(err, kernel.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", st.Agent, err)
		}
		if found == nil {
			found = map[string]events.Agent{}
		}
		found[st.Agent] = r.Fit(a)
	}
	made := &events.PlanMadeData{Steps: steps, Agents: found}
	if err := r.pinReached(ctx, &events.RunCreatedData{Agents: s.Agents}, made); err != nil {
		return nil, err
	}
	return made.Agents, checkAccept(s.Created, made.Agents, steps...)
}

// refuseRevision says why a plan is not revised, and what to do.
func refuseRevision(s run.State, err error) error {
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return kernel.Refuse("bad_plan", fault.Hint, "%v", fault)
	}
	stands, ok := errors.AsType[*plan.StateError](err)
	if !ok {
		return err
	}
	hint := "inspan inspect " + s.HarnessID + " shows where it stands"
	switch {
	case s.Status.Ended():
		hint = "start a new run, or fork this one: inspan fork " + s.HarnessID
	case s.Status != events.Paused:
		hint = "pause it first: inspan pause " + s.HarnessID
	}
	return kernel.Refuse("bad_move", hint, "revise: %v", stands)
}

// ofRun names the run in a refusal.
func ofRun(runID string, err error) error {
	if refusal, ok := errors.AsType[*kernel.Refusal](err); ok {
		return part.Named(runID, refusal)
	}
	return err
}
