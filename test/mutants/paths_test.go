package mutants

// paths are bugs of the choice between the wrapped and the direct path.
var paths = []Mutant{
	{Name: "a run goes past the person who is asked before its step", File: "services/planner/resolve/route.go",
		Old: "OriginSingle, Gated: gate.NeedsGate(created.Options.Autonomy, false)", New: "OriginSingle, Gated: gate.NeedsGate(5, false)", By: []string{"./services/planner/..."}},
	{Name: "a hook that holds a run back is ignored on the direct path", File: "pkg/run/fold_direct.go",
		Old: "	case held:\n", New: "	case false && held:\n", By: []string{"./pkg/run/..."}},
	{Name: "a direct run past a person is taken", File: "pkg/run/fold_direct.go",
		Old: "	case d.Options.Autonomy < 3:", New: "	case false:", By: []string{"./pkg/run/..."}},
	{Name: "no one takes the first turn of a direct run", File: "services/executor/executor.go",
		Old: "		if !h.State.Direct() {", New: "		if h.State.Direct() {", By: []string{"./services/executor"}},
	{Name: "a task as long as the threshold is short", File: "internal/core/route/route.go",
		Old: "a.Estimate >= threshold && a.Estimate > 0", New: "a.Estimate > threshold", By: []string{"./internal/core/route"}},
	{Name: "a run that was started only to be ended is begun by its task", File: "internal/core/lifecycle/hooks.go",
		Old: "	if cancelling(s) {", New: "	if false {", By: []string{"./internal/core/lifecycle"}},
	{Name: "a direct run is kept in snapshots", File: "services/persister/persister.go",
		Old: "	if s.Direct() || checkpoint ==", New: "	if checkpoint ==", By: []string{"./services/persister"}},
}
