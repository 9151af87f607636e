package mutants

// halts are bugs around the emergency stop, and around the warning that a log fills up.
var halts = []Mutant{
	{Name: "a late release ends a later halt", File: "internal/halt/halt.go",
		Old: "	case w.Number != s.Number:", New: "	case false:", By: []string{"./internal/halt"}},
	{Name: "a second halt takes the place of the first one", File: "internal/halt/halt.go",
		Old: "	if s.Halted || d.Number != s.Number+1 {", New: "	if d.Number != s.Number+1 {", By: []string{"./internal/halt"}},
	{Name: "the halt in force counts towards deadlines", File: "pkg/events/kind_halt.go",
		Old: "	if h.Halted {\n		periods", New: "	if false {\n		periods", By: []string{"./internal/halt"}},
	{Name: "a halted station lets deadlines run", File: "internal/core/lifecycle/moves.go",
		Old: "now.Before(at.Add(halted))", New: "now.Before(at)", By: []string{"./internal/core/lifecycle"}},
	{Name: "a halted station lets gates expire", File: "internal/core/gate/terms.go",
		Old: "	return g.ExpiresAt.Add(f(g.CreatedAt, now)), true", New: "	return g.ExpiresAt, true", By: []string{"./internal/core/gate"}},
	{Name: "a service that starts does not ask whether the station is halted", File: "internal/service/halting.go",
		Old: "now, changed := !g.known || g.state.Halted, g.changed", New: "now, changed := g.known && g.state.Halted, g.changed", By: []string{"./internal/service", "-run", "TestHalting"}},
	{Name: "a call that is under way goes on while the station is halted", File: "internal/service/halting.go",
		Old: "		defer context.AfterFunc(ctx, func() {\n			if Halted(ctx) {", New: "		defer context.AfterFunc(ctx, func() {\n			if false {", By: []string{"./internal/service", "-run", "TestHalting"}},
	{Name: "a damaged log of halts lets all go on", File: "internal/service/halting.go",
		Old: "		s.Halted, s.By, s.Reason = true, \"the log of halts\"", New: "		s.Halted, s.By, s.Reason = false, \"the log of halts\"", By: []string{"./internal/service", "-run", "TestHalting"}},
	{Name: "services work on a restore that is not done", File: "internal/service/halting.go",
		Old: "		return ErrRestoring\n", New: "		return nil\n", By: []string{"./internal/service", "-run", "TestRestoring"}},
	{Name: "a restore does not say that it has begun", File: "internal/backup/restore.go",
		Old: "	if err := to.PutValue(ctx, begun); err != nil {\n		return err\n	}\n", New: "	_ = begun\n", By: []string{"./test/recovery", "-run", "TestRestoreCut"}},
	{Name: "no one is warned before the limit is reached", File: "pkg/events/space.go",
		Old: "	SpaceWarns = 0.8", New: "	SpaceWarns = 1", By: []string{"./internal/jet", "-run", "TestSpace"}},
	{Name: "what came long ago counts as growth", File: "internal/jet/space.go",
		Old: "	return last - page.messages[0].seq + 1, nil", New: "	return last, nil", By: []string{"./internal/jet", "-run", "TestSpace"}},
}
