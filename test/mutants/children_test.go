package mutants

// children are bugs around child runs.
var children = []Mutant{
	{Name: "a run ends while a child of it lives", File: "internal/core/lifecycle/stopping.go",
		Old: "	case len(living) == 0:\n", New: "	case len(living) >= 0:\n"},
	{Name: "a child that was spawned and not begun is left", File: "services/planner/children.go",
		Old: "		for _, c := range w.State.Living() {\n", New: "		for _, c := range w.State.Living()[:min(len(w.Events), len(w.State.Living()))] {\n"},
	{Name: "a child may spend what its agent's file says", File: "internal/core/child/born.go",
		Old: "	o.MaxToolCalls, o.TimeoutMS, o.MaxSubAgentDepth = c.Reserve.ToolCalls,", New: "	o.MaxToolCalls, o.TimeoutMS, o.MaxSubAgentDepth = o.MaxToolCalls,"},
	{Name: "a failed child is not tried once more", File: "internal/core/child/child.go",
		Old: "c == nil || c.Retry {", New: "c == nil {", By: []string{"./internal/core/child"}},
	{Name: "what is held for a child is not held", File: "pkg/run/fold_child.go",
		Old: "		if c.Lives() {\n			all.ToolCalls", New: "		if false {\n			all.ToolCalls", By: []string{"./internal/core/child"}},
	{Name: "what a child spent is not counted", File: "pkg/run/fold_child.go",
		Old: "		all = all.Plus(c.Use)\n", New: "		_ = c\n", By: []string{"./internal/core/child"}},
	{Name: "a run that has the id of a child is taken for it", File: "pkg/run/fold_child.go",
		Old: "	return l.Parent == parent &&", New: "	return l.Step != \"\" ||", By: []string{"./internal/core/child"}},
	{Name: "a call is answered before its child has ended", File: "internal/core/call/delegate.go",
		Old: "	case k.Lives() || k.Retry:\n		return r, false\n	}\n	r.Output, r.Success = came(s, k)\n	r.Took", New: "	}\n	r.Output, r.Success = came(s, k)\n	r.Took"},
	{Name: "the fold takes the answer of a call without its child", File: "pkg/run/fold_child.go",
		Old: "	if c.Phase != CallDelegated {\n		return \"\"\n	}", New: "	if true {\n		return \"\"\n	}", By: []string{"./pkg/run/..."}},
	{Name: "a review counts without its verdict", File: "pkg/run/fold_check.go",
		Old: "	return err == nil && v.Verdict == events.VerdictPass", New: "	return err == nil || v.Verdict == \"\"", By: []string{"./pkg/run/..."}},
	{Name: "a child in the background outlives its step", File: "pkg/run/fold_child.go",
		Old: "		return !st.Final\n", New: "		return st != nil\n", By: []string{"./pkg/run/..."}},
}
