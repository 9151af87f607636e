package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/tool"
)

const artifactSaveSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":1024,"description":"file, relative to the workspace"},
"type":{"type":"string","enum":["file","log","report","screenshot","data"],"description":"what it is; guessed from the name where it is not given"},
"name":{"type":"string","minLength":1,"maxLength":200,"description":"what people see; the file's name where it is not given"}}}`

type artifactSaveArgs struct{ Path, Type, Name string }

// artifactSave is idempotent: what is kept is kept by content.
func artifactSave(ctx context.Context, a artifactSaveArgs, env tool.Env) (tool.Result, error) {
	if env.Save == nil {
		return tool.Result{}, tool.Fail(tool.Permanent, "say in your answer where the file is", errors.New("this station keeps no artifacts"))
	}
	if _, err := env.Sandbox.Stat(a.Path); err != nil {
		return fileError("artifact_save", a.Path, err)
	}
	kept, err := env.Save(ctx, tool.Saving{Path: a.Path, Type: a.Type, Name: a.Name})
	if err != nil {
		if tool.ClassOf(err) == tool.Invalid {
			return failed("artifact_save %s: %v", a.Path, errors.Unwrap(err)), nil
		}
		return tool.Result{}, err
	}
	return tool.Result{Output: fmt.Sprintf("saved %s as artifact %s (%s, %d bytes)", Visible(a.Path), Visible(kept.Name), kept.Type, kept.Size)}, nil
}
