// Package external is what a module of others does with Inspan: it writes a tool, tests it, runs it in a station of its
// own or serves it to one that runs elsewhere, and talks to a station as a client.
//
// Promises: it is a module of its own, so it sees of Inspan only what others see. Its tests start a real station in
// this process; no network and no key is needed.
package external

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/tool"
)

// Shout is a tool that writes a file of the workspace in capitals.
type Shout struct{}

// Spec implements tool.Tool.
func (Shout) Spec() tool.Spec {
	return tool.Spec{Name: "shout", Description: "Rewrite a file of the workspace in capitals.", Effect: tool.Idempotent,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{"path":{"type":"string","minLength":1}}}`)}
}

// Run implements tool.Tool.
func (Shout) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	var args struct{ Path string }
	if err := json.Unmarshal(c.Input, &args); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "name a file", err)
	}
	text, err := c.Env.Sandbox.ReadFile(args.Path)
	if err != nil {
		return tool.Result{Output: err.Error(), Failed: true}, nil
	}
	if err := c.Env.Sandbox.WriteFile(args.Path, []byte(strings.ToUpper(string(text)))); err != nil {
		return tool.Result{}, tool.Fail(tool.Permanent, "", err)
	}
	return tool.Result{Output: fmt.Sprintf("%d bytes", len(text))}, nil
}
