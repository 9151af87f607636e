package tools

import (
	"context"

	"github.com/inspan/inspan/pkg/tool"
)

const skillSchema = `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
"name":{"type":"string","minLength":1,"maxLength":64,"description":"name of the skill"}}}`

type skillArgs struct{ Name string }

// readSkill shows a skill as it was pinned with the agent; no file is looked at.
func readSkill(_ context.Context, a skillArgs, env tool.Env) (tool.Result, error) {
	if env.Skill != nil {
		if text, ok := env.Skill(a.Name); ok {
			return tool.Show(env, text), nil
		}
	}
	return failed("skill: you have no skill %q; use a name listed in your instructions", a.Name), nil
}
