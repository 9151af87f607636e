package guard

import (
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// truth is an answer about a command of which some words may only be known when it runs.
type truth int8

const (
	no truth = iota
	maybe
	yes
)

func sure(ok bool) truth {
	if ok {
		return yes
	}
	return no
}

// holds reports whether a rule speaks of an action: its tool glob covers the tool, its conditions hold, and its
// exception does not. Conditions about commands hold if at least one simple command meets all of them and is not
// excepted; a rule without any holds unless every command is excepted.
//
// The conditions of a Match, all given must hold:
//   - Argv: one glob for each word, the name first. "*" is one word, "**" any number of words; {a,b} are alternatives.
//     A glob's * also matches slashes. The name is compared without its folder, git without its global options, and a
//     word also in its shortest form as a path ("./x/../.." is "..").
//   - FlagsAny: at least one of the flags is there. "-f" is also found in a cluster (-qf), "--force" also shortened
//     (--forc) and with a value (--force=1); any other flag (-delete) as it is. Alternatives may be written "-r|-R".
//   - FlagsAll: every one of the flags is there, of alternatives any.
//   - RefspecForce: a word begins with + and goes on.
//   - Glob: a glob over the words joined by one space.
//   - Path: a glob over an argument of the tool that is a path; one that matches is enough, in either form.
//   - PathOutside: "workspace"; an argument of the tool that is a path leaves it. It is about the call, not about one
//     command of it.
//
// An exception opens a door, so it is read strictly: flags in full, words fully known, paths in both forms. by is the
// place of the command that met the rule, -1 where it is about the whole call.
func holds(r events.Rule, a Action, commands []command) (t truth, by int) {
	if r.Tool != "" && !Covers(r.Tool, a.Tool) {
		return no, -1
	}
	outside := len(a.Outside) > 0
	if r.Match.PathOutside != "" && !outside || r.Match.Path != "" && !anyPath(r.Match.Path, a.Paths) {
		return no, -1
	}
	excepted := func(command) bool { return false }
	if e := r.Except; e != nil && (e.PathOutside == "" || outside) && (e.Path == "" || allPaths(e.Path, a.Paths)) {
		if !aboutCommands(*e) {
			return no, -1
		}
		excepted = func(c command) bool { return fits(*e, c, true) == yes }
	}
	if !aboutCommands(r.Match) && len(commands) == 0 {
		return yes, -1
	}
	best, by := no, -1
	for i, c := range commands {
		if t := fits(r.Match, c, false); t > best && !excepted(c) {
			best, by = t, i
		}
	}
	return best, by
}

func anyPath(pattern string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return glob(pattern, p) == yes || glob(pattern,
			path.Clean(p)) == yes
	})
}

// allPaths is how an exception reads them: each of them, in both forms.
func allPaths(pattern string, paths []string) bool {
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool {
		return glob(pattern, p) != yes ||
			glob(pattern, path.Clean(p)) != yes
	})
}

// aboutCommands reports whether a match has conditions on a simple command.
func aboutCommands(m events.Match) bool {
	return len(m.Argv) > 0 || len(m.FlagsAny) > 0 || len(m.FlagsAll) > 0 || m.RefspecForce || m.Glob != ""
}

// fits reports whether one simple command meets all conditions of a match.
func fits(m events.Match, c command, strict bool) truth {
	t := yes
	if len(m.Argv) > 0 {
		t = min(t, words(m.Argv, c.argv, strict))
	}
	if t > no && len(m.FlagsAny) > 0 {
		t = min(t, anyFlag(c, m.FlagsAny, strict))
	}
	for _, alternatives := range m.FlagsAll {
		t = min(t, has(c, alternatives, strict))
	}
	if t > no && m.RefspecForce {
		t = min(t, forced(c, strict))
	}
	if t > no && m.Glob != "" {
		t = min(t, whole(m.Glob, c, strict))
	}
	return t
}

func anyFlag(c command, flags []string, strict bool) truth {
	t := no
	for _, alternatives := range flags {
		t = max(t, has(c, alternatives, strict))
	}
	return t
}

// forced looks for a "+ref" among the words.
func forced(c command, strict bool) truth {
	t := no
	for _, w := range c.argv[1:] {
		switch {
		case len(w) > 1 && w[0] == '+':
			return yes
		case !strict && w != "" && (w[0] == Unknown[0] || many(w)):
			t = maybe
		}
	}
	return t
}

// has reports whether one of the alternatives "-r|-R|--recursive" is among the flags of a command.
func has(c command, alternatives string, strict bool) truth {
	t := no
	for want := range strings.SplitSeq(alternatives, "|") {
		t = max(t, hasOne(c, want, strict))
	}
	return t
}

func hasOne(c command, want string, strict bool) truth {
	if slices.Contains(c.flags, want) || len(want) == 2 && strings.Contains(c.letters, want[1:]) {
		return yes
	}
	if strict {
		return no
	}
	t := no
	if c.open || len(want) == 2 && strings.Contains(c.letters, Unknown) {
		t = maybe
	}
	for _, f := range c.flags {
		before, _, unknown := strings.Cut(f, Unknown)
		long := strings.HasPrefix(want, "--")
		switch {
		case long && !unknown && len(f) > 2 && strings.HasPrefix(want, f):
			return yes // programs take a long option shortened
		case unknown && len(want) > 2 && (strings.HasPrefix(want, before) || strings.HasPrefix(before, want)):
			t = maybe
		}
	}
	return t
}
