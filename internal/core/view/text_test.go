package view_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/view"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	t.Run("CLI-7 counts have three digits and sizes a unit", func(t *testing.T) {
		t.Parallel()
		for n, want := range map[int]string{0: "0", 999: "999", 1000: "1.00k", 12345: "12.3k", 999_400: "999k", 4_560_000: "4.56M", 2_000_000_000: "2.00G"} {
			if got := view.Count(n); got != want {
				t.Errorf("Count(%d) = %q, want %q", n, got, want)
			}
		}
		for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 30: "3.0 GiB", 5 << 40: "5120.0 GiB"} {
			if got := view.Bytes(n); got != want {
				t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
			}
		}
		if view.Plural(1, "turn") != "1 turn" || view.Plural(0, "turn") != "0 turns" {
			t.Error("plural")
		}
	})
	t.Run("EVT-12 an input is told by its most telling argument", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{`{"timeout_ms":5,"command":"go\ntest"}`: "go test", `{"pattern":"TODO","path":"src"}`: "TODO in src", `{"path":"a.go","old_string":"x"}`: "a.go",
			`{"n":3}`: `{"n":3}`, `{}`: "", ``: "", `{"command":"\u001b[2J"}`: "·[2J", `not json`: "not json"} {
			if got := view.Input([]byte(in)); got != want {
				t.Errorf("Input(%s) = %q, want %q", in, got, want)
			}
		}
	})
	t.Run("EVT-12 an output is told by its last words", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"": "no output", "\n \n": "no output", "ok\n": "ok", "a\nb\r\n\n": "2 lines … b", "FAIL x\n[exit status 1]": "2 lines … FAIL x", "[only]": "[only]"} {
			if got := view.Gist(in, true); got != want {
				t.Errorf("Gist(%q) = %q, want %q", in, got, want)
			}
		}
		if got := view.Gist("a\nb", false); got != "2 lines" {
			t.Errorf("got %q", got)
		}
	})
}

func TestClipProp(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 whatever is clipped is one line of at most n characters and changes no more", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("ab \n\t\x1b\u202eä\u4e16")), 0, 200, -1)).Draw(t, "text")
			n := rapid.IntRange(1, 80).Draw(t, "n")
			got := view.Clip(s, n)
			if utf8.RuneCountInString(got) > n || strings.ContainsFunc(got, acts) || !utf8.ValidString(got) {
				t.Fatalf("Clip(%q, %d) = %q", s, n, got)
			}
			if again := view.Clip(got, n); again != got {
				t.Fatalf("clipped again %q became %q", got, again)
			}
			// A text that fits is only made plain.
			if plain := view.Clip(s, 10_000); utf8.RuneCountInString(plain) <= n && len(s) < n && plain != got {
				t.Fatalf("Clip(%q, %d) = %q, want %q", s, n, got, plain)
			}
		})
	})
}
