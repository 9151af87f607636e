package resolve

import (
	"maps"
	"slices"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/starlark"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// checkAccept refuses acceptance checks that could not be carried out in a run: a check that cannot be made must not be
// found out only when the work is done.
func checkAccept(c *events.RunCreatedData, agents map[string]events.Agent, steps ...events.PlanStep) error {
	all := map[string]*events.Accept{"the task": c.Accept}
	for _, st := range steps {
		all["plan step "+st.ID] = st.Accept
	}
	for name, a := range agents {
		all["agent "+name] = a.Accept
	}
	if err := reviewers(c, agents, steps); err != nil {
		return err
	}
	if err := checkDelegates(c, agents); err != nil {
		return err
	}
	for _, who := range slices.Sorted(maps.Keys(all)) { // the same refusal each time
		a := all[who]
		if fault := a.Fault(); fault != "" {
			return kernel.Refuse("bad_input", "fix the checks and send the task again; docs/checks.md lists them",
				"%s: %s", who, fault)
		}
		if a == nil {
			continue
		}
		for i, k := range a.Checks {
			if k.Kind == events.CheckExpr {
				if _, err := starlark.Parse(k.Expr, acceptance.ExprNames()...); err != nil {
					return kernel.Refuse("bad_input", "docs/checks.md says what an expression may have",
						"%s: accept.checks[%d]: expr: %.300s", who, i, err)
				}
			}
			if k.Kind != events.CheckSchema {
				continue
			}
			if _, err := tool.NewSchema(k.Schema); err != nil {
				return kernel.Refuse("bad_input",
					"fix the schema and send the task again; docs/checks.md has an example",
					"%s: accept.checks[%d]: %.300s", who, i, err)
			}
		}
		if c.Git != nil && len(c.Git.Merge) > 0 {
			return kernel.Refuse("bad_input",
				"merge the branches in a run without checks, and check the result in a run after it",
				"%s: checks and git.merge in one run: the branches are merged after the checks, and so without them",
				who)
		}
		if c.Git != nil || !needsGit(a) {
			continue
		}
		needs := "a check of the kind git"
		if len(a.Protect) > 0 {
			needs = "accept.protect"
		}
		return kernel.Refuse("bad_input",
			"give the task a repo or git, or remove it; docs/checks.md says what it is compared with",
			"%s: %s needs a run that works in git", who, needs)
	}
	return nil
}

// needsGit reports whether checks can only be carried out in a run that works in git.
func needsGit(a *events.Accept) bool {
	return a != nil && (len(a.Protect) > 0 || slices.ContainsFunc(a.Checks,
		func(k events.Check) bool { return k.Kind == events.CheckGit }))
}
