package events_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"\u003ca\u003E \u0026 b"`: `"<a> & b"`,
		`"\\u003c"`:                `"\\u003c"`,
		`"\\\u003c"`:               `"\\<"`,
		`"\u00e9\u003"`:            `"\u00e9\u003"`,
		`"\`:                       `"\`,
		`\u003`:                    `\u003`,
	} {
		if got := string(events.Plain([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	t.Run("CLI-9 text is as it was written, and JSON means the same", rapid.MakeCheck(func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune(`<>&\"u03ce26 `))).Draw(t, "text")
		b, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		plain := events.Plain(b)
		var back map[string]string
		if err := json.Unmarshal(plain, &back); err != nil || back[text] != text {
			t.Errorf("%s became %s: %v", b, plain, err)
		}
		if strings.ContainsAny(text, "<>&") != bytes.ContainsAny(plain, "<>&") {
			t.Errorf("%s became %s", b, plain)
		}
	}))
}

func TestPreviewPlain(t *testing.T) {
	t.Parallel()
	t.Run("CLI-9 the preview of arguments shows their text as it is", func(t *testing.T) {
		input, err := json.Marshal(map[string]string{"command": "cat < a > b && c"})
		if err != nil {
			t.Fatal(err)
		}
		if got := events.Preview(input); got != `{"command":"cat < a > b && c"}` {
			t.Error(got)
		}
	})
}
