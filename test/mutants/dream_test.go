package mutants

// dreams are bugs around checkpoints by the clock.
var dreams = []Mutant{
	{Name: "a checkpoint is taken where nothing happened", File: "internal/core/checkpoint/checkpoint.go",
		Old: "now.Before(last(s).Add(d)) || !s.MovedOn() {", New: "now.Before(last(s).Add(d)) {", By: []string{"./internal/core/checkpoint"}},
	{Name: "a timer that comes twice takes two checkpoints", File: "internal/core/checkpoint/checkpoint.go",
		Old: "	if !ok || now.Before(last(s).Add(d)) ||", New: "	if !ok ||", By: []string{"./internal/core/checkpoint"}},
	{Name: "a run that is left alone has as few checkpoints as one that is watched", File: "internal/core/checkpoint/checkpoint.go",
		Old: "given/4*quarters", New: "given+0*quarters", By: []string{"./internal/core/checkpoint"}},
	{Name: "a run that was begun has no timer for its checkpoints", File: "services/planner/checkpoint.go",
		Old: "	if !ok {\n", New: "	if _ = ok; true {\n",
		By: []string{"./test/sim", "-run", "TestDreams"}},
	{Name: "a run that is to be replaced is not stopped", File: "services/planner/schedules/replace.go",
		Old: "		return lifecycle.Stop(now, at, wish)\n", New: "		_, _ = at, wish\n		return nil, nil\n", By: []string{"./services/planner/..."}},
	{Name: "a run begins beside the one that it replaces", File: "internal/schedule/decide.go",
		Old: "	if s.Spec.Overlap.InTurn() {\n", New: "	if s.Spec.Overlap == events.OverlapQueue {\n", By: []string{"./services/planner/..."}},
	{Name: "the timer of a schedule is not set again", File: "services/planner/schedules/schedules.go",
		Old: "		if at, ok := schedule.Wake(s); ok {\n", New: "		if at, ok := schedule.Wake(s); ok && s.Fired == 0 {\n", By: []string{"./services/planner/..."}},
	{Name: "the end of a run is not looked for when its schedule is tended", File: "services/planner/schedules/schedules.go",
		Old: "		case run.Status.Ended():\n			s = schedule.Close(", New: "		case false:\n			s = schedule.Close(", By: []string{"./services/planner/..."}},
}
