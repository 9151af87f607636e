package tools

import (
	"context"
	"errors"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const delegateSchema = `{"type":"object","additionalProperties":false,"required":["agent","task"],"properties":{
"agent":{"type":"string","minLength":1,"maxLength":64,"description":"name of the agent"},
"task":{"type":"string","minLength":1,"maxLength":65536,"description":"the work, with all that the agent needs to know"},
"workspace":{"type":"string","enum":["own","shared"],"description":"own (default): a new directory, empty or, where you work in git, a clone on a branch of its own that is not merged; shared: your directory"},
"background":{"type":"boolean","description":"do not wait for the answer"}}}`

const delegateResultSchema = `{"type":"object","additionalProperties":false,"properties":{
"id":{"type":"string","minLength":1,"maxLength":64,"description":"id that delegate gave"},
"wait":{"type":"boolean","description":"wait for the end of the work; true where it is left out"}}}`

// waiting is a tool whose calls wait for child runs or for a planner. The toolrunner answers them out of the log and
// never runs them.
type waiting struct{ builtin[struct{}] }

func waits(name string, effect tool.Effect, schema string) waiting {
	return waiting{define(name, effect, 0, schema, func(context.Context, struct{}, tool.Env) (tool.Result, error) {
		return tool.Result{}, tool.Fail(tool.Permanent, "update the toolrunners of the station",
			errors.New("this toolrunner does not know calls that wait"))
	})}
}

func delegation() []tool.Tool {
	return []tool.Tool{waits(events.ToolDelegate, tool.Idempotent, delegateSchema),
		waits(events.ToolDelegateResult, tool.Read, delegateResultSchema)}
}
