package lineedit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/cli/terminal"
)

func TestEditor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, typed, want string }{
		{"a line", "hello\r", "hello"},
		{"backspace takes a whole character", "a👩‍👩‍👧é\u0301\x7f\x7fb\r", "ab"},
		{"in the middle", "ac\x1b[Db\r", "abc"},
		{"beginning and end", "b\x01a\x05c\x1b[Hx\x1b[Fy\r", "xabcy"},
		{"words", "one two three\x1bb\x1b[1;5D\x17x\x1bd\r", "x three"},
		{"cut to the sides", "one\x1b[D\x1b[D\x0bxy\x1b[D\x15\r", "y"},
		{"delete and Ctrl+D go forward", "abc\x01\x1b[3~\x04\r", "c"},
		{"a line goes on", "one\\\rtwo\r", "one\ntwo"},
		{"Alt+Enter too", "one\x1b\rtwo\r", "one\ntwo"},
		{"Home stays on its line", "one\\\rtwo\x01x\r", "one\nxtwo"},
		{"Ctrl+C forgets what was typed", "never\x03ok\r", "ok"},
		{"keys that mean nothing", "a\x1b[99~\x1bOZ\x1b[?1;2c\x00\x1dz\r", "az"},
		{"a paste of several lines", "x\x1b[200~one\r\ntwo\rthree\n\x1b[201~y\r", "xone\ntwo\nthree\ny"},
		{"a paste with keys in it", "\x1b[200~a\x03\x04\x1b[Ab\tc\x7f\x1b[201~\r", "a[Ab\tc"},
		{"up and down, and what was being typed", "dra\x1b[A\x1b[A\x1b[A\x1b[B\x1b[B\x1b[Bft\r", "draft"},
		{"an earlier input of several lines", "\x1b[A\x1b[A!\r", "older\nlines!"},
		{"Tab", "/his\t\r", "/history"},
		{"Tab writes what all candidates begin with, and then goes through them", "/li\t\t\t\r\r", "/list-one"},
		{"Tab and back", "/h\t\t\x1b[Z\r\r", "/history"},
		{"Enter sends what stands there, unless a candidate is marked", "/h\r", "/h"},
		{"down goes into the menu, up out of it", "/h\x1b[B\x1b[A\r", "/h"},
		{"down and Enter take a candidate", "/h\x1b[B\x1b[B\r\r", "/help"},
		{"a candidate in the middle of a line", "/lo b\x1b[D\x1b[D\tx\r", "/load x b"},
		{"Ctrl+R finds an earlier input", "\x12new\r", "newer"},
		{"Ctrl+R goes on to older ones", "\x12e\x12\r", "older\nlines"},
		{"what Ctrl+R found can be edited", "\x12LD\x05!\r", "older!\nlines"},
		{"Ctrl+G ends a search as if there was none", "dra\x12new\x07ft\r", "draft"},
		{"a search that finds nothing keeps what it had", "\x12newx\x7f\x12\x05s\r", "newers"},
		{"up and down stay in an input of several lines", "日本\\\rbc\\\rd\x1b[Ax\x1b[Ay\x1b[Bz\r", "日y本\nbxcz\nd"},
		{"no UTF-8", "a\xff\xc3(\r", "a("},
	} {
		t.Run("SESS-16 "+tc.name, func(t *testing.T) {
			t.Parallel()
			e := &editor{multiline: true, history: &History{lines: []string{"older\nlines", "newer"}}, complete: words("/history", "/help", "/load ", "/list-all", "/list-one")}
			if o := e.take([]byte(tc.typed)); o != entered || e.text != tc.want {
				t.Errorf("%d %q, want %q", o, e.text, tc.want)
			}
		})
	}
	t.Run("SESS-17 Ctrl+C and Ctrl+D leave where nothing is typed, and Ctrl+C any question", func(t *testing.T) {
		t.Parallel()
		for _, tc := range []struct {
			typed string
			whole bool
			want  outcome
		}{
			{"\x03", true, broken}, {"\x04", true, broken}, {"a\x03\x03", true, broken}, {"a\x04", true, typing}, {"a\x03", true, typing}, {"a\x03", false, broken}, {"\x1b[A\\\r", false, entered},
		} {
			e := &editor{multiline: tc.whole}
			if got := e.take([]byte(tc.typed)); got != tc.want {
				t.Errorf("%q: %d, want %d", tc.typed, got, tc.want)
			}
		}
	})
	t.Run("SESS-16 what is typed behind an input waits for the next one", func(t *testing.T) {
		t.Parallel()
		e := &editor{}
		if o := e.take([]byte("one\rtwo\r")); o != entered || e.text != "one" || e.pending != "two\r" {
			t.Errorf("%d %q %q", o, e.text, e.pending)
		}
	})
	t.Run("SESS-16 the cursor stands where wide characters end", func(t *testing.T) {
		t.Parallel()
		for _, tc := range []struct {
			text     string
			at       int
			rows     []string
			row, col int
		}{
			{"日本", 6, []string{"> 日本"}, 0, 6},
			{"日本", 3, []string{"> 日本"}, 0, 4},
			{"日本語日本", 15, []string{"> 日本語", "日本"}, 1, 4},
			{"abcdefg", 7, []string{"> abcdefg"}, 0, 9},
			{"abcdefgh", 7, []string{"> abcdefg", "h"}, 1, 0},
			{"a\nb", 2, []string{"> a", "… b"}, 1, 2},
			{"a\tb", 3, []string{"> a    b"}, 0, 8},
			{"\u202ea\u009b", 0, []string{"> ·a·"}, 0, 2},
		} {
			e := &editor{prompt: "> ", text: tc.text, at: tc.at}
			if rows, row, col := e.layout(10); !slices.Equal(rows, tc.rows) || row != tc.row || col != tc.col {
				t.Errorf("%q: %q %d %d", tc.text, rows, row, col)
			}
		}
	})
	t.Run("SESS-16 of an input that is higher than the terminal the rows about the cursor are shown", func(t *testing.T) {
		t.Parallel()
		e := &editor{text: strings.Repeat("0123456789", 2000), at: 20_000}
		first := e.draw(80, 24, false)
		if n := len(e.shown); n != 23 || len(first) > 24*90 {
			t.Errorf("%d rows, %d bytes", n, len(first))
		}
		e.at = 0
		if e.draw(80, 24, false); e.row != 0 || e.col != 0 {
			t.Errorf("the cursor is at %d, %d", e.row, e.col)
		}
	})
	t.Run("SESS-16 a terminal that became narrower has broken the rows anew", func(t *testing.T) {
		t.Parallel()
		e := &editor{text: strings.Repeat("x", 70), at: 70}
		e.draw(80, 24, false)
		if got := e.rewind(20); got != "\x1b[3A\r"+terminal.ClearBelow {
			t.Errorf("%q", got)
		}
	})
}

// words completes the first word of a line.
func words(all ...string) Completer {
	return func(text string, at int) (int, []Candidate) {
		var out []Candidate
		for _, w := range all {
			if !strings.Contains(text[:at], " ") && strings.HasPrefix(text, "/") && strings.HasPrefix(w, text[:at]) {
				out = append(out, Candidate{w, "what it does"})
			}
		}
		return 0, out
	}
}

func TestMenu(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 30 {
		many = append(many, "/日本"+strings.Repeat("x", i))
	}
	many = append(many, "/\x1b[2J")
	for _, size := range []struct{ width, height int }{{40, 24}, {80, 24}, {120, 40}, {10, 5}, {3, 2}, {80, 1}} {
		t.Run(fmt.Sprintf("SESS-17 the menu fits a terminal of %d by %d, and the cursor stays where it was", size.width, size.height), func(t *testing.T) {
			t.Parallel()
			e := &editor{prompt: "› ", multiline: true, complete: words(many...)}
			for _, keys := range []string{"/", "\t", "\t", "\x1b[B", "\x1b[Z", "\x1b[Z", "\x1b[Z", "\x1b[Z"} {
				e.take([]byte(keys))
				out := e.draw(size.width, size.height, false)
				if len(e.shown) > max(size.height-1, 1) || strings.Contains(out, "\x1b[2J") {
					t.Fatalf("%d rows: %q", len(e.shown), out)
				}
				for _, row := range e.shown {
					if w := ansi.StringWidth(row); w > max(size.width-1, 4) {
						t.Errorf("a row of %d cells: %q", w, row)
					}
				}
				if e.row >= len(e.shown) || e.row > 0 && size.width > 10 {
					t.Errorf("the cursor is in row %d of %q", e.row, e.shown)
				}
			}
		})
	}
	t.Run("SESS-17 Escape closes the menu until something else is typed", func(t *testing.T) {
		t.Parallel()
		e := &editor{prompt: "› ", multiline: true, complete: words("/help", "/history")}
		e.take([]byte("/h"))
		e.key("\x1b")
		if len(e.menu.all) > 0 {
			t.Error("the menu is open")
		}
		if e.take([]byte("i")); len(e.menu.all) != 1 {
			t.Errorf("offered: %v", e.menu.all)
		}
	})
}

func TestEditorProp(t *testing.T) {
	t.Parallel()
	pieces := []string{"a", "é", "日", "👩‍👧", " ", "\x7f", "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x17", "\x1bb", "\x01", "\x05", "\x0b", "\x15", "\x04", "\x1b[3~", "\\\r", "\x1b\r",
		"\x1b[200~p\r\nq\x1b[201~", "\x1b[200~日\x1b[31m\x1b[201~", "\xff", "\t", "\x1b[9", "\u202e", "\x12", "\x07", "/", "\x1b[Z"}
	t.Run("SESS-16 how the bytes are cut makes no difference, the cursor is on a character and no row is too wide", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			typed := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "keys"), "") + "x"
			fresh := func() *editor {
				return &editor{prompt: "› ", multiline: true, history: &History{lines: []string{"old", "日\nnew"}}, complete: words("/old", "/one")}
			}
			feed := func(e *editor, b []byte) {
				for o := e.take(b); o != typing; { // what ends an input is forgotten
					o = e.take(nil)
				}
			}
			a, b := fresh(), fresh()
			feed(a, []byte(typed))
			width := rapid.IntRange(1, 40).Draw(t, "width")
			for rest := []byte(typed); len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
				feed(b, rest[:n])
				b.draw(width, rapid.IntRange(1, 9).Draw(t, "height"), false)
				rest = rest[n:]
			}
			if a.text != b.text || a.at != b.at {
				t.Fatalf("%q at %d, and in pieces %q at %d", a.text, a.at, b.text, b.at)
			}
			rows, row, col := a.layout(width)
			for _, r := range rows {
				if w := ansi.StringWidth(r); w > max(width-1, 4) || strings.ContainsAny(r, "\x1b\u202e\t\n") {
					t.Fatalf("a row of %d cells in %d: %q", w, width, r)
				}
			}
			if row >= len(rows) || col > ansi.StringWidth(rows[row]) || !strings.Contains(a.text[:a.at]+"|"+a.text[a.at:], "|") {
				t.Fatalf("the cursor is at %d, %d of %q", row, col, rows)
			}
		})
	})
}
