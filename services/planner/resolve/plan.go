package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"github.com/inspan/inspan/pkg/run"
)

// Read makes the plan of an answer, checked and with the agents that it names. What is wrong with it is a
// *kernel.Refusal.
func (r *Resolver) Read(ctx context.Context, s run.State) (*events.PlanMadeData, error) {
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

// checkChildren refuses steps that cannot be given to a child.
func checkChildren(c *events.RunCreatedData, steps []events.PlanStep, agents map[string]events.Agent) error {
	for _, st := range steps {
		if st.Child == "" {
			continue
		}
		a, known := agents[st.Agent]
		if !known {
			a = c.Agents[st.Agent]
		}
		var err error
		switch {
		case st.Child != events.ChildOwn && st.Child != events.ChildShared && st.Child != events.ChildWorktree:
			err = fmt.Errorf("child is %.40q: want %s (a directory of its own), %s (a branch of its own, which is merged) or %s (the directory of the run)",
				st.Child, events.ChildOwn, events.ChildWorktree, events.ChildShared)
		case st.Git != nil:
			err = errors.New("git and child do not go together: how a child works in git follows from its parent")
		case c.Git == nil && st.Child == events.ChildWorktree:
			err = errors.New("child \"worktree\" needs a run that works in git: give the task a repo or git, or use \"own\" or \"shared\"")
		case needsGit(c.Accept) || needsGit(a.Accept) || needsGit(st.Accept):
			err = errors.New("acceptance checks that need git are not supported for a child run")
		}
		if err != nil {
			return kernel.Refuse("bad_plan", "docs/children.md says what a child run may have", "plan step %q: %v", st.ID, err)
		}
	}
	return nil
}
