package secret_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/secret"
)

func TestStream(t *testing.T) {
	t.Parallel()
	t.Run("OBS-12 SAFE-15 a secret is found wherever a text is cut, as in the whole of it", rapid.MakeCheck(func(r *rapid.T) {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 5, -1)
		texts := rapid.SliceOfN(word, 0, 4).Draw(r, "secrets")
		var values []secret.Value
		longest := 0
		for _, text := range texts {
			values, longest = append(values, secret.New(text)), max(longest, len(text))
		}
		s := secret.NewStream(values...)
		var whole, got strings.Builder
		for _, piece := range rapid.SliceOf(rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)).Draw(r, "pieces") {
			whole.WriteString(piece)
			got.Write(s.Next([]byte(piece)))
		}
		got.Write(s.Rest())
		if want := secret.Mask(values...)(whole.String()); got.String() != want {
			r.Errorf("%q with %q: got %q, want %q", whole.String(), texts, got.String(), want)
		}
	}))
	t.Run("what can be no secret is not held back", func(t *testing.T) {
		t.Parallel()
		s := secret.NewStream(secret.New("hunter2"))
		for _, c := range [][2]string{{"plain ", "plain "}, {"hunt", ""}, {"ing ", "hunting "}, {"hunter", ""}, {"2!", "***!"}} {
			if got := string(s.Next([]byte(c[0]))); got != c[1] {
				t.Errorf("after %q: %q, want %q", c[0], got, c[1])
			}
		}
	})
}
