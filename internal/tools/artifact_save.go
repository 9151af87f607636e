package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/tool"
)

const artifactSaveSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":1024,"description":"file, relative to the workspace"},
"type":{"type":"string","enum":["file","log","report","screenshot","data"],"description":"type of the artifact; guessed from the file name if absent"},
"name":{"type":"string","minLength":1,"maxLength":200,"description":"name shown to people; the file name if absent"}}}`

type artifactSaveArgs struct{ Path, Type, Name string }

// artifactSave is idempotent: artifacts are stored by content.
func artifactSave(ctx context.Context, a artifactSaveArgs, env tool.Env) (tool.Result, error) {
	if env.Save == nil {
		return tool.Result{}, tool.Fail(tool.Permanent, "give the path of the file in your answer",
			errors.New("this station stores no artifacts"))
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
	return tool.Result{Output: fmt.Sprintf("saved %s as artifact %s (%s, %d bytes)", tool.Visible(a.Path),
		tool.Visible(kept.Name),
		kept.Type, kept.Size)}, nil
}
