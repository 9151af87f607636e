package loop

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// parts are what the expressions look for, and what nearly is it.
var parts = []string{"a", "f", "T", "Z", "z", "0", "1", "15", "7", "2026", "-", ":", ".", ",", " ", "_", "#", "(", "[", "=", "0x", "beef", "tmp", "temp", "/tmp/",
	"try", "Retry", "ts", "tS", "\u017f", "\u212a", "seq", "chec", "k", "2026-11-22", "T10:11:12", "10:11:12.5", "1700000000", "deadbeef", "abcdefab-", "abcd-",
	"abcdefabcdef", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "é", "1.5 ms", "12.25s", `{"n":"`, `"}`, "\xff"}

func TestLookProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 24).Draw(t, "parts"), "")
		m := look(s)
		for _, e := range []struct {
			name    string
			tried   bool
			matches bool
		}{
			{"arguments", m.arguments, inArguments.MatchString(s)},
			{"results", m.results, inResults.MatchString(s)},
			{"labels", m.labels, labels.MatchString(s)},
			{"numbers", m.numbers, numbers.MatchString(s)},
		} {
			if e.matches && !e.tried {
				t.Errorf("got %q passed over for %s, want it tried", s, e.name)
			}
		}
	})
}

func BenchmarkSteadyInput(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if steadyInput(`{"path":"internal/core/loop/volatile.go","n":"12"}`, true) == "" {
			b.Fatal("got nothing")
		}
	}
}
