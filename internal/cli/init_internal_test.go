package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/scaffold"
)

func TestAskFor(t *testing.T) {
	t.Parallel()
	ok := func(s string) error { _, err := scaffold.Find(s); return err }
	for _, tc := range []struct{ name, typed, was, want, shown string }{
		{"an empty answer takes what is offered", "\n", "coding", "coding", "Template (one of four) [coding]: "},
		{"an answer is taken without the space around it", "  sre \n", "coding", "sre", ""},
		{"a wrong answer is asked again, with the nearest", "codign\ndata\n", "coding", "data", `did you mean "coding"?`},
		{"an answer that is needed is asked again", "\nsecurity\n", "", "security", "needs an answer"},
	} {
		t.Run("CLI-2 "+tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			in := strings.NewReader(tc.typed)
			a := &app{printer: printer{out: &out}, in: in, keys: &keyboard{in: in}}
			got := tc.was
			if err := a.askFor(t.Context(), "Template", "one of four", &got, ok); err != nil || got != tc.want {
				t.Errorf("%q, %v", got, err)
			}
			if !strings.Contains(out.String(), tc.shown) {
				t.Errorf("shown: %q", out.String())
			}
		})
	}
	t.Run("CLI-2 the end of the input and an interruption end the questions", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		a := &app{printer: printer{out: &out}, keys: &keyboard{in: strings.NewReader("")}}
		var got string
		if err := a.askFor(t.Context(), "Name", "", &got, nil); codeOf(err) != exitUsage {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("pressed"))
		b := &app{printer: printer{out: &out}, keys: &keyboard{come: make(chan []byte)}}
		b.keys.once.Do(func() {}) // nobody types
		if err := b.askFor(ctx, "Name", "", &got, nil); codeOf(err) != exitInterrupted {
			t.Errorf("%v", err)
		}
	})
}
