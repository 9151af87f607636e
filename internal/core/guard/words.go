package guard

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// command is a simple command as rules compare it.
type command struct {
	// argv is its words, the name without its folder and git without its global options.
	argv []string
	// flags are the words with a dash in front, without values.
	flags []string
	// letters are those of all words with a single dash.
	letters string
	// open is set where a word that is only known when it runs could be a flag.
	open bool
}

// read takes the words of a command apart; argv is not empty.
func read(argv []string) command {
	c := command{argv: plain(argv)}
	var letters strings.Builder
	for i := 1; i < len(c.argv); i++ {
		w := c.argv[i]
		switch {
		case w == "--" && !strings.HasPrefix(c.argv[i-1], "-"):
			// The words behind are no flags. After a word with a dash it may be that one's value: "-o -- --force".
			c.letters = letters.String()
			return c
		case strings.HasPrefix(w, Unknown):
			c.open = true
		case strings.HasPrefix(w, "-") && len(w) > 1:
			name, _, _ := strings.Cut(w, "=")
			c.open = c.open || many(w)
			c.flags = append(c.flags, name)
			if w[1] != '-' {
				letters.WriteString(w[1:])
			}
		default:
			c.open = c.open || many(w)
		}
	}
	c.letters = letters.String()
	return c
}

func many(w string) bool { return strings.Contains(w, Many) }

// plain takes the folder off the command's name and git's global options off its front, so that "/usr/bin/git -C x
// push" and "/usr/lib/git-core/git-push" both read as "git push".
func plain(argv []string) []string {
	out := slices.Clone(argv)
	if out[0] != "" {
		out[0] = path.Base(out[0])
	}
	if sub, ok := strings.CutPrefix(out[0], "git-"); ok && sub != "" {
		return append([]string{"git", sub}, out[1:]...)
	}
	if out[0] != "git" {
		return out
	}
	i := 1
	for i < len(out) && strings.HasPrefix(out[i], "-") {
		if valued(out[i]) && i+1 < len(out) {
			i++
		}
		if many(out[i]) {
			break // it may bring the subcommand with it
		}
		i++
	}
	return append(out[:1:1], out[min(i, len(out)):]...)
}

// valued reports whether a global option of git has its value in the next word.
func valued(w string) bool {
	return slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--attr-source", "--config-env",
		"--shallow-file", "--super-prefix"}, w)
}

// words matches a pattern of words against a command: a word may be a glob, "**" stands for any number of words. Time
// and memory are bounded by the product of the two lengths.
func words(pattern, argv []string, strict bool) truth {
	next, row := make([]truth, len(argv)+1), make([]truth, len(argv)+1)
	end := func(j int) truth { // what is left of the command when the pattern is at its end
		if j == len(argv) {
			return yes
		}
		return no
	}
	for j := len(argv); j >= 0; j-- {
		next[j] = end(j)
		if j < len(argv) && many(argv[j]) && !strict {
			next[j] = min(maybe, next[j+1])
		}
	}
	for i := len(pattern) - 1; i >= 0; i-- {
		for j := len(argv); j >= 0; j-- {
			row[j] = no
			switch {
			case pattern[i] == "**":
				row[j] = next[j]
				if j < len(argv) {
					row[j] = max(row[j], row[j+1])
				}
			case j == len(argv):
			case many(argv[j]) && !strict:
				row[j] = min(maybe, max(row[j+1], next[j]))
			default:
				row[j] = min(word(pattern[i], argv[j], strict), next[j+1])
			}
		}
		next, row = row, next
	}
	return next[0]
}

// word matches one word, as it is and in its shortest form as a path.
func word(pattern, w string, strict bool) truth {
	if pattern == "*" {
		return sure(!many(w))
	}
	raw, clean := glob(pattern, w), no
	if w != "" && (strings.Contains(w, "/") || strings.HasPrefix(w, ".")) {
		clean = glob(pattern, path.Clean(w))
	} else {
		clean = raw
	}
	switch {
	case strict && strings.Contains(w, Unknown):
		return no
	case strict:
		return min(raw, clean)
	case raw == yes || clean == yes:
		return yes
	}
	return max(raw, clean, couldBe(pattern, w))
}

// couldBe reports whether a word that is not fully known may become one that the pattern matches: the known
// beginnings of both must agree.
func couldBe(pattern, w string) truth {
	before, _, unknown := strings.Cut(w, Unknown)
	if !unknown {
		return no
	}
	all, _ := braces(pattern)
	return min(maybe, sure(slices.ContainsFunc(all, func(p string) bool {
		if i := strings.IndexAny(p, `*?[\`); i >= 0 {
			p = p[:i]
		}
		return strings.HasPrefix(p, before) || strings.HasPrefix(before, p)
	})))
}

// whole matches the joined words of a command.
func whole(pattern string, c command, strict bool) truth {
	text := strings.Join(c.argv, " ")
	raw := glob(pattern, text)
	if strict {
		short := make([]string, len(c.argv))
		for i, w := range c.argv {
			short[i] = w
			if slices.Contains(strings.Split(w, "/"), "..") { // not the "./..." of go
				short[i] = path.Clean(w)
			}
		}
		return min(sure(!strings.Contains(text, Unknown)), raw, glob(pattern, strings.Join(short, " ")))
	}
	return max(raw, couldBe(pattern, text))
}

// glob is path.Match in which * also matches slashes and {a,b} are alternatives. A pattern that cannot be read
// matches: Build lets none through, and if one came all the same the rule must not fall silent.
func glob(pattern, s string) truth {
	all, err := braces(pattern)
	if err != nil {
		return yes
	}
	s = strings.ReplaceAll(s, "/", "\x01")
	for _, p := range all {
		if ok, err := path.Match(strings.ReplaceAll(p, "/", "\x01"), s); ok || err != nil {
			return yes
		}
	}
	return no
}

func checkPattern(p string) error {
	if len(p) > MaxPattern {
		return fmt.Errorf("a pattern has %d bytes, at most %d; split it", len(p), MaxPattern)
	}
	all, err := braces(p)
	if err != nil {
		return fmt.Errorf("pattern %q: %w", short(p), err)
	}
	for _, one := range all {
		if _, err := path.Match(one, ""); err != nil {
			return fmt.Errorf(`pattern %q is not a glob; close every [ and write \[ for the sign itself`, short(p))
		}
	}
	return nil
}

var errBraces = errors.New(`braces are not closed or stand for too much; write {a,b}, and \{ for the sign itself`)

// braces writes out the alternatives of a pattern; one without braces is its own.
func braces(p string) ([]string, error) {
	open := plainIndex(p, '{')
	if open < 0 {
		return []string{p}, nil
	}
	parts, tail, ok := alternatives(p[open+1:])
	if !ok {
		return nil, errBraces
	}
	ends, err := braces(tail)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, part := range parts {
		inner, err := braces(part)
		if err != nil {
			return nil, err
		}
		for _, in := range inner {
			for _, end := range ends {
				all = append(all, p[:open]+in+end)
			}
		}
		if len(all) > MaxAlternatives {
			return nil, errBraces
		}
	}
	return all, nil
}

// plainIndex is the place of a sign that no backslash stands before; -1 where there is none.
func plainIndex(p string, sign byte) int {
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case sign:
			return i
		}
	}
	return -1
}

// alternatives splits what follows an opening brace at the commas of its own level, up to the brace that closes it.
func alternatives(s string) (parts []string, tail string, ok bool) {
	depth, from := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			if depth == 0 {
				parts, from = append(parts, s[from:i]), i+1
			}
		case '}':
			if depth == 0 {
				return append(parts, s[from:i]), s[i+1:], true
			}
			depth--
		}
	}
	return nil, "", false
}

// Covers reports whether a glob such as "{read,write}" or "git_*" covers a tool: its name, or that of one whose work it
// does.
func Covers(pattern, tool string) bool {
	if glob(pattern, tool) == yes {
		return true
	}
	return slices.ContainsFunc(worksAs(tool), func(name string) bool { return glob(pattern, name) == yes })
}

// worksAs are the tools whose work another one does too: what keeps an agent from editing or writing a file keeps it
// from doing that with a patch.
func worksAs(tool string) []string {
	if tool == "apply_patch" {
		return []string{"edit", "write"}
	}
	return nil
}

// CheckGlob says what is wrong with a glob.
func CheckGlob(pattern string) error { return checkPattern(pattern) }
