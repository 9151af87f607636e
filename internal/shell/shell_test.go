package shell_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/shell"
)

func TestParseFindsCommands(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, text string
		want       [][]string
	}{
		{"a list", "a 1; b 2 && c 3 || d", [][]string{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d"}}},
		{"the folder is taken off a name", "/bin/ls -l", [][]string{{"ls", "-l"}}},
		{"quotes go, words stay", `a "b c" 'd'"e" \f`, [][]string{{"a", "b c", "de", "f"}}},
		{"escapes of the shell", `a $'\x62\143\u0064\n\e'`, [][]string{{"a", "bcd\n\x1b"}}},
		{"a zero byte ends a word", `a $'b\0c'`, [][]string{{"a", "b"}}},
		{"braces", "a {b,c}d {e,}", [][]string{{"a", "bd", "cd", "e", ""}}},
		{"no braces in quotes", `a '{b,c}' \{d,e\}`, [][]string{{"a", "{b,c}", "{d,e}"}}},
		{"what is only known later", `a "$x" b"$x" $x ${x[@]} "$@"`,
			[][]string{{"a", guard.Unknown, "b" + guard.Unknown, guard.Many, guard.Many, guard.Many}}},
		{"home and here", `a $HOME/x "${PWD}"`, [][]string{{"a", "~/x", "."}}},
		{"a redirection that writes", "a > x 2>&1 < y >> z", [][]string{{">", "x"}, {">", "z"}, {"a"}}},
		{"a wrapper and what it runs", "env A=1 timeout 5 b c", [][]string{{"env", "A=1", "timeout", "5", "b", "c"}, {"timeout", "5", "b", "c"}, {"b", "c"}}},
		{"a shell within", "sh -c 'a | b'", [][]string{{"sh", "-c", "a | b"}, {"a"}, {"b"}}},
		{"xargs gives words", "xargs a b", [][]string{{"xargs", "a", "b"}, {"a", "b", guard.Many}}},
		{"find gives a word", `find x -exec a {} \;`, [][]string{{"find", "x", "-exec", "a", "{}", ";"}, {"a", guard.Unknown}}},
		{"export", "export A=b", [][]string{{"export", "A=b"}}},
		{"nothing", "# only a comment", nil},
	}
	for _, c := range cases {
		t.Run("GUARD-5 "+c.name, func(t *testing.T) {
			t.Parallel()
			got := shell.Parse(c.text)
			if !reflect.DeepEqual(got.Commands, c.want) {
				t.Errorf("got %q, want %q", got.Commands, c.want)
			}
			if got.Unclear != "" {
				t.Errorf("unclear: %s", got.Unclear)
			}
		})
	}
}

func TestParseLimits(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string {
		return strings.Repeat("env ", depth) + "git push -f"
	}
	cases := []struct {
		name, text string
		clear      bool
	}{
		{"the longest text", "a" + strings.Repeat(" ", shell.MaxText-1), true},
		{"one byte more", "a" + strings.Repeat(" ", shell.MaxText), false},
		{"the most commands", strings.Repeat("a;", shell.MaxCommands), true},
		{"one command more", strings.Repeat("a;", shell.MaxCommands+1), false},
		{"the deepest", nested(shell.MaxDepth), true},
		{"one deeper", nested(shell.MaxDepth + 1), false},
		{"the most brackets", strings.Repeat("( ", shell.MaxNesting) + "a" + strings.Repeat(" )", shell.MaxNesting), true},
		{"one bracket more", strings.Repeat("( ", shell.MaxNesting+1) + "a" + strings.Repeat(" )", shell.MaxNesting+1), false},
		{"braces that explode", "a " + strings.Repeat("{1,2,3,4}", 12), false},
		{"a range that explodes", "a {1..100000000}", false},
		{"a zero byte", "a \x00", false},
		{"functions without end", strings.Repeat("f() { ", 200) + "a;" + strings.Repeat("}; ", 200), false},
	}
	for _, c := range cases {
		t.Run("GUARD-5 limit: "+c.name, func(t *testing.T) {
			t.Parallel()
			got := shell.Parse(c.text)
			if (got.Unclear == "") != c.clear {
				t.Errorf("unclear %q, want clear %v", got.Unclear, c.clear)
			}
			if len(got.Commands) > shell.MaxCommands {
				t.Errorf("%d commands", len(got.Commands))
			}
		})
	}
}

func TestParseHidesNothingBehindLength(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-5 a destructive command after the limit is never allowed", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{
			strings.Repeat("a;", shell.MaxCommands) + "git push -f",
			strings.Repeat(" ", shell.MaxText) + "git push -f",
			strings.Repeat("env ", shell.MaxDepth+1) + "git push -f",
			strings.Repeat("(", 500) + "git push -f" + strings.Repeat(")", 500),
		} {
			if got, _ := judge(t, text); got.Action == guard.Allow {
				t.Errorf("%.40q... is allowed", text)
			}
		}
	})
}
