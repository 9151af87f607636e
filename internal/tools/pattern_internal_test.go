package tools

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 alternatives at the limit are taken, above it refused", func(t *testing.T) {
		t.Parallel()
		at := strings.Repeat("{a,b}", 7)
		if p, err := parsePattern(at); err != nil || len(p) != maxAlternatives {
			t.Errorf("got %d, %v, want %d", len(p), err, maxAlternatives)
		}
		if _, err := parsePattern(at + "{a,b}"); !errors.Is(err, errTooMany) {
			t.Errorf("got %v, want errTooMany", err)
		}
	})
	t.Run("braces in a class or behind a backslash are letters", func(t *testing.T) {
		t.Parallel()
		for glob, name := range map[string]string{"[{]a,b": "{a,b", `\{a,b`: "{a,b", "[{,}]x": ",x", `[\]{]x`: "{x"} {
			p, err := parsePattern(glob)
			if err != nil || len(p) != 1 || !p.match(name) {
				t.Errorf("%s: got %q, %v, want it to match %s", glob, p, err, name)
			}
		}
	})
}

// TestPatternProperty compares with the library's own reading of braces, on patterns small enough for it.
func TestPatternProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*?/{},[]^\-`)), 1, 14, -1).Draw(t, "glob")
		name := rapid.StringOfN(rapid.SampledFrom([]rune("ab/-")), 1, 8, -1).Draw(t, "name")
		p, err := parsePattern(glob)
		if err != nil {
			if !errors.Is(err, errTooMany) && doublestar.ValidatePattern(glob) {
				t.Fatalf("%q: got %v for a valid pattern", glob, err)
			}
			return
		}
		joined := strings.Contains(strings.Join(p, " "), "**") && !strings.Contains(glob, "**")
		if joined || emptyChoice.MatchString(glob) {
			return // at the edge of braces the library does not join stars, nor let one before nothing match nothing
		}
		if got, want := p.match(name), doublestar.MatchUnvalidated(glob, name); got != want {
			t.Fatalf("%q on %q: got %v, want %v; expanded %q", glob, name, got, want, p)
		}
	})
}

var emptyChoice = regexp.MustCompile(`[{,][,}]`)

func FuzzPattern(f *testing.F) {
	for _, s := range []string{"**/*.go", "{a,b}/{c,d}", "[a-z]{1,2}", `\{`, "{{{,},},}", "a{b[}]c}d", "***", "[^a]"} {
		f.Add(s, "a/b/c.go")
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 1024 || len(name) > 4096 {
			return
		}
		p, err := parsePattern(glob)
		if err == nil && len(p) > maxAlternatives {
			t.Fatalf("%q stands for %d patterns", glob, len(p))
		}
		p.match(name)
	})
}
