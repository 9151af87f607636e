package inner

import (
	"context"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// requested is a request of a program as it is decided about.
func requested(q tool.InnerRequest) call.ModelRequest {
	return call.ModelRequest{API: q.API, Model: text(q.Model), Bytes: q.Bytes, Output: q.Output}
}

// Reserve implements tool.Inner.
func (i *inside) Reserve(ctx context.Context, q tool.InnerRequest) (g tool.InnerGrant, err error) {
	_, stored, err := i.say(ctx, func(s run.State) []events.Payload {
		say, most, refused := call.Reserve(s, i.attempt, requested(q))
		g = tool.InnerGrant{Output: most, Refused: refused}
		for _, p := range say {
			g.Request = p.(*events.CallReservedData).Request
		}
		return say
	})
	if err == nil && !stored && g.Refused == "" {
		g.Refused = "it could not be recorded"
	}
	return g, err
}

// Settle implements tool.Inner.
func (i *inside) Settle(ctx context.Context, q tool.InnerRequest, g tool.InnerGrant, u tool.InnerUse) error {
	use := call.ModelUse{Input: u.Input, Output: u.Output, Cached: u.Cached, Written: u.Written, Unknown: u.Unknown}
	_, _, err := i.say(ctx, func(s run.State) []events.Payload {
		return call.Settle(s, i.attempt, requested(q), g.Request, use)
	})
	return err
}
