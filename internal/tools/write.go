package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/core/view"
	repo "github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/patch"
	"github.com/inspan/inspan/pkg/tool"
)

const writeSchema = `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"file, relative to the workspace; missing folders are created"},
"content":{"type":"string","description":"the whole new content"}}}`

type writeArgs struct{ Path, Content string }

type write struct{ builtin[writeArgs] }

var _ tool.Previewer = write{}

// Preview implements tool.Previewer.
func (write) Preview(_ context.Context, input json.RawMessage, see tool.View) (string, error) {
	a, err := decode[writeArgs](input)
	if err != nil {
		return "", err
	}
	before, err := see.Read(a.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	c := changed{from: a.Path, to: a.Path, before: string(before), after: a.Content}
	if err != nil {
		c.from = ""
	}
	return c.diff()
}

// changed is a file for a preview: its paths and its content before and after. A path is empty where there is no file.
type changed struct{ from, to, before, after string }

// diff is the change as a unified diff, with git's lines for a file that moves.
func (c changed) diff() (string, error) {
	from, to := oneLine(c.from), oneLine(c.to)
	name, head := cmp.Or(to, from), ""
	if from != "" && to != "" && from != to {
		head = fmt.Sprintf("rename from %s\nrename to %s\n", from, to)
	}
	switch {
	case len(c.before)+len(c.after) > maxDiffed:
		return "", fmt.Errorf("%s is too large to compare: %d bytes become %d", name, len(c.before), len(c.after))
	case isBinary(c.before) || isBinary(c.after):
		return fmt.Sprintf("%sBinary file %s: %d bytes become %d\n", head, name, len(c.before), len(c.after)), nil
	}
	// What differs is shown below names of its own, which are the same where both are there.
	_, hunks, _ := strings.Cut(patch.Unified("", c.before, c.after), "+++ b/\n")
	if hunks == "" && from != "" && to != "" {
		return head, nil
	}
	return fmt.Sprintf("%s--- %s\n+++ %s\n%s", head, side("a/", from), side("b/", to), hunks), nil
}

// side names one side of a diff.
func side(prefix, path string) string {
	if path == "" {
		return "/dev/null"
	}
	return prefix + path
}

// isBinary reports whether a content is none that people read.
func isBinary(content string) bool {
	return strings.ContainsRune(content, 0) || !utf8.ValidString(content)
}

func writeFile(_ context.Context, a writeArgs, env tool.Env) (tool.Result, error) {
	replaced := overwritten(a, env)
	if err := env.Sandbox.WriteFile(a.Path, []byte(a.Content)); err != nil {
		return fileError("write", a.Path, err)
	}
	return tool.Show(env, fmt.Sprintf("wrote %d bytes to %s%s", len(a.Content), oneLine(a.Path), replaced)), nil
}

// overwritten says what a write replaces: a diff, or words. A file that cannot be read before it is written is nothing
// to fail for.
func overwritten(a writeArgs, env tool.Env) string {
	if repo.Secret(a.Path) {
		return "" // neither what it held nor what it holds is to be read in a result
	}
	info, err := env.Sandbox.Stat(a.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return view.NewFile
	case err != nil || !info.Mode().IsRegular():
		return ""
	case info.Size() > maxDiffed:
		return ", in place of a file that is too large to show a diff"
	}
	before, err := env.Sandbox.ReadFile(a.Path)
	switch {
	case err != nil:
		return ""
	case string(before) == a.Content:
		return view.SameFile
	case isBinary(string(before)) || isBinary(a.Content):
		return ", in place of other content"
	}
	return "\n" + shortDiff(a.Path, string(before), a.Content)
}
