// Package didyoumean finds the known word that a mistyped one was meant to be.
//
// Promises: equal inputs give equal answers; nothing is suggested that is not plausible; the work is bounded by
// MaxWord for any input.
package didyoumean

import (
	"fmt"
	"strings"
)

// MaxWord is the longest word, in bytes, that is compared; a longer one is near to nothing.
const MaxWord = 64

// Word returns the element of known that is nearest to got, or "" where none is near enough to be meant. Capitals
// do not count and "-" is "_". The distance is the number of insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment); at most one for each three bytes of the longer word, and at least one, is
// near. Among equals the first of known wins.
func Word(got string, known []string) string {
	best, least := "", MaxWord+1
	a := fold(got)
	if len(a) == 0 || len(a) > MaxWord {
		return ""
	}
	for _, k := range known {
		b := fold(k)
		if len(b) == 0 || len(b) > MaxWord {
			continue
		}
		near := max(len(a), len(b)) / 3
		if d := distance(a, b); d <= max(near, 1) && d < least && d < max(len(a), len(b)) {
			best, least = k, d
		}
	}
	return best
}

// Hint asks whether the nearest known word was meant; it is otherwise where none is near.
func Hint(got string, known []string, otherwise string) string {
	if near := Word(got, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return otherwise
}

func fold(s string) string {
	if len(s) > MaxWord {
		return s
	}
	return strings.ReplaceAll(strings.ToLower(s), "-", "_")
}

// distance is the optimal string alignment distance of two short words, in bytes.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
