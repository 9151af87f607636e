package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

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
func (write) Preview(_ context.Context, input json.RawMessage, read func(string) ([]byte, error)) (string, error) {
	a, err := decode[writeArgs](input)
	if err != nil {
		return "", err
	}
	before, err := read(a.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return fileDiff(a.Path, string(before), a.Content, err != nil)
}

// fileDiff is the diff of one file for a preview.
func fileDiff(path, before, after string, created bool) (string, error) {
	switch {
	case len(before)+len(after) > maxDiffed:
		return "", fmt.Errorf("%s is too large to compare: %d bytes become %d", oneLine(path), len(before), len(after))
	case isBinary(before) || isBinary(after):
		return fmt.Sprintf("Binary file %s: %d bytes become %d\n", oneLine(path), len(before), len(after)), nil
	}
	diff := patch.Unified(oneLine(path), before, after)
	if created {
		if diff == "" {
			return fmt.Sprintf("--- /dev/null\n+++ b/%s\n", oneLine(path)), nil // an empty file
		}
		diff = strings.Replace(diff, "--- a/"+oneLine(path)+"\n", "--- /dev/null\n", 1)
	}
	return diff, nil
}

// isBinary reports whether a content is none that people read.
func isBinary(content string) bool {
	return strings.ContainsRune(content, 0) || !utf8.ValidString(content)
}

func writeFile(_ context.Context, a writeArgs, env tool.Env) (tool.Result, error) {
	if err := env.Sandbox.WriteFile(a.Path, []byte(a.Content)); err != nil {
		return fileError("write", a.Path, err)
	}
	return tool.Result{Output: fmt.Sprintf("wrote %d bytes to %s", len(a.Content), oneLine(a.Path))}, nil
}
