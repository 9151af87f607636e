package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/tool"
)

const writeSchema = `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"file, relative to the workspace; folders are made"},
"content":{"type":"string","description":"the whole new content"}}}`

type writeArgs struct{ Path, Content string }

type write struct{ builtin[writeArgs] }

func writeFile(_ context.Context, a writeArgs, env tool.Env) (tool.Result, error) {
	if err := env.Box.WriteFile(a.Path, []byte(a.Content)); err != nil {
		return fileError("write", a.Path, err)
	}
	return tool.Result{Output: fmt.Sprintf("wrote %d bytes to %s", len(a.Content), Visible(a.Path))}, nil
}

const editSchema = `{"type":"object","additionalProperties":false,"required":["path","old_string","new_string"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"file, relative to the workspace"},
"old_string":{"type":"string","minLength":1,"description":"text to replace, exactly as it stands in the file"},
"new_string":{"type":"string","description":"text to put in its place"},
"replace_all":{"type":"boolean","description":"replace every occurrence; else there must be exactly one"}}}`

type editArgs struct {
	Path       string
	Old        string `json:"old_string"`
	New        string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
}

type edit struct{ builtin[editArgs] }

var _ tool.Verifier = edit{}

func editFile(_ context.Context, a editArgs, env tool.Env) (tool.Result, error) {
	if a.Old == a.New {
		return failed("edit: old_string and new_string are the same"), nil
	}
	data, err := env.Box.ReadFile(a.Path)
	if err != nil {
		return fileError("edit", a.Path, err)
	}
	text := string(data)
	n := strings.Count(text, a.Old)
	switch {
	case n == 0:
		return failed("edit: old_string does not occur in %s; read the file and copy the text exactly, with its white space", a.Path), nil
	case n > 1 && !a.ReplaceAll:
		return failed("edit: old_string occurs %d times in %s; give more of the text around it, or set replace_all", n, a.Path), nil
	}
	if err := env.Box.WriteFile(a.Path, []byte(strings.ReplaceAll(text, a.Old, a.New))); err != nil {
		return fileError("edit", a.Path, err)
	}
	return tool.Result{Output: fmt.Sprintf("replaced %d occurrence(s) in %s", n, Visible(a.Path))}, nil
}

// Verify implements tool.Verifier. The edit is done where the old text is gone and the new one is there; it is not
// done where the old text is there and the new one is not. Anything else can not be told, and is an error.
func (edit) Verify(_ context.Context, c tool.Call) (bool, tool.Result, error) {
	a, err := decode[editArgs](c.Input)
	if err != nil {
		return false, tool.Result{}, err
	}
	data, err := c.Env.Box.ReadFile(a.Path)
	if err != nil {
		return false, tool.Result{}, fmt.Errorf("verify edit of %s: %w", a.Path, err)
	}
	before, after := strings.Contains(string(data), a.Old), a.New != "" && strings.Contains(string(data), a.New)
	switch {
	case after && !before:
		return true, tool.Result{Output: "replaced in " + Visible(a.Path) + " (found to be done by an earlier attempt)"}, nil
	case before && !after:
		return false, tool.Result{}, nil
	}
	return false, tool.Result{}, fmt.Errorf("verify edit of %s: the file does not tell whether it was done", a.Path)
}
