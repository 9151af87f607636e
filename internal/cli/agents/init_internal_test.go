package agents

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/lineedit"
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
			a := &app.App{Printer: app.Printer{Out: &out}, In: in, Keys: &lineedit.Keyboard{In: in}}
			got := tc.was
			if err := askFor(t.Context(), a, "Template", "one of four", &got, ok); err != nil || got != tc.want {
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
		a := &app.App{Printer: app.Printer{Out: &out}, Keys: &lineedit.Keyboard{In: strings.NewReader("")}}
		var got string
		if err := askFor(t.Context(), a, "Name", "", &got, nil); app.Code(err) != app.ExitUsage {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("pressed"))
		b := &app.App{Printer: app.Printer{Out: &out}, Keys: &lineedit.Keyboard{Pieces: make(chan []byte)}}
		b.Keys.Once.Do(func() {}) // no one types
		if err := askFor(ctx, b, "Name", "", &got, nil); app.Code(err) != app.ExitInterrupted {
			t.Errorf("%v", err)
		}
	})
}
