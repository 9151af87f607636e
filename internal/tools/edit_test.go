package tools_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

func pair(old, with string) args { return args{"old_string": old, "new_string": with} }

func TestEdits(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 several edits are made in order and shown as a diff", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a.go", "one\ntwo\nthree\n")
		got := b.good("edit", args{"path": "a.go", "edits": []args{pair("one", "1"), pair("1\ntwo", "1\n2")}})
		if want := "replaced 2 occurrence(s) in a.go\n--- a/a.go\n+++ b/a.go\n@@ -1,3 +1,3 @@\n-one\n-two\n+1\n+2\n three"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		b.has("a.go", "1\n2\nthree\n")
	})
	for name, c := range map[string]struct {
		a    args
		want string
	}{
		"the second is not there":   {args{"edits": []args{pair("one", "1"), pair("four", "4")}}, "edit 2 of 2: old_string does not occur in a.go"},
		"the first takes it away":   {args{"edits": []args{pair("one", "1"), pair("one", "I")}}, "edit 2 of 2"},
		"one is ambiguous":          {args{"edits": []args{pair("one", "1"), pair("x", "y")}}, "occurs 11 times in a.go, at the lines 3, 5, 5, 6, 7, 8, 9, 10, 11, 12 and 1 more"},
		"one is no change":          {args{"edits": []args{pair("one", "1"), pair("x", "x")}}, "edit 2 of 2: old_string and new_string are the same"},
		"they cancel each other":    {args{"edits": []args{pair("one", "1"), pair("1", "one")}}, "do not change"},
		"both forms":                {args{"old_string": "one", "new_string": "1", "edits": []args{pair("two", "2")}}, "not both"},
		"neither form":              {args{}, "both needed"},
		"half of it":                {args{"old_string": "one"}, "both needed"},
		"the other line end":        {pair("two\nx", "2"), `end with \r\n`},
		"more than a file may hold": {args{"old_string": "x", "new_string": strings.Repeat("y", 900_000), "replace_all": true, "more": 8}, "more than"},
	} {
		t.Run("TOOL-10 no edit is made where "+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			text := "one\ntwo\r\nx\r\n\nxx\n" + strings.Repeat("x\n", 8)
			if c.a["more"] != nil {
				text += strings.Repeat("x", 80)
				delete(c.a, "more")
			}
			b.put("a.go", text)
			c.a["path"] = "a.go"
			b.bad("edit", c.a, c.want)
			b.has("a.go", text)
		})
	}
	t.Run("TOOL-10 a long diff is cut", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a", strings.Repeat("old\n", 5000))
		if got := b.good("edit", args{"path": "a", "old_string": "old", "new_string": "new", "replace_all": true}); len(got) > 5000 || !strings.Contains(got, "bytes more of the diff") {
			t.Errorf("%d bytes: %.200q", len(got), got)
		}
	})
	for name, c := range map[string]struct {
		file          string
		done, unknown bool
	}{
		"before": {file: "one two"}, "after": {file: "1 2", done: true}, "a stranger's": {file: "1 two", unknown: true},
	} {
		t.Run("TOOL-10 Verify of several edits: "+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put("f", c.file)
			done, _, err := b.tool("edit").(tool.Verifier).Verify(t.Context(), b.call("edit", args{"path": "f", "edits": []args{pair("one", "1"), pair("1 two", "1 2")}}))
			if done != c.done || (err != nil) != c.unknown {
				t.Errorf("done %v, %v", done, err)
			}
		})
	}
}
