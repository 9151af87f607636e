package guard

import (
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// fits reports whether one simple command meets all conditions of a match.
func fits(m events.Match, argv []string) bool {
	argv = plain(argv)
	flags, rest := split(argv)
	switch {
	case len(argv) == 0:
		return false
	case len(m.Argv) > 0 && !words(m.Argv, argv):
		return false
	case len(m.FlagsAny) > 0 && !slices.ContainsFunc(m.FlagsAny, func(f string) bool { return has(flags, f) }):
		return false
	case len(m.FlagsAll) > 0 && slices.ContainsFunc(m.FlagsAll, func(f string) bool { return !has(flags, f) }):
		return false
	case m.RefspecForce && !slices.ContainsFunc(rest, func(w string) bool { return len(w) > 1 && w[0] == '+' }):
		return false
	case m.Glob != "" && !glob(m.Glob, strings.Join(argv, " ")):
		return false
	}
	return true
}

// plain takes the path off the command's name and git's global options off its front, so that "/usr/bin/git -C x
// push" reads as "git push".
func plain(argv []string) []string {
	if len(argv) == 0 {
		return argv
	}
	out := append([]string{path.Base(argv[0])}, argv[1:]...)
	if out[0] != "git" {
		return out
	}
	i := 1
	for i < len(out) && strings.HasPrefix(out[i], "-") {
		switch out[i] {
		case "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env":
			i++
		}
		i++
	}
	if i >= len(out) {
		return out[:1]
	}
	return append(out[:1:1], out[i:]...)
}

// split tells flags from other words. Clustered short flags are taken apart, values after = are cut off.
func split(argv []string) (flags, rest []string) {
	for i, w := range argv {
		switch {
		case i == 0:
		case w == "--":
			return flags, append(rest, argv[i+1:]...)
		case strings.HasPrefix(w, "--") && len(w) > 2:
			name, _, _ := strings.Cut(w, "=")
			flags = append(flags, name)
		case strings.HasPrefix(w, "-") && len(w) > 1:
			flags = append(flags, w)
			for _, c := range w[1:] {
				flags = append(flags, "-"+string(c))
			}
		default:
			rest = append(rest, w)
		}
	}
	return flags, rest
}

// has reports whether one of the alternatives "-r|-R|--recursive" is present. A long option may be shortened, as the
// programs themselves allow; so "--forc" counts as "--force" but "--force-with-lease" does not.
func has(flags []string, alternatives string) bool {
	for _, want := range strings.Split(alternatives, "|") {
		for _, f := range flags {
			if f == want || strings.HasPrefix(want, "--") && len(f) > 4 && strings.HasPrefix(want, f) {
				return true
			}
		}
	}
	return false
}

// words matches a pattern of words against a command: a word may be a glob, "**" stands for any number of words.
func words(pattern, argv []string) bool {
	if len(pattern) == 0 {
		return len(argv) == 0
	}
	if pattern[0] == "**" {
		for i := range len(argv) + 1 {
			if words(pattern[1:], argv[i:]) {
				return true
			}
		}
		return false
	}
	if len(argv) == 0 {
		return false
	}
	return glob(pattern[0], argv[0]) && words(pattern[1:], argv[1:])
}

// glob is path.Match in which * also matches slashes. A pattern that can not be read matches: closed by default.
func glob(pattern, s string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00"))
	return ok || err != nil
}
