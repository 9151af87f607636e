package tool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxFull is the most bytes of an output that Show keeps in full; above it the middle is omitted.
const MaxFull = 10 << 20

// defaultOutput is the limit of an output, in bytes, where Env has none.
const defaultOutput = 16 << 10

// Show makes a result of a text, which is made Visible: all of it where it is at most Env.MaxOutput bytes long, else
// its beginning and end with a note between, and the text in Full.
func Show(env Env, text string) Result {
	text = Visible(text)
	limit := env.MaxOutput
	if limit <= 0 {
		limit = defaultOutput
	}
	if len(text) <= limit {
		return Result{Output: text}
	}
	full := text
	if len(full) > MaxFull {
		full = cut(full, MaxFull, "\n... %d bytes omitted here: the output exceeds the limit of what is stored ...\n")
	}
	return Result{Full: []byte(full),
		Output: cut(text, limit, "\n... truncated: %d bytes omitted here, the full output is stored ...\n")}
}

// cut keeps two thirds of a limit from the beginning and one third from the end.
func cut(s string, limit int, note string) string {
	head, tail := s[:2*limit/3], s[len(s)-limit/3:]
	return strings.ToValidUTF8(head, "") + fmt.Sprintf(note, len(s)-len(head)-len(tail)) + strings.ToValidUTF8(tail, "")
}

// Visible makes a text valid UTF-8 and shows what a terminal or a reader would be deceived by: NUL, escapes and
// characters that change the direction of writing.
func Visible(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, deceptive) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if deceptive(r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func deceptive(r rune) bool {
	return r != '\n' && r != '\t' && r != '\r' && unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) ||
		r == '\u2028' || r == '\u2029'
}
