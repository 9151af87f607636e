package external

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/serve"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// Forecast is a tool that needs no workspace, so it can be served to a station that runs elsewhere.
type Forecast struct{}

// Spec implements tool.Tool.
func (Forecast) Spec() tool.Spec {
	return tool.Spec{Name: "forecast", Description: "Tell the weather of tomorrow in a city.", Effect: tool.Read,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["city"],"properties":{"city":{"type":"string","minLength":1}}}`)}
}

// Run implements tool.Tool.
func (Forecast) Run(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	var args struct{ City string }
	if err := json.Unmarshal(c.Input, &args); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "name a city", err)
	}
	return tool.Result{Output: fmt.Sprintf("rain in %s", args.City)}, nil
}

// serverName is what the program is called that serves the tool.
const serverName = "weather"

// Weather serves the tool to the station at a NATS address until ctx ends.
func Weather(ctx context.Context, url, password string) error {
	return serve.Serve(ctx, serve.Config{URL: url, User: "tools", Password: password, Server: serverName}, Forecast{})
}

// pinned writes what inspan tools pin forecast writes, for a station that is to have the tool when it starts.
func pinned(agents string) error {
	spec, err := wire.Describe(serverName, Forecast{}.Spec())
	if err != nil {
		return err
	}
	b, err := json.Marshal(map[string]any{"version": 1, "tools": []wire.Spec{spec}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(agents, "served.json"), b, 0o644)
}
