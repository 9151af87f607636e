package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/inspan/inspan/pkg/client"
)

func TestPaint(t *testing.T) {
	t.Parallel()
	t.Run("ECO-10 colour is only for terminals", func(t *testing.T) {
		t.Parallel()
		a := &printer{out: &bytes.Buffer{}, err: io.Discard}
		if a.paint() {
			t.Error("a buffer is painted")
		}
		if got := paint(false).bold("x"); got != "x" {
			t.Errorf("unpainted %q", got)
		}
		if got := paint(true).red("x"); got != "\x1b[31mx\x1b[0m" {
			t.Errorf("painted %q", got)
		}
		if got := paint(true).red(""); got != "" {
			t.Errorf("painted nothing: %q", got)
		}
	})
	t.Run("CLI-7 an error knows its exit code through wrapping", func(t *testing.T) {
		t.Parallel()
		for want, err := range map[int]error{exitFailed: errors.New("x"), exitPaused: fmt.Errorf("y: %w", exitWith(exitPaused, nil)),
			exitRefused: fmt.Errorf("z: %w", &client.RefusedError{Code: "c"}), exitUnknown: fmt.Errorf("w: %w", client.ErrNotFound)} {
			if got := codeOf(err); got != want {
				t.Errorf("codeOf(%v) = %d, want %d", err, got, want)
			}
		}
	})
}

func TestTable(t *testing.T) {
	t.Parallel()
	t.Run("CLI-7 tables are aligned in cells, not bytes", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		o := &printer{out: &out, term: screenOf(&out)}
		o.table([]string{"NAME", ">N", "WHAT"}, [][]string{{"世界", "1", "x"}, {"abcdef", "23", ""}})
		if got, want := out.String(), "NAME     N  WHAT\n世界     1  x\nabcdef  23\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
