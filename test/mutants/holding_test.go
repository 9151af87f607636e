package mutants

// holding are bugs around work items that named agents hold.
var holding = []Mutant{
	{Name: "an earlier run of an agent takes its item back", File: "internal/work/named.go",
		Old: "	case as.Epoch <= b.AgentEpoch:\n		return s, false\n", New: "", By: []string{"./internal/work"}},
	{Name: "the fold gives an item to an earlier run of its agent", File: "internal/work/named.go",
		Old: "d.Run == \"\" || d.AgentEpoch <= b.AgentEpoch || s.Delivers()", New: "d.Run == \"\" || s.Delivers()",
		By: []string{"./internal/work"}},
	{Name: "an agent gets a second item", File: "internal/mailbox/item.go",
		Old: "	case of != nil && holds(*of):\n", New: "	case of != nil && holds(*of) && s.Quiet:\n",
		By: []string{"./services/planner", "-run", "TestHeldItem"}},
	{Name: "an agent is woken for an item that is not its any more", File: "services/planner/namedwork.go",
		Old: "	if err != nil || item.HeldBy(s.Address, of.Epoch) {\n", New: "	if err != nil || item.HeldBy(s.Address, of.Epoch) || true {\n",
		By: []string{"./services/planner", "-run", "TestHeldItem"}},
	{Name: "a failed run of an agent frees its item", File: "services/planner/namedwork.go",
		Old: "	return b.Address != \"\" && (", New: "	return b.Address == \"\" && (", By: []string{"./services/planner", "-run", "TestHeldItem"}},
	{Name: "the end of a run that held an item does not wake its agent", File: "services/planner/children.go",
		Old: "err != nil || h.State.Created.Address == nil {\n				return err", New: "err != nil || h.State.Created.Address != nil {\n				return err",
		By: []string{"./services/planner", "-run", "TestHeldItem"}},
	{Name: "a run whose cancel was cut goes on without its item", File: "internal/core/lifecycle/moves.go",
		Old: "s.Status == events.Running && s.Plan == nil && s.Planning == nil &&\n		s.Stopping == nil",
		New: "s.Status == events.Running && s.Plan == nil && s.Planning == nil && s.Stopping != nil",
		By:  []string{"./internal/core/lifecycle"}},
	{Name: "an agent has no account of a run that failed at its item", File: "internal/mailbox/agent.go",
		Old: "code != Stopped && s.Life.Work == nil || code", New: "code != Stopped || code", By: []string{"./internal/mailbox"}},
	{Name: "an agent that holds an item sleeps without mail", File: "internal/mailbox/decide.go",
		Old: "s.Life.Account != nil || with.Work != nil", New: "s.Life.Account != nil", By: []string{"./internal/mailbox"}},
}

// removals are bugs around branches that have landed.
var removals = []Mutant{
	{Name: "a branch is removed that is not merged", File: "internal/git/remove.go",
		Old: "err == nil && done.How == \"\" {", New: "err == nil && done.How == Rebased+Squashed {", By: []string{"./internal/git", "-run", "TestRemove"}},
	{Name: "a branch counts as merged of which a part is", File: "internal/git/remove.go",
		Old: "all = all && theirs[id]", New: "all = all || theirs[id]", By: []string{"./internal/git", "-run", "TestRemove"}},
	{Name: "a branch is removed that somebody worked on", File: "internal/git/remove.go",
		Old: "	case is != p.Commit:\n", New: "	case is == into:\n", By: []string{"./internal/git", "-run", "TestRemove"}},
	{Name: "a merge queue removes branches that it is to keep", File: "internal/core/delivery/landing.go",
		Old: "return !l.Keep && l.Branch", New: "return l.Branch", By: []string{"./internal/core/delivery"}},
}
