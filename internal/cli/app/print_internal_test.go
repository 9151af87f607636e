package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/pkg/client"
)

func TestPaint(t *testing.T) {
	t.Parallel()
	t.Run("ECO-10 colour is only for terminals", func(t *testing.T) {
		t.Parallel()
		a := &Printer{Out: &bytes.Buffer{}, Err: io.Discard}
		if a.Paint() {
			t.Error("a buffer is painted")
		}
		if got := terminal.Paint(false).Bold("x"); got != "x" {
			t.Errorf("unpainted %q", got)
		}
		if got := terminal.Paint(true).Red("x"); got != "\x1b[31mx\x1b[0m" {
			t.Errorf("painted %q", got)
		}
		if got := terminal.Paint(true).Red(""); got != "" {
			t.Errorf("painted nothing: %q", got)
		}
	})
	t.Run("CLI-7 an error knows its exit code through wrapping", func(t *testing.T) {
		t.Parallel()
		for want, err := range map[int]error{ExitFailed: errors.New("x"), ExitPaused: fmt.Errorf("y: %w", Exit(ExitPaused, nil)),
			ExitRefused: fmt.Errorf("z: %w", &client.RefusedError{Code: "c"}), ExitUnknown: fmt.Errorf("w: %w", client.ErrNotFound)} {
			if got := Code(err); got != want {
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
		o := &Printer{Out: &out, Term: terminal.ScreenOf(&out)}
		o.Table([]string{"NAME", ">N", "WHAT"}, [][]string{{"世界", "1", "x"}, {"abcdef", "23", ""}})
		if got, want := out.String(), "NAME     N  WHAT\n世界     1  x\nabcdef  23\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
