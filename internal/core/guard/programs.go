package guard

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// shellTool is the built-in tool that runs a shell text.
const shellTool = "bash"

// DeniedPrograms returns the programs that a deny rule names as a whole, sorted: every use of them is denied to the
// tool bash. An entry is a base name, or a glob of path.Match over base names where the rule has one ("mkfs*"). A rule
// about every use with arguments ("curl *") names the program, too. Rules about some uses only ("git push **"), with
// flags, paths or an exception are not among them: only the text shows these.
//
// It is what an enforcement below the shell can hold at execve, whatever a text calls the program. It is about calls of
// bash: a rule with `tool: bash` does not cover a built-in tool that runs the program by itself.
func (s Set) DeniedPrograms() []string {
	var names []string
	for _, e := range s.entries {
		if r := e.Rule; r.Action == Deny && r.Except == nil && (r.Tool == "" || Covers(r.Tool, shellTool)) {
			names = append(names, programs(r.Match)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// programs returns the names that a match covers with any arguments.
func programs(m events.Match) []string {
	if len(m.FlagsAny)+len(m.FlagsAll) > 0 || m.RefspecForce || m.Path != "" || m.PathOutside != "" {
		return nil
	}
	argv, text := len(m.Argv) > 0, m.Glob != ""
	switch {
	case argv && !text && len(m.Argv) > 1 && strings.Trim(strings.Join(m.Argv[1:], ""), "*") == "" &&
		slices.Contains(m.Argv[1:], "**"):
		return names(m.Argv[0])
	case text && !argv:
		var all []string
		alternatives, _ := braces(m.Glob)
		for _, p := range alternatives {
			name, rest, spaced := strings.Cut(p, " ")
			// the star of "mkfs*" crosses spaces
			anything := strings.Trim(rest, "*") == "" && (spaced && rest != "" || strings.HasSuffix(name, "*"))
			if anything {
				all = append(all, names(name)...)
			}
		}
		return all
	}
	return nil
}

// names are the base names that a pattern of a command's name stands for. A pattern that fits every name is none.
func names(pattern string) (all []string) {
	alternatives, err := braces(pattern)
	if err != nil {
		return nil
	}
	for _, p := range alternatives {
		if strings.Trim(p, "*?.") != "" && !strings.Contains(p, "/") {
			all = append(all, p)
		}
	}
	return all
}
