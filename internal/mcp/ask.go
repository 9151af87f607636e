package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
	pins, err := describe(ctx, c, s)
	if err != nil {
		return agentfile.ServerPins{}, clean(c.explain(x, err))
	}
	return pins, nil
}

// describe returns what a server says of its tools.
func describe(ctx context.Context, c *session, s events.MCPServer) (agentfile.ServerPins, error) {
	pins := agentfile.ServerPins{Protocol: c.session.InitializeResult().ProtocolVersion, Tools: []agentfile.ToolPin{}}
	seen := map[string]bool{}
	err := c.tools(ctx, func(p agentfile.ToolPin) bool {
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
	return pins, err
}

// Trial is what came of trying a server.
type Trial struct {
	// Name and Version are what the server says of itself, Protocol the revision that it speaks.
	Name, Version, Protocol string
	// Start is how long it took until the server was initialized, List and Call the rest.
	Start, List, Call time.Duration
	Pins              agentfile.ServerPins
	// Result of the call, where one was made.
	Result tool.Result
}

// Try starts a server, asks it for its tools and, where name is not empty, calls a tool of it with JSON arguments: for
// a person who wants to see whether it works. What is pinned is not looked at.
func Try(ctx context.Context, s events.MCPServer, secrets map[string]secret.Value, sb sandbox.Sandbox, name string,
	input json.RawMessage) (Trial, error) {
	began := time.Now()
	c, err := open(ctx, s, secrets, sb, s.Protocol)
	if err != nil {
		return Trial{}, clean(err)
	}
	defer c.Close()
	ctx, x := begin(ctx)
	r := c.session.InitializeResult()
	t := Trial{Protocol: r.ProtocolVersion, Start: time.Since(began)}
	if r.ServerInfo != nil {
		t.Name, t.Version = brief(r.ServerInfo.Name), brief(r.ServerInfo.Version)
	}
	began = time.Now()
	if t.Pins, err = describe(ctx, c, s); err != nil {
		return t, clean(c.explain(x, err))
	}
	t.List = time.Since(began)
	if name == "" {
		return t, nil
	}
	began = time.Now()
	res, err := c.session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: input})
	if t.Call = time.Since(began); err != nil {
		return t, clean(c.explain(x, err))
	}
	t.Result = show(tool.Env{Sandbox: sb, MaxOutput: maxTrial}, res)
	return t, nil
}

// maxTrial is the most bytes of a result that a person is shown.
const maxTrial = 16 << 10
