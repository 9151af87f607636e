package tools

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxAlternatives is the most patterns that the braces of one glob may stand for.
const maxAlternatives = 128

var (
	errNoPattern = errors.New("not a pattern")
	errTooMany   = fmt.Errorf("its braces expand to more than %d patterns", maxAlternatives)
)

// pattern is a glob without braces for each choice of its alternatives. Matching one is at most quadratic; matching
// braces directly would try all choices for each name, which can take exponential time and ignores the context.
type pattern []string

func parsePattern(glob string) (pattern, error) {
	if !doublestar.ValidatePattern(glob) {
		return nil, errNoPattern
	}
	return expand(nil, glob)
}

func (p pattern) match(name string) bool {
	for _, one := range p {
		if doublestar.MatchUnvalidated(one, name) {
			return true
		}
	}
	return false
}

// expand appends what the braces of a valid glob stand for, outermost first.
func expand(to pattern, glob string) (pattern, error) {
	open, choices, rest := braces(glob)
	if open < 0 {
		if len(to) == maxAlternatives {
			return nil, errTooMany
		}
		return append(to, glob), nil
	}
	for _, choice := range choices {
		var err error
		if to, err = expand(to, glob[:open]+choice+rest); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// braces finds the first group of alternatives, its choices and what follows it; open is -1 where there is none.
func braces(glob string) (open int, choices []string, rest string) {
	open = -1
	depth, from := 0, 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\':
			i++
		case c == '[':
			i = classEnd(glob, i)
		case c == '{':
			if depth++; depth == 1 {
				open, from = i, i+1
			}
		case c == ',' && depth == 1:
			choices, from = append(choices, glob[from:i]), i+1
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return open, append(choices, glob[from:i]), glob[i+1:]
			}
		}
	}
	return -1, nil, ""
}

// classEnd returns where a character class that opens at i closes: braces in it are letters.
func classEnd(glob string, i int) int {
	end := strings.IndexAny(glob[i+1:], `]\`)
	for at := i + 1; end >= 0; end = strings.IndexAny(glob[at:], `]\`) {
		at += end
		if glob[at] == ']' {
			return at
		}
		at += 2
		if at >= len(glob) {
			break
		}
	}
	return len(glob)
}
