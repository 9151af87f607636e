package terminal

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func flowed(width int, pieces ...string) string {
	var b strings.Builder
	f := Wrapper{Indent: "  ", Width: width, Write: func(s string) { b.WriteString(s) }}
	for _, p := range pieces {
		f.Add(p)
	}
	f.End()
	return b.String()
}

func TestFlow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"SESS-16 words are broken at the width": {[]string{"one two three four"}, "  one two\n  three four\n"},
		"SESS-16 a word may come in pieces":     {[]string{"one t", "wo th", "ree", " four"}, "  one two\n  three four\n"},
		"a long word stands alone":              {[]string{"a incomprehensible b"}, "  a\n  incomprehensible\n  b\n"},
		"writing without spaces is broken too":  {[]string{"一二三四五六七八九"}, "  一二三四五六\n  七八九\n"},
		"its own lines stay":                    {[]string{"a\n\n  b"}, "  a\n\n    b\n"},
		"nothing is nothing":                    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := flowed(14, c.pieces...); got != c.want {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
		})
	}
	t.Run("SESS-16 no word is lost, however it is cut", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			pieces := rapid.SliceOf(rapid.StringMatching(`[a-z \n]{0,9}`)).Draw(t, "pieces")
			width := rapid.IntRange(0, 30).Draw(t, "width")
			got := strings.Fields(flowed(width, pieces...))
			if want := strings.Fields(strings.Join(pieces, "")); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Fatalf("got %q, want %q", got, want)
			}
		})
	})
}
