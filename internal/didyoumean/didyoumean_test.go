package didyoumean_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/didyoumean"
)

func TestWord(t *testing.T) {
	t.Parallel()
	known := []string{"max_steps", "timeout", "tools", "model", "name", "on", "id"}
	for _, c := range []struct{ name, got, want string }{
		{"a missing letter", "max_stps", "max_steps"},
		{"swapped neighbours", "tmieout", "timeout"},
		{"a wrong letter", "toolz", "tools"},
		{"a letter too many", "modell", "model"},
		{"another separator", "max-steps", "max_steps"},
		{"capitals", "MAX_STEPS", "max_steps"},
		{"the word itself", "name", "name"},
		{"short words need one change", "if", "id"},
		{"nothing shared", "xx", ""},
		{"too far", "frobnicate", ""},
		{"empty", "", ""},
		{"longer than the limit", strings.Repeat("a", didyoumean.MaxWord+1), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := didyoumean.Word(c.got, known); got != c.want {
				t.Fatalf("Word(%q) = %q, want %q", c.got, got, c.want)
			}
		})
	}
	if got := didyoumean.Word("model", nil); got != "" {
		t.Fatalf("nothing known: %q", got)
	}
	if got := didyoumean.Word("aab", []string{"aac", "aad"}); got != "aac" {
		t.Fatalf("of equals the first wins: %q", got)
	}
	long := strings.Repeat("a", didyoumean.MaxWord)
	if got := didyoumean.Word(long, []string{long[1:]}); got == "" {
		t.Fatal("a word at the limit is compared")
	}
}

func TestWordProperties(t *testing.T) {
	t.Parallel()
	words := rapid.SliceOfN(rapid.StringMatching(`[a-z_]{2,12}`), 1, 8)
	rapid.Check(t, func(t *rapid.T) {
		known := words.Draw(t, "known")
		got := rapid.String().Draw(t, "got")
		w := didyoumean.Word(got, known)
		if w != "" && !slices.Contains(known, w) {
			t.Fatalf("%q is not known", w)
		}
		k := rapid.SampledFrom(known).Draw(t, "k")
		if w := didyoumean.Word(k, known); !strings.EqualFold(w, k) {
			t.Fatalf("Word(%q) = %q: a known word is nearest to itself", k, w)
		}
		at := rapid.IntRange(0, len(k)-1).Draw(t, "at")
		if len(k) > 3 && didyoumean.Word(k[:at]+k[at+1:], known) == "" {
			t.Fatalf("%q without byte %d is near to nothing", k, at)
		}
	})
}
