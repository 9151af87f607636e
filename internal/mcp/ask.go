package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// newestWait is how long a server may take to answer in the newest revision before it is asked in an older one: some
// old servers never answer what they do not know.
const newestWait = 15 * time.Second

// Ask returns what a server says of its tools now, to be pinned. Tools that cannot be offered are left out, with the
// reason. A program runs inside box.
func Ask(ctx context.Context, s events.MCPServer, secrets map[string]secret.Value,
	sb sandbox.Sandbox) (agentfile.ServerPins, error) {
	return ask(ctx, s, secrets, sb, newestWait)
}

func ask(ctx context.Context, s events.MCPServer, secrets map[string]secret.Value, sb sandbox.Sandbox,
	patience time.Duration) (agentfile.ServerPins, error) {
	first, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := open(first, s, secrets, sb, "")
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		c, err = open(ctx, s, secrets, sb, Legacy)
	}
	if err != nil {
		return agentfile.ServerPins{}, clean(err)
	}
	defer c.Close()
	ctx, x := begin(ctx)
	pins := agentfile.ServerPins{Protocol: c.session.InitializeResult().ProtocolVersion, Tools: []agentfile.ToolPin{}}
	seen := map[string]bool{}
	err = c.tools(ctx, func(p agentfile.ToolPin) bool {
		why := agentfile.CheckTool(p)
		if why == nil && seen[p.Name] {
			why = errors.New("the server has two tools with this name")
		}
		if why == nil {
			why = toolbox.Check(s, events.MCPTool{Name: p.Name, Call: agentfile.CallName(s.Name, p.Name), Input: p.Input,
				Effect: string(tool.Once)})
		}
		if why != nil {
			pins.LeftOut = append(pins.LeftOut, agentfile.LeftOut{Name: brief(p.Name), Why: clean(why).Error()})
			return true
		}
		seen[p.Name] = true
		pins.Tools = append(pins.Tools, p)
		return true
	})
	if err != nil {
		return agentfile.ServerPins{}, clean(c.explain(x, err))
	}
	return pins, nil
}
