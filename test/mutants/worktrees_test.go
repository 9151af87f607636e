package mutants

// worktrees are bugs around children in worktrees.
var worktrees = []Mutant{
	{Name: "a child in a worktree begins with what its parent began with", File: "internal/core/delivery/worktree.go",
		Old: "	if st.Branched != nil && c.Workspace == events.ChildWorktree {", New: "	if false {", By: []string{"./test/sim", "-run", "TestWorktreesCalm"}},
	{Name: "a child in a worktree begins with a commit that was not published", File: "internal/core/delivery/worktree.go",
		Old: "	case !p.saved:\n", New: "	case false:\n", By: []string{"./test/sim", "-run", "TestWorktreesCalm"}},
	{Name: "a child in a worktree publishes its branch where its parent does not look", File: "internal/core/delivery/worktree.go",
		Old: "		Scope: scope}\n", New: "		Scope: \"run/\" + c.ID}\n", By: []string{"./test/sim", "-run", "TestWorktreesCalm"}},
	{Name: "a step is over whose child is not merged", File: "internal/core/delivery/worktree.go",
		Old: "	if last == nil {\n		return ask()\n	}\n", New: "	if last == nil {\n		return nil\n	}\n", By: []string{"./test/sim", "-run", "TestWorktreesCalm"}},
	{Name: "another commit is merged than a child ended with", File: "internal/core/delivery/worktree.go",
		Old: "Commits: []string{c.Commit}, Message: text})", New: "Message: text})", By: []string{"./test/sim", "-run", "TestEveryOperationWorktrees/.*_a_branch_that_somebody_moves$"}},
	{Name: "a conflict with the work of a child is taken for a merge", File: "internal/core/delivery/worktree.go",
		Old: "	case len(m.Conflicts) > 0:\n		var paths", New: "	case len(m.Conflicts) > 1:\n		var paths", By: []string{"./test/sim", "-run", "TestEveryOperationWorktrees/.*_siblings_that_clash"}},
	{Name: "a step reports that the tree is unchanged where a merge failed", File: "internal/core/delivery/worktree.go",
		Old: "		tree := outcomeUnknown\n", New: "		tree := treeUnchanged\n", By: []string{"./internal/core/delivery", "-run", "TestWorktree"}},
	{Name: "a child is spawned before its step is branched", File: "pkg/run/fold_child.go",
		Old: "st.Owed == 0 && (st.Child != events.ChildWorktree || st.Branched != nil)", New: "st.Owed == 0", By: []string{"./test/sim", "-run", "TestWorktreesCalm"}},
	{Name: "a merge that was made is not found made once its branch has moved", File: "internal/gitwork/merge.go",
		Old: "		if !in {\n			all", New: "		if in || true {\n			all", By: []string{"./internal/gitwork", "-run", "TestMergeAgain"}},
	{Name: "no one looks after a step that is branched", File: "services/planner/children.go",
		Old: "	case events.StepAllowed, events.StepBranched, events.CallDelegated:\n", New: "	case events.StepAllowed, events.CallDelegated:\n", By: []string{"./test/sim", "-run", "TestWorktreesCalm"}},
}
