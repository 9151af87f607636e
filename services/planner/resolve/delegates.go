package resolve

import (
	"context"
	"maps"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// reach adds the definitions of agents, and of all that these can give work to or have reviews made by, to those of a
// run: they are pinned with it, so that none of them can be changed while it goes on. there are those that it has
// already.
func (r *Resolver) reach(ctx context.Context, there, add map[string]events.Agent, names []string) error {
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		_, old := there[name]
		_, added := add[name]
		if old || added || !events.ValidID(name) {
			continue // the check of the checks names what is no name
		}
		if len(add) >= events.MaxReached {
			return kernel.Refuse("bad_input", "let agents name fewer others in delegates and in their reviews",
				"the agents of the run can give work to more than %d others", events.MaxReached)
		}
		a, err := r.Agent(ctx, name)
		if err != nil {
			return err
		}
		add[name] = r.Fit(a)
		names = append(names, a.Gives()...)
	}
	return nil
}

// pinReached adds to a plan the agents that those of its steps can give work to, and those that review its steps.
func (r *Resolver) pinReached(ctx context.Context, c *events.RunCreatedData, made *events.PlanMadeData) error {
	var names []string
	for _, st := range made.Steps {
		names = append(names, st.Accept.Reviewers()...)
	}
	for _, name := range slices.Sorted(maps.Keys(made.Agents)) {
		names = append(names, made.Agents[name].Gives()...)
	}
	if len(names) == 0 {
		return nil
	}
	if made.Agents == nil {
		made.Agents = map[string]events.Agent{}
	}
	return r.reach(ctx, c.Agents, made.Agents, names)
}

// reviewers refuses reviews by the very agent whose work is reviewed. steps are empty where the run has one of its own
// agent.
func reviewers(c *events.RunCreatedData, agents map[string]events.Agent, steps []events.PlanStep) error {
	self := func(who, name string) error {
		return kernel.Refuse("bad_input", "name another agent in the check", "%s: agent %q would review its own work", who,
			name)
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if slices.Contains(agents[name].Accept.Reviewers(), name) {
			return self("agent "+name, name)
		}
	}
	last := []string{c.Agent}
	if len(steps) > 0 {
		last = nil
	}
	for _, st := range steps {
		if slices.Contains(st.Accept.Reviewers(), st.Agent) {
			return self("plan step "+st.ID, st.Agent)
		}
		if !slices.ContainsFunc(steps, func(o events.PlanStep) bool { return slices.Contains(o.Dependencies, st.ID) }) {
			last = append(last, st.Agent)
		}
	}
	for _, name := range c.Accept.Reviewers() {
		if slices.Contains(last, name) {
			return self("the task", name)
		}
	}
	return nil
}

// checkDelegates refuses a run whose agents can give work to one that could not do it in a child run.
func checkDelegates(c *events.RunCreatedData, agents map[string]events.Agent) error {
	for _, by := range slices.Sorted(maps.Keys(agents)) {
		for _, name := range agents[by].Delegates {
			a, ok := agents[name]
			if !ok {
				a = c.Agents[name]
			}
			if needsGit(a.Accept) {
				return kernel.Refuse("bad_input", "docs/children.md says what a child run may have",
					"agent %s gives work to agent %s: acceptance checks that need git are not supported for a child run", by, name)
			}
		}
	}
	return nil
}
