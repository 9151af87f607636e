// Package pattern holds regular expressions that are compiled when they are first used.
//
// Promises: a Pattern that is not used costs a program nothing at its start, which most programs of a large tree of
// packages never do. One that is used is compiled once. An expression that is wrong panics at its first use, so
// test/tidy compiles all that stand in the code.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression. Its methods are those of regexp.Regexp; it is safe for concurrent use.
type Pattern struct{ compiled func() *regexp.Regexp }

// New is the pattern of an expression, in the syntax of package regexp.
func New(expression string) Pattern {
	return Pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// MatchString reports whether s contains a match.
func (p Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

// FindString is the first match in s; "" is no match or an empty one.
func (p Pattern) FindString(s string) string { return p.compiled().FindString(s) }

// FindStringIndex is where the first match in s begins and ends; nil is no match.
func (p Pattern) FindStringIndex(s string) []int { return p.compiled().FindStringIndex(s) }

// FindStringSubmatch is the first match in s and its groups; nil is no match.
func (p Pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

// FindStringSubmatchIndex is regexp.Regexp.FindStringSubmatchIndex.
func (p Pattern) FindStringSubmatchIndex(s string) []int {
	return p.compiled().FindStringSubmatchIndex(s)
}

// FindSubmatch is FindStringSubmatch for bytes.
func (p Pattern) FindSubmatch(b []byte) [][]byte { return p.compiled().FindSubmatch(b) }

// FindAllStringSubmatch is the first n matches in s, all for n < 0, each with its groups.
func (p Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.compiled().FindAllStringSubmatch(s, n)
}

// FindAllString is the first n matches in s, all for n < 0.
func (p Pattern) FindAllString(s string, n int) []string { return p.compiled().FindAllString(s, n) }

// ReplaceAllString is s with its matches replaced, where $1 in by is the first group.
func (p Pattern) ReplaceAllString(s, by string) string { return p.compiled().ReplaceAllString(s, by) }

// ReplaceAllStringFunc is s with each match replaced by what by makes of it.
func (p Pattern) ReplaceAllStringFunc(s string, by func(string) string) string {
	return p.compiled().ReplaceAllStringFunc(s, by)
}
