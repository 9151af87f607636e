package guard

import (
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Limits of the look at loose words.
const (
	// maxLooseUses is how often the names of one rule are looked at among loose words; more than that is suspicious.
	maxLooseUses = 200
	// maxLooseWords is how many words behind a name are taken for its arguments.
	maxLooseWords = 64
)

// suspected reports whether what a rule is about stands among loose words: a name that the rule names, with words
// behind it that it fits. It is never sure. A rule that names no program speaks of commands only.
func suspected(r events.Rule, a Action) truth {
	if len(a.Loose) == 0 || r.Tool != "" && !Covers(r.Tool, a.Tool) || r.Match.Path != "" || r.Match.PathOutside != "" {
		return no
	}
	first := firstWords(r.Match)
	if len(first) == 0 {
		return no
	}
	uses := 0
	for _, list := range a.Loose {
		for i, w := range list {
			name, ok := looseName(first, w)
			if !ok {
				continue
			}
			if uses++; uses > maxLooseUses {
				return maybe
			}
			end := min(len(list), i+1+maxLooseWords)
			c := read(append([]string{name}, list[i+1:end]...))
			if fits(r.Match, c, false) > no && (r.Except == nil || !aboutCommands(*r.Except) || fits(*r.Except, c,
				true) != yes) {
				return maybe
			}
		}
	}
	return no
}

// firstWords are the patterns of the names that a match is about; none where it is about any.
func firstWords(m events.Match) []string {
	switch {
	case len(m.Argv) > 0:
		return names(m.Argv[0])
	case m.Glob != "":
		alternatives, _ := braces(m.Glob)
		var all []string
		for _, p := range alternatives {
			name, _, _ := strings.Cut(p, " ")
			all = append(all, names(name)...)
		}
		return all
	}
	return nil
}

// looseName returns the name that a loose word may be: as it is, without its folder, or glued to a short option.
func looseName(first []string, w string) (name string, ok bool) {
	forms := []string{path.Base(w)}
	if len(w) > 2 && w[0] == '-' && w[1] != '-' {
		forms = append(forms, path.Base(w[2:]))
	}
	if bare := path.Base(strings.TrimLeft(w, "+@~*")); bare != forms[0] {
		forms = append(forms, bare) // an added line of a patch, and the like
	}
	if sub, is := strings.CutPrefix(forms[0], "git-"); is && sub != "" {
		forms = append(forms, "git")
	}
	for _, form := range forms {
		if slices.ContainsFunc(first, func(p string) bool { return glob(p, form) == yes }) {
			return form, true
		}
	}
	return "", false
}
