package mutants

// harnesses are bugs around programs whose steps are recorded.
var harnesses = []Mutant{
	{Name: "a program that was replaced is refused for its order", File: "internal/harness/decide.go",
		Old: "	case c.Epoch != s.Epoch:\n		return nil, &Refused{Replaced, fmt.Sprintf(\"harness %s is", New: "	case c.Epoch > s.Epoch:\n		return nil, &Refused{Replaced, fmt.Sprintf(\"harness %s is", By: []string{"./pkg/harness"}},
	{Name: "a step is recorded while an effect of it has no outcome", File: "internal/harness/fold.go",
		Old: "	if b, open := s.Unsettled(); open {\n		return s, fmt.Errorf(\"effect %d has no outcome\", b.Number)\n	}\n	s.Steps", New: "	s.Steps", By: []string{"./internal/harness"}},
	{Name: "a late attachment takes a harness back", File: "internal/harness/decide.go",
		Old: "	case c.Epoch != s.Epoch:\n		return nil, &Refused{Replaced,\n			fmt.Sprintf(\"harness %s: program", New: "	case c.Epoch > s.Epoch:\n		return nil, &Refused{Replaced,\n			fmt.Sprintf(\"harness %s: program", By: []string{"./internal/harness"}},
	{Name: "an effect of class once is carried out again after a crash", File: "pkg/harness/effect.go",
		Old: "	if e.Class == Once {\n		return settle", New: "	if e.Class == Read {\n		return settle", By: []string{"./pkg/harness"}},
	{Name: "an effect of class once begins without a record", File: "pkg/harness/effect.go",
		Old: "	if e.Class.begins() {\n		if err := x.begin", New: "	if e.Class == Reconcilable {\n		if err := x.begin", By: []string{"./pkg/harness"}},
	{Name: "the end of the context is the end of the harness", File: "pkg/harness/run.go",
		Old: "	case ctx.Err() != nil:\n		return x.ended(context.Cause(ctx))\n", New: "", By: []string{"./pkg/harness"}},
}
