package loop

import (
	"strings"

	"github.com/inspan/inspan/internal/pattern"
)

// What changes from call to call without meaning anything: times, random ids, names of temporary files, counters.
const (
	times = `\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?|\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b|\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?\b`
	ids   = `\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b|\b0x[0-9a-fA-F]{4,}\b`
	temps = `\b(?:tmp|temp)[._-][A-Za-z0-9]{6,}|\btmp[a-z0-9_]{8}\b|/tmp/[A-Za-z._-]*\d{4,}[A-Za-z0-9._-]*`
	// random are ids without hyphens: in arguments alone, since in a result another digest is other content.
	random = `\b(?:[0-9a-fA-F]{16,}|[0-9A-HJKMNP-TV-Z]{26})\b`
	// spans are durations, in results.
	spans = `\b\d+\.\d+ ?(?:ns|µs|us|ms|s|sec|seconds)\b`
)

var (
	inArguments = pattern.New(times + "|" + ids + "|" + temps + "|" + random)
	inResults   = pattern.New(times + "|" + ids + "|" + temps + "|" + spans)
	labels      = pattern.New(`(?i)\b(attempt|try|retry|iteration|iter|round|counter|nonce|seq|check|poll|timestamp|ts|#)([^A-Za-z0-9]{0,4})\d+`)
	// numbers stand alone: one that is part of a word or a path, or is a text of its own, names a thing.
	numbers = pattern.New(`([ =:#(,\[])-?\d+(?:\.\d+)?\b`)
)

// maxCompared is how much of the beginning and of the end of a text is compared without what changes; what is between
// them is compared as it is.
const maxCompared = 4 << 10

func ends(text string, change func(string) string) string {
	if len(text) <= 2*maxCompared {
		return change(text)
	}
	n := len(text) - maxCompared
	return change(text[:maxCompared]) + text[maxCompared:n] + change(text[n:])
}

// steadyInput is an input without what changes. counters leaves out numbers that stand alone as well.
func steadyInput(input string, counters bool) string {
	return ends(input, func(s string) string {
		m := look(s)
		if m.arguments {
			s = inArguments.ReplaceAllString(s, "~")
		}
		if m.labels {
			s = labels.ReplaceAllString(s, "$1$2~")
		}
		if counters && m.numbers {
			s = numbers.ReplaceAllString(s, "$1~")
		}
		return s
	})
}

// steadyResult is a result without times, random ids and durations. Other numbers stay: they may be progress.
func steadyResult(result string) string {
	return ends(strings.TrimSpace(result), func(s string) string {
		if !look(s).results {
			return s
		}
		return inResults.ReplaceAllString(s, "~")
	})
}

// maxApart bounds how much the lengths of two inputs may differ that are the same but for what changes.
const maxApart = 64

// near is a quick look: inputs may only be the same without what changes where what is between their common beginning
// and end has a digit or a name of a temporary file in both.
func near(a, b string) bool {
	if d := len(a) - len(b); d > maxApart || d < -maxApart {
		return false
	}
	from := 0
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	x, y := len(a), len(b)
	for x > from && y > from && a[x-1] == b[y-1] {
		x, y = x-1, y-1
	}
	return changes(a[from:x], a[:from]) && changes(b[from:y], b[:from])
}

func changes(part, before string) bool {
	return strings.ContainsAny(part, "0123456789") || strings.Contains(before, "tmp") || strings.Contains(before,
		"temp") ||
		part == "" && before != "" && before[len(before)-1] >= '0' && before[len(before)-1] <= '9'
}
