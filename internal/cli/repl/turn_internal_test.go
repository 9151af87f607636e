package repl

import (
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/cli/follow"
)

func TestReplLeaves(t *testing.T) {
	t.Parallel()
	t.Run("SESS-17 a watch that ends before its run does leaves the program, and asks for no result", func(t *testing.T) {
		t.Parallel()
		items := make(chan follow.Arrival)
		close(items)
		if err := (&turnRun{r: &repl{}}).loop(t.Context(), items, nil); !errors.Is(err, errLeave) {
			t.Errorf("got %v, want %v", err, errLeave)
		}
	})
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{"/his": "/history", "/l": "/load ", "/": "/", "/e": "/e", "/load x": "/load x", "his": "his"} {
		if got := complete(typed); got != want {
			t.Errorf("SESS-17 %q is completed to %q, want %q", typed, got, want)
		}
	}
}
