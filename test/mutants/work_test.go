package mutants

// works are bugs around work items.
var works = []Mutant{
	{Name: "a taken work item is bound again", File: "internal/work/decide.go",
		Old: "	case w.Action == Assign && b != nil:\n		return s, s.taken()\n", New: "", By: []string{"./internal/work"}},
	{Name: "the fold takes a second holder of a work item", File: "internal/work/fold.go",
		Old: "	if s.Status != events.WorkIsOpen || d.Epoch != s.Epoch+1 {", New: "	if s.Status == events.WorkIsClosed || d.Epoch != s.Epoch+1 {",
		By: []string{"./internal/work"}},
	{Name: "a run starts whose work item another has", File: "services/planner/work.go",
		Old: "		s, has = work.Accept(s, of.Epoch, runID, a.Now().UTC())\n", New: "		_, _ = work.Accept(s, of.Epoch, runID, a.Now().UTC())\n		has = true\n",
		By: []string{"./services/planner", "-run", "TestWork"}},
	{Name: "a binding expires while its run works", File: "internal/work/decide.go",
		Old: "s.Binding == nil || s.Binding.Started || s", New: "s.Binding == nil || s", By: []string{"./internal/work"}},
	{Name: "a binding that nobody starts lasts for ever", File: "services/planner/work.go",
		Old: "		return work.Expire(s, a.Now().UTC()), err\n", New: "		return s, err\n", By: []string{"./services/planner", "-run", "TestWork"}},
	{Name: "somebody clears the binding of a run that works", File: "internal/work/decide.go",
		Old: "	case b.Started:\n		return s, &Refused{Running", New: "	case b.Started && w.Action == Start:\n		return s, &Refused{Running", By: []string{"./internal/work"}},
	{Name: "text of a work item leaves its mark", File: "internal/work/decide.go",
		Old: `strings.NewReplacer("\r\n", "\n", "\r", "\n")`, New: `strings.NewReplacer("\r\n", "\n")`, By: []string{"./internal/work"}},
	{Name: "the end of a run frees the item of another", File: "internal/work/decide.go",
		Old: "	if s.Binding == nil || s.Binding.Epoch != epoch || s.Delivers() {\n", New: "	if s.Binding == nil || s.Delivers() {\n", By: []string{"./internal/work"}},
	{Name: "a firing or a binding whose planner died after its plan stands still", File: "services/planner/planner.go",
		Old: "		w, err := r.write(ctx, h.Run, lifecycle.Progress)\n", New: "		w, err := r.write(ctx, h.Run, lifecycle.Unstarted)\n",
		By: []string{"./services/planner", "-run", "TestFiring"}},
}
