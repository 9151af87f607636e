package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// marked is Markdown as it is shown, with the colours by names.
func marked(width int, paint Paint, pieces ...string) string {
	var b strings.Builder
	m := Markdown{Paint: paint, Flow: Wrapper{Indent: "  ", Width: width, Write: func(s string) { b.WriteString(s) }}}
	for _, p := range pieces {
		m.Add(p)
	}
	m.End()
	return b.String()
}

var named = strings.NewReplacer("\x1b[1m", "<b>", "\x1b[3m", "<i>", "\x1b[1;3m", "<bi>", "\x1b[36m", "<c>", "\x1b[1;36m", "<bc>", "\x1b[2m", "<d>", "\x1b[0m", "</>")

func TestMarkdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"SESS-16 a heading":                            {"# The *plan*\ntext\n", "  <b>The</> <bi>plan</>\n  text\n"},
		"SESS-16 a list, its lines hang":               {"- one two three four\n  - five\n1. six seven eight nine\n", "  • one two\n    three four\n    • five\n  1. six seven\n     eight\n     nine\n"},
		"SESS-16 inline code, bold and italic":         {"a `b*c*`, **d `e`** *f*\n", "  a <c>b*c*</>, <b>d</> <bc>e</>\n  <i>f</>\n"},
		"SESS-16 a link, an image":                     {"[docs](https://x.y) ![](z)\n", "  docs\n  <d>(https://x.y)</>\n  z\n"},
		"SESS-16 a code block stays as it is":          {"x:\n```go\nif a < b && *c* {\n\n\treturn `d`\n}\n```\ny", "  x:\n  <c>  if a < b && *c* {</>\n\n  <c>  \treturn `d`</>\n  <c>  }</>\n  y\n"},
		"SESS-16 a code block without its end":         {"```\na", "  <c>  a</>\n"},
		"SESS-16 indented code":                        {"a:\n\n    b *c*\n", "  a:\n\n  <c>  b *c*</>\n"},
		"SESS-16 a table stays as it is":               {"| a | **b** |\n|---|---|\n", "  | a | **b** |\n  |---|---|\n"},
		"SESS-16 a rule and a quote":                   {"---\n> one two three four\n", "  <d>────────</>\n  <d>│ </>one two\n  <d>│ </>three four\n"},
		"what is no span stays":                        {"2 * 3 ** 4, snake_case_x [x] a\\*b c! `d\n", "  2 * 3 ** 4,\n  snake_case_x\n  [x] a*b c!\n  `d\n"},
		"a span longer than that is shown as it is":    {"**" + strings.Repeat("a ", 300) + "**", "**"},
		"SESS-16 a table that a tab stands before":     {"a\n \t|b c d e f g h i j k\n", "  a\n   \t|b c d e f g h i j k\n"},
		"a number alone":                               {"42", "  42\n"},
		"a paragraph of a list item":                   {"- a\n\n  b\n", "  • a\n\n    b\n"},
		"a mark in a word is none, bold in one is one": {"a_b_c x**y**z", "  a_b_c x<b>y</>z\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := named.Replace(marked(14, true, c.text))
			if got != c.want && !(c.want == "**" && strings.Count(got, "**") == 2) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if pieces := ansi.Strip(marked(14, true, strings.Split(c.text, "")...)); pieces != ansi.Strip(marked(14, true, c.text)) {
				t.Errorf("letter by letter it is\n%s", pieces)
			}
		})
	}
	t.Run("SESS-16 without colour the text is as it is", func(t *testing.T) {
		t.Parallel()
		const text = "# a **b**\n```\nc\n```\n- [d](e)\n"
		if got, want := marked(0, false, text), "  # a **b**\n  ```\n  c\n  ```\n  - [d](e)\n"; got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	piece := rapid.StringOfN(rapid.SampledFrom([]rune("ab_ *`~#-+[]()!\\\n|>1.é一\t\u00a0\r")), 0, 12, -1)
	t.Run("SESS-16 how the text is cut into pieces makes no difference", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			pieces := rapid.SliceOf(piece).Draw(t, "pieces")
			width := rapid.IntRange(0, 30).Draw(t, "width")
			got, want := ansi.Strip(marked(width, true, pieces...)), ansi.Strip(marked(width, true, strings.Join(pieces, "")))
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		})
	})
	t.Run("SESS-16 no letter is lost", func(t *testing.T) {
		t.Parallel()
		letters := func(s string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune("abé一", r) {
					return r
				}
				return -1
			}, s)
		}
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
			if strings.Contains(text, "](") || strings.Contains(text, "``") || strings.Contains(text, "~~~") { // a title of a link and the name of a language are left out
				return
			}
			if got := ansi.Strip(marked(20, true, text)); letters(got) != letters(text) {
				t.Fatalf("%q is shown as %q", text, got)
			}
		})
	})
}

func FuzzMarkdown(f *testing.F) {
	f.Add("# a\n**b** `c` [d](e)\n", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		text = Sanitize(text)
		at = min(max(at, 0), len(text))
		if got := ansi.Strip(marked(20, true, text[:at], text[at:])); strings.ContainsRune(got, '\x1b') {
			t.Errorf("%q is shown as %q", text, got)
		}
	})
}
