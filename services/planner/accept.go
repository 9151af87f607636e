package planner

import (
	"maps"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// checkAccept refuses acceptance checks that could not be carried out in a run: a check that cannot be made must not be
// found out only when the work is done.
func checkAccept(c *events.RunCreatedData, agents map[string]events.Agent) error {
	all := map[string]*events.Accept{"the task": c.Accept}
	for name, a := range agents {
		all["agent "+name] = a.Accept
	}
	for _, who := range slices.Sorted(maps.Keys(all)) { // the same refusal each time
		a := all[who]
		if fault := a.Fault(); fault != "" {
			return kernel.Refuse("bad_input", "fix the checks and send the task again; docs/checks.md lists them", "%s: %s", who, fault)
		}
		if a == nil || c.Git != nil {
			continue
		}
		needs := ""
		if len(a.Protect) > 0 {
			needs = "accept.protect"
		} else if slices.ContainsFunc(a.Checks, func(k events.Check) bool { return k.Kind == events.CheckGit }) {
			needs = "a check of the kind git"
		}
		if needs != "" {
			return kernel.Refuse("bad_input", "give the task a repo or git, or remove it; docs/checks.md says what it is compared with",
				"%s: %s needs a run that works in git", who, needs)
		}
	}
	return nil
}
