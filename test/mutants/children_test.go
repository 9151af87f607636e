package mutants

// children are bugs around child runs.
var children = []Mutant{
	{Name: "a run ends while a child of it lives", File: "internal/core/lifecycle/stopping.go",
		Old: "	case len(living) == 0:\n", New: "	case len(living) >= 0:\n"},
	{Name: "a child that was spawned and not begun is left", File: "services/planner/children.go",
		Old: "		for _, c := range w.State.Living() {\n", New: "		for _, c := range w.State.Living()[:min(len(w.Events), len(w.State.Living()))] {\n"},
	{Name: "a child may spend what its agent's file says", File: "internal/core/child/child.go",
		Old: "	o.MaxToolCalls, o.TimeoutMS, o.MaxSubAgentDepth = c.Reserve.ToolCalls,", New: "	o.MaxToolCalls, o.TimeoutMS, o.MaxSubAgentDepth = o.MaxToolCalls,"},
	{Name: "a failed child is not tried once more", File: "internal/core/child/child.go",
		Old: "		if before != nil && !before.Retry {", New: "		if before != nil {", By: []string{"./internal/core/child"}},
	{Name: "what is held for a child is not held", File: "pkg/run/fold_child.go",
		Old: "		if c.Lives() {\n			all.ToolCalls", New: "		if false {\n			all.ToolCalls", By: []string{"./internal/core/child"}},
	{Name: "what a child spent is not counted", File: "pkg/run/fold_child.go",
		Old: "		all = all.Plus(c.Use)\n", New: "		_ = c\n", By: []string{"./internal/core/child"}},
	{Name: "a run that has the id of a child is taken for it", File: "pkg/run/fold_child.go",
		Old: "	return l.Parent == parent &&", New: "	return l.Step != \"\" ||", By: []string{"./internal/core/child"}},
}
