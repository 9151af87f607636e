package mutants

// checks are bugs around acceptance checks.
var checks = []Mutant{
	{Name: "a step is over while a check is open", File: "pkg/run/fold_check.go",
		Old: "	case c.Open():\n		return fmt.Sprintf(\"a check of step", New: "	case false:\n		return fmt.Sprintf(\"a check of step", By: []string{"./pkg/run"}},
	{Name: "a check that passed on other files than those before it counts", File: "pkg/run/fold_check.go",
		Old: "			if d.Tree == \"\" || c.Tree != \"\" && d.Tree != c.Tree {", New: "			if d.Tree == \"\" {", By: []string{"./pkg/run"}},
	{Name: "files that changed between two checks are not noticed", File: "internal/core/acceptance/acceptance.go",
		Old: "	if now.Tree != \"\" && e.Tree != now.Tree {", New: "	if now.Tree != \"\" && e.Tree == \"\" {", By: []string{"./internal/core/acceptance"}},
	{Name: "a result of an earlier claim counts for this one", File: "internal/core/acceptance/acceptance.go",
		Old: "	if !open || now.Claim != d.Claim || now.Number != d.Number {", New: "	if d.Claim = now.Claim; !open || now.Number != d.Number {", By: []string{"./internal/core/acceptance"}},
	{Name: "a claim is acknowledged and not checked", File: "services/toolrunner/toolrunner.go",
		Old: "		return r.cfg.Checks.Step(ctx, h.State, h.Step)", New: "		return nil"},
	{Name: "after a failed check no turn is owed", File: "pkg/run/fold_check.go",
		Old: "				st.Final, st.Owed = false, f.Sequence\n", New: "				st.Final = false\n"},
	{Name: "a check that could not be carried out has passed", File: "internal/checks/checks.go",
		Old: "		e.Reason = call.ClipError(c.cfg.Mask(err.Error()))\n", New: "		e.Reason = \"\"\n"},
	{Name: "a check finds the tests as the agent left them", File: "internal/checks/protect.go",
		Old: "	if r.base[f.Path] = true; r.same(f) {", New: "	if r.base[f.Path] = true; true {", By: []string{"./internal/checks"}},
	{Name: "background commands go on while their step is checked", File: "internal/checks/checks.go",
		Old: "	quiet := c.cfg.Jobs.EndStep(end, s.HarnessID, d.Step)\n", New: "	quiet := end.Err() == nil\n", By: []string{"./test/e2e", "-run", "TestChecks$"}},
}
