// Package precheck refuses mistyped tasks before they are published: what no station takes, and what the station at
// hand would refuse. The station decides; nothing here may refuse what it takes.
package precheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Task refuses values that no station takes, before one is asked or started.
func Task(t events.Task) error {
	for what, id := range map[string]string{"--id": t.ID, "--session": t.Session, "agent": t.Agent} {
		if id == "" {
			continue
		}
		if err := events.CheckID(what, id); err != nil {
			return err
		}
	}
	if t.Model != "" {
		if err := agentfile.CheckModel(t.Model); err != nil {
			return app.Usage("--model: %w", err)
		}
	}
	if t.Repo != "" {
		if err := git.CheckAddress(t.Repo); err != nil {
			return app.Usage("--repo: %w", err)
		}
	}
	for flag, name := range map[string]string{"--ref": t.Ref, "--branch": t.Branch} {
		if name == "" {
			continue
		}
		if err := git.CheckName(name); err != nil {
			return app.Usage("%s: %w", flag, err)
		}
	}
	if len(t.Variables) > events.MaxVariables {
		return app.Usage("%d variables, the limit is %d", len(t.Variables), events.MaxVariables)
	}
	if _, err := t.Resolve(events.Agent{}); err != nil {
		return app.Usage("%w", err)
	}
	return nil
}

// Text refuses a text that is no task.
func Text(t events.Task) error {
	switch {
	case strings.TrimSpace(t.Task) == "":
		return app.Usage("the task is empty: say what to do")
	case len(t.Task) > events.MaxTask:
		return app.Usage("the task has %d bytes, the limit is %d: put it into a file of the workspace, and name the file",
			len(t.Task), events.MaxTask)
	case strings.ContainsRune(t.Task, 0):
		return app.Usage("the task contains a NUL character")
	}
	return nil
}

// Agents refuses what the station would refuse of a task, before it is published: an agent that is not registered,
// and a variable of its prompt without a value. The station decides: who may not list its agents is not checked here.
func Agents(ctx context.Context, c *client.Client, t events.Task) error {
	registered, err := c.Agents(ctx)
	if err != nil {
		return nil //nolint:nilerr // the station refuses what is wrong
	}
	known := map[string]events.Agent{}
	names := make([]string, 0, len(registered))
	for _, a := range registered {
		known[a.Name] = a
		names = append(names, a.Name)
	}
	first, ok := known[t.Agent]
	if !ok {
		return unknownAgent(t.Agent, names)
	}
	used := []events.Agent{first}
	if t.Plan != nil {
		steps := t.Plan.PlanSteps(t.Agent)
		err := plan.Check(steps, func(name string) bool { _, ok := known[name]; return ok })
		if fault, ok := errors.AsType[*plan.Fault](err); ok {
			return app.Usage("%w; %s", fault, fault.Hint)
		}
		used = nil
		for _, st := range steps {
			used = append(used, known[st.Agent])
		}
	}
	for _, a := range used {
		if err := checkPrompt(a, t); err != nil {
			return err
		}
	}
	return nil
}

// unknownAgent names the agent that may have been meant, and those that there are.
func unknownAgent(name string, known []string) error {
	err := fmt.Errorf("agent %q: %w", name, client.ErrNotFound)
	switch near := didyoumean.Word(name, known); {
	case len(known) == 0:
		return fmt.Errorf("%w: there are no agents here: inspan init --project writes one for this directory, and inspan alone, or inspan login, sets a model for the built-in one; a station takes its agents with --agents DIR", err)
	case near != "":
		return fmt.Errorf("%w; did you mean %q? Registered: %s", err, near, view.Clip(strings.Join(known, ", "), 400))
	}
	return fmt.Errorf("%w; registered: %s", err, view.Clip(strings.Join(known, ", "), 400))
}

// checkPrompt refuses a task that leaves a variable of an agent's prompt without a value.
func checkPrompt(a events.Agent, t events.Task) error {
	_, err := agentfile.Render(a, agentfile.RenderInput{Task: t.Task, Variables: t.Variables})
	fault, ok := errors.AsType[*agentfile.Error](err)
	if !ok || fault.Code != agentfile.CodeVariable {
		return nil
	}
	name := strings.TrimPrefix(fault.Path, "input.")
	given := make([]string, 0, len(t.Variables))
	for k := range t.Variables {
		given = append(given, k)
	}
	slices.Sort(given)
	hint := ""
	if near := didyoumean.Word(name, given); near != "" {
		hint = fmt.Sprintf("; did you mean it with --var %s?", near)
	}
	return app.Usage("the prompt of agent %s has a variable {{%s}} without a value: give it with --var %s=VALUE%s", a.Name,
		view.Clip(fault.Path, 80), view.Clip(name, 80), hint)
}
