package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Span is a duration for people, in at most two units: "840 ms", "4.2 s", "3 min 20 s", "5 h 2 min", "4 days".
func Span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < 10*time.Second-50*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute-500*time.Millisecond:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Since is the Span from a time to now.
func Since(at, now time.Time) string { return Span(now.Sub(at)) }

func ms(n int64) string { return Span(time.Duration(n) * time.Millisecond) }

// Count is a number for people, with three digits: "980", "12.3k", "4.56M".
func Count(n int) string {
	f := float64(n)
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f < unit.size {
			continue
		}
		digits := 2 - len(fmt.Sprint(int(f/unit.size))) + 1
		return fmt.Sprintf("%.*f%s", max(0, digits), f/unit.size, unit.name)
	}
	return fmt.Sprint(n)
}

// Bytes is a size for people: "812 B", "4.0 KiB", "1.2 MiB".
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB"}
	for len(units) > 1 && f >= 1<<10 {
		f, units = f/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}

// Plural is "1 turn" or "3 turns".
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Clip puts a text on one line of at most n characters, the last of them an ellipsis where something was cut, and shows
// what a terminal would act on as a dot.
func Clip(s string, n int) string {
	var shown []rune
	gap := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			gap = len(shown) > 0
			continue
		}
		if gap {
			gap, shown = false, append(shown, ' ')
		}
		if shown = append(shown, Tame(r)); len(shown) > n {
			return strings.TrimRight(string(shown[:max(n-1, 0)]), " ") + "…"
		}
	}
	return string(shown)
}

// Tame returns a dot for a character that a terminal would act on.
func Tame(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError {
		return '·'
	}
	return r
}

// Whole is a text of several lines with what a terminal would act on made visible; nothing is left out.
func Whole(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return Tame(r)
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// telling are the arguments that say most about a call, the most telling first.
var telling = []string{"command", "pattern", "query", "path", "file", "url", "dir", "name", "branch", "message"}

// Input says in a few words what a call was given: its most telling argument, else all of them.
func Input(input json.RawMessage) string {
	var args map[string]any
	if err := json.Unmarshal(input, &args); err != nil || len(args) == 0 {
		return Clip(strings.Trim(string(input), "{}"), 300)
	}
	for _, key := range telling {
		text, ok := args[key].(string)
		if !ok || text == "" {
			continue
		}
		if strings.HasPrefix(text, "local://") { // the copy of a directory, whose name tells no one anything
			return ""
		}
		if in, ok := args["path"].(string); ok && key == "pattern" {
			text += " in " + in
		}
		if key == "message" {
			text, _, _ = strings.Cut(text, "\n")
		}
		return Clip(text, 300)
	}
	return Clip(string(input), 300)
}

// Gist says in a few words what an output is: its only line, or how many there are and, where last is asked for, the
// last that says something.
func Gist(output string, last bool) string {
	n, final := 0, ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		n++
		// A remark of the tool itself, such as [exit status 1], is not what the command said.
		if final == "" || !strings.HasPrefix(line, "[") || !strings.HasSuffix(line, "]") {
			final = line
		}
	}
	switch {
	case n == 0:
		return "no output"
	case n == 1:
		return Clip(final, 300)
	case !last:
		return Plural(n, "line")
	}
	return fmt.Sprintf("%d lines … %s", n, Clip(final, 300))
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + ": " + b
}
