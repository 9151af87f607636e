package view

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Names of the built-in tools whose calls change files and are shown as diffs.
const (
	toolEdit  = "edit"
	toolWrite = "write"
	toolPatch = "apply_patch"
)

// NewFile and SameFile end the first line of what write answers with where there was no file before, and where the file
// had this content.
const (
	NewFile  = ", a new file"
	SameFile = ", which it had already"
)

// Unchanged reports whether a call of a tool that Changed shows changed no file.
func Unchanged(tool string, success bool, output string) bool {
	first, _, _ := strings.Cut(output, "\n")
	switch tool {
	case toolEdit, toolPatch:
		return !success
	case toolWrite:
		return !success || strings.HasSuffix(first, SameFile)
	}
	return false
}

// maxDiffShown is the most bytes of a diff that are kept with a call of a tree.
const maxDiffShown = 4 << 10

// Changed is what a successful call of a built-in tool changed in files, as a diff, as far as its arguments and its
// output say; empty for other calls. Both are what a model or a file has: they are to be shown without what a terminal
// acts on.
func Changed(tool string, input json.RawMessage, output string) string {
	var args struct{ Path, Content, Patch string }
	if tool == toolPatch || tool == toolWrite {
		if json.Unmarshal(input, &args) != nil {
			return ""
		}
	}
	first, rest, _ := strings.Cut(output, "\n")
	switch {
	case tool == toolPatch:
		return strings.TrimSuffix(args.Patch, "\n")
	case tool != toolEdit && tool != toolWrite:
		return ""
	case strings.HasPrefix(rest, "--- "):
		return onlyDiff(rest)
	case tool != toolWrite || !strings.HasSuffix(first, NewFile) || args.Content == "":
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(args.Content, "\n"), "\n")
	path := strings.NewReplacer("\n", "<U+000A>", "\r", "<U+000D>").Replace(args.Path)
	return fmt.Sprintf("--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n+%s", path, len(lines), strings.Join(lines, "\n+"))
}

// onlyDiff is the diff that a text begins with: more may stand behind it, such as notes for the model.
func onlyDiff(text string) string {
	end := 0
	for line := range strings.Lines(text) {
		if !strings.ContainsRune(" +-@\\(", rune(line[0])) {
			break
		}
		end += len(line)
	}
	return strings.TrimSuffix(text[:end], "\n")
}

// changed keeps the beginning of what a call changed. Of one file its name is left out: the line of the call has it.
func (c *CallNode) changed(diff string) {
	if c.Tool != toolPatch {
		if _, hunks, ok := strings.Cut(diff, "\n+++ "); ok {
			_, diff, _ = strings.Cut(hunks, "\n")
		}
	}
	if diff == "" {
		return
	}
	added, removed := 0, 0
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		case line[0] == '+':
			added++
		case line[0] == '-':
			removed++
		}
	}
	c.Diff, c.DiffLines, c.Outcome = diff, 1+strings.Count(diff, "\n"), fmt.Sprintf("+%d -%d", added, removed)
	if len(diff) > maxDiffShown {
		c.Diff = strings.ToValidUTF8(diff[:maxDiffShown], "")
	}
}
