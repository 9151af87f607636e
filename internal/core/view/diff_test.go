package view_test

import (
	"encoding/json"
	"testing"

	"github.com/inspan/inspan/internal/core/view"
)

func TestChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tool, input, output, want string }{
		"an edit":                         {"edit", `{"path":"a"}`, "replaced 1 occurrence(s) in a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+y", "--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+y"},
		"an edit with notes behind it":    {"edit", `{}`, "replaced 1 occurrence(s) in a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+y\n\nNotes: be kind", "--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+y"},
		"an edit without a diff":          {"edit", `{}`, "replaced 1 occurrence(s) in a\n(the file is too large to show a diff)", ""},
		"a new file":                      {"write", `{"path":"a\n+b","content":"x\ny"}`, "wrote 3 bytes to a" + view.NewFile, "--- /dev/null\n+++ b/a<U+000A>+b\n@@ -0,0 +1,2 @@\n+x\n+y"},
		"a new and empty file":            {"write", `{"path":"a","content":""}`, "wrote 0 bytes to a" + view.NewFile, ""},
		"a file that was replaced":        {"write", `{"path":"a","content":"y"}`, "wrote 1 bytes to a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+y", "--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-x\n+y"},
		"a write of an earlier version":   {"write", `{"path":"a","content":"y"}`, "wrote 1 bytes to a", ""},
		"a patch":                         {"apply_patch", `{"patch":"--- a/a\n+++ b/a\n"}`, "1 file(s) changed", "--- a/a\n+++ b/a"},
		"a patch whose arguments are not": {"apply_patch", `[]`, "1 file(s) changed", ""},
		"a command":                       {"bash", `{"command":"x"}`, "x\n--- a/a\n+++ b/a\n", ""},
	} {
		t.Run("PLUS-14 what a call changed: "+name, func(t *testing.T) {
			t.Parallel()
			if got := view.Changed(c.tool, json.RawMessage(c.input), c.output); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
