package mutants

// crews are bugs around the roles of named agents.
var crews = []Mutant{
	{Name: "a role admits one agent more than its quota", File: "internal/mailbox/role.go",
		Old: "	may = len(q.Working) < most\n", New: "	may = len(q.Working) <= most\n", By: []string{"./internal/mailbox", "-run", "TestQuota|TestChoose"}},
	{Name: "the place of an agent that works is free", File: "internal/mailbox/role.go",
		Old: "		return s.Holder == nil\n	}\n	return true", New: "		return true\n	}\n	return true", By: []string{"./internal/mailbox", "-run", "TestQuota|TestChoose"}},
	{Name: "a place that no agent used is lost", File: "internal/mailbox/role.go",
		Old: "		return !now.Before(slot.At.Add(events.WakeTerm))", New: "		return false", By: []string{"./internal/mailbox", "-run", "TestQuota|TestChoose"}},
	{Name: "two dispatchers get the same agent", File: "internal/mailbox/role.go",
		Old: "		if !slices.ContainsFunc(s.Pending, has) {\n", New: "		if true || slices.ContainsFunc(s.Pending, has) {\n", By: []string{"./internal/mailbox", "-run", "TestQuota|TestChoose"}},
	{Name: "an agent at work is given the work of its role", File: "internal/mailbox/role.go",
		Old: "	return s.Holder == nil && len(s.Pending) == 0 &&", New: "	return len(s.Pending) == 0 &&", By: []string{"./internal/mailbox", "-run", "TestQuota|TestChoose"}},
	{Name: "an agent that was admitted by a planner that died sleeps", File: "services/planner/team/roles.go",
		Old: "		next = append(next, w.Agent)\n", New: "		_ = w\n", By: []string{"./services/planner/...", "-run", "TestDispatchCut"}},
	{Name: "a role sets a variable of the station", File: "internal/agentfile/roletoml.go",
		Old: "(?i)^(INSPAN_|NATS_|", New: "(?i)^(NATS_|", By: []string{"./internal/agentfile", "-run", "TestRoleEntries"}},
	{Name: "two agents of a role have one session", File: "internal/agentfile/roletoml.go",
		Old: `_\{role\}_\{name\}$`, New: `_\{role\}(_\{name\})?$`, By: []string{"./internal/agentfile", "-run", "TestRoleEntries"}},
	{Name: "a project has no say in its roles", File: "internal/agentfile/roleentries.go",
		Old: "		layers := []*roleEntry{project[role]}\n		if e := system[path.Base(role)]; e != nil {\n			layers = append(layers, e)\n",
		New: "		layers := []*roleEntry{project[role]}\n		if e := system[path.Base(role)]; e != nil {\n			layers = append([]*roleEntry{e}, layers...)\n",
		By:  []string{"./internal/agentfile", "-run", "TestRoleEntries"}},
}
