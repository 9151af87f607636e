package tools

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/pkg/tool"
)

const writeSchema = `{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"file, relative to the workspace; missing folders are created"},
"content":{"type":"string","description":"the whole new content"}}}`

type writeArgs struct{ Path, Content string }

type write struct{ builtin[writeArgs] }

func writeFile(_ context.Context, a writeArgs, env tool.Env) (tool.Result, error) {
	if err := env.Sandbox.WriteFile(a.Path, []byte(a.Content)); err != nil {
		return fileError("write", a.Path, err)
	}
	return tool.Result{Output: fmt.Sprintf("wrote %d bytes to %s", len(a.Content), oneLine(a.Path))}, nil
}
