package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

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

func TestForms(t *testing.T) {
	t.Parallel()
	v := map[string]any{"plain": "a\nb", "csi \u009b": "x\u009b2J", "list": []any{"\x1b[2J\r\n\a\x00\x7f", "\u202e turned", `back\slash "quoted"` + "\u202e"}, "n": 1.0}
	for _, form := range []string{FormJSON, FormYAML} {
		t.Run("CLI-7 "+form+" of hostile text is the same data and has nothing that a terminal acts on", func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			o := &Printer{Out: &out, Form: form}
			if err := o.PrintJSON(v); err != nil {
				t.Fatal(err)
			}
			if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && acted(r) }); i >= 0 {
				t.Errorf("%q at %d of %q", out.String()[i:i+1], i, out.String())
			}
			var back map[string]any
			read := json.Unmarshal
			if form == FormYAML {
				read = func(b []byte, v any) error { return yaml.Unmarshal(b, v) }
			}
			if err := read(out.Bytes(), &back); err != nil {
				t.Fatalf("%v in\n%s", err, out.String())
			}
			if form == FormYAML {
				back["n"] = v["n"] // a whole number there
				back["csi \u009b"] = back["csi ·"]
				delete(back, "csi ·")
			}
			if !reflect.DeepEqual(back, v) {
				t.Errorf("got %q\nwant %q\nfrom %s", back, v, out.String())
			}
		})
	}
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
