package terminals

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPicture(t *testing.T) {
	frames := []Frame{{Caption: "a <b>", Screen: "\x1b[1m\x1b[31mred & bold\x1b[0m plain\n\n  \x1b[2mfaint\x1b[22m end\n"}}
	t.Run("a screen becomes text at its columns in its colours, and nothing of it is markup", func(t *testing.T) {
		got := Picture("t", frames, 40)
		for _, want := range []string{`fill="#ff7b72" font-weight="bold">red` + "\u00a0&amp;\u00a0bold", `x="92.0">` + "\u00a0plain", `opacity="0.65">faint`, "a\u00a0&lt;b&gt;"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
		for d := xml.NewDecoder(strings.NewReader(got)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("it is no XML: %v", err)
			}
		}
	})
	t.Run("the text has no colours", func(t *testing.T) {
		if got := Text(frames); got != "== a <b>\nred & bold plain\n\n  faint end\n" {
			t.Errorf("got %q", got)
		}
	})
}
