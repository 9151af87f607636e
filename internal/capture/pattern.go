package capture

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// IgnoreFile is the file of a workspace whose patterns exclude files from capture (ART-4), as a .gitignore does.
const IgnoreFile = ".harnessignore"

// Limits of patterns: a file of a stranger must not cost more than it is worth.
const (
	maxIgnore   = 64 << 10
	maxPatterns = 1000
	maxPattern  = 1024
)

// rule is one line of an ignore file.
type rule struct {
	glob    string
	keep    bool // begins with "!": takes back what an earlier line excludes
	folders bool // ends with "/": means folders alone
}

// ignore is the lines of an ignore file, the last one that matches counts.
type ignore []rule

// parseIgnore reads lines with the meaning that git gives them. A line that is no pattern excludes nothing.
func parseIgnore(text string) ignore {
	var rules ignore
	for line := range strings.Lines(text) {
		if len(rules) == maxPatterns {
			break
		}
		if r, ok := parseLine(strings.TrimRight(line, "\r\n")); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseLine(line string) (r rule, ok bool) {
	if len(line) > maxPattern || strings.HasPrefix(line, "#") {
		return r, false
	}
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if rest, not := strings.CutPrefix(line, "!"); not {
		line, r.keep = rest, true
	}
	if rest, folder := strings.CutSuffix(line, "/"); folder {
		line, r.folders = rest, true
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	if r.glob = literalBraces(line); !anchored {
		r.glob = "**/" + r.glob
	}
	return r, doublestar.ValidatePattern(r.glob)
}

// literalBraces takes the meaning from braces, which git does not give them.
func literalBraces(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '\\':
			b.WriteByte(c)
			if i++; i < len(glob) {
				b.WriteByte(glob[i])
			}
		case '{', '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// excludes reports whether a file or folder is excluded by itself; what is inside an excluded folder is not asked for.
func (rules ignore) excludes(name string, folder bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		r := rules[i]
		if r.folders && !folder {
			continue
		}
		if doublestar.MatchUnvalidated(r.glob, name) {
			return !r.keep
		}
	}
	return false
}

// patterns are those of an agent's include or exclude list. One without a slash means files of that name anywhere, as
// "*.tmp" does.
type patterns []string

// CheckPattern says what is wrong with a pattern of such a list, or "".
func CheckPattern(glob string) string {
	switch {
	case glob == "" || len(glob) > maxPattern:
		return "a pattern of 1 to 1024 bytes"
	case strings.Contains(glob, "{") || !doublestar.ValidatePattern(glob):
		return "a pattern of paths such as **/*.md, without braces"
	}
	return ""
}

func newPatterns(globs []string) patterns {
	var p patterns
	for _, g := range globs {
		if CheckPattern(g) != "" || len(p) == maxPatterns {
			continue
		}
		if g = strings.TrimPrefix(g, "/"); !strings.Contains(g, "/") {
			g = "**/" + g
		}
		p = append(p, g)
	}
	return p
}

func (p patterns) match(name string) bool {
	for _, g := range p {
		if doublestar.MatchUnvalidated(g, name) {
			return true
		}
	}
	return false
}

// folder reports whether all that is in a folder matches: one of the patterns is "folder/**".
func (p patterns) folder(name string) bool {
	for _, g := range p {
		if all, ok := strings.CutSuffix(g, "/**"); ok && doublestar.MatchUnvalidated(all, name) {
			return true
		}
	}
	return false
}
