package mutants

// users are bugs of who may reach a station.
var users = []Mutant{
	{Name: "a station with users lets guests in", File: "internal/station/users.go",
		Old: "	if u.list.Closed {\n		return \"\"\n	}\n", New: "", By: []string{"./internal/station"}},
	{Name: "a list that is gone opens a station", File: "internal/station/users.go",
		Old: "	case !list.Closed:\n		return errors.New(", New: "	case !list.Closed:\n		u.list = list\n		return errors.New(", By: []string{"./internal/station"}},
	{Name: "a user answers gates in any name", File: "internal/station/users.go",
		Old: "u.outsider(p.Name, p.Name, p.May...)", New: "u.outsider(p.Name, \"*\", p.May...)", By: []string{"-run", "TestUsers$", "./internal/cli"}},
	{Name: "a change of the list waits for the next start", File: "internal/station/users.go",
		Old: "	if u.list = list; list.Digest() == before.Digest() {\n", New: "	if u.list = list; true {\n", By: []string{"./internal/station"}},
}
