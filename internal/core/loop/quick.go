package loop

import (
	"slices"
	"strings"
)

// matches says which of the expressions can match a text. It errs only in that one may be tried that does not match.
type matches struct{ arguments, results, labels, numbers bool }

// The shortest of what has no digit: random ids and those with hyphens.
const (
	shortestRandom = 16
	shortestHyphen = 36
)

// labelWords are those of the expression labels.
var labelWords = []string{"attempt", "try", "retry", "iteration", "iter", "round", "counter", "nonce", "seq", "check",
	"poll", "timestamp", "ts"}

// look reads a text once. Most texts have nothing that an expression matches, and the expressions are slow.
func look(s string) matches {
	m := matches{}
	digits, joined := 0, 0      // how many digits, and digits and letters, stand right before
	digit, mark := false, false // mark is what times and ids are joined by
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			if digits == 0 {
				m.numbers = m.numbers || counted(s[:i])
				m.labels = m.labels || labelled(s[:i])
			}
			digits, joined, digit = digits+1, joined+1, true
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			digits, joined = 0, joined+1
		default:
			m.labels = m.labels || c >= 0x80 // letters beyond ASCII that fold to those of a label
			mark = mark || joined > 0 && (c == '-' || c == ':')
			digits, joined = 0, 0
		}
		m.arguments = m.arguments || joined >= shortestRandom || digits >= 10
	}
	m.labels = m.labels && digit
	tmp := strings.Contains(s, "tmp") || strings.Contains(s, "temp")
	m.results = tmp || digit || mark && len(s) >= shortestHyphen
	m.arguments = m.arguments || tmp || digit && mark || mark && len(s) >= shortestHyphen || strings.Contains(s, "0x")
	return m
}

// counted reports whether a number behind a text may stand alone.
func counted(before string) bool {
	before = strings.TrimSuffix(before, "-")
	return before != "" && strings.IndexByte(" =:#(,[", before[len(before)-1]) >= 0
}

// labelled reports whether a number behind a text may have a label.
func labelled(before string) bool {
	for gap := 0; ; gap++ {
		word := len(before)
		for word > 0 && (before[word-1]|0x20 >= 'a' && before[word-1]|0x20 <= 'z') {
			word--
		}
		if word < len(before) {
			return slices.Contains(labelWords, strings.ToLower(before[word:]))
		}
		switch {
		case before == "":
			return false
		case before[len(before)-1] == '#':
			return true
		case gap == 4 || before[len(before)-1] >= '0' && before[len(before)-1] <= '9':
			return false
		}
		before = before[:len(before)-1]
	}
}
