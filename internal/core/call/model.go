package call

import (
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ModelRequest is a request of a program for its model.
type ModelRequest struct {
	// API is the provider whose form it has, Model what the program calls the model.
	API, Model string
	// Bytes is its size, Output the most output that it asks for, in tokens.
	Bytes  int
	Output int64
}

func (q ModelRequest) ref() string { return q.API + "/" + q.Model }

// Reserve sets aside what a request of a program may use, and returns the most output that it may ask for. A request
// that may not be passed on answers nothing, with the reason.
func Reserve(s run.State, a Attempt, q ModelRequest) (say []events.Payload, most int64, refused string) {
	if !a.holds(s) {
		return nil, 0, "the call that the program works for has ended"
	}
	c := s.Open[a.Call.ID]
	n := 1
	if c.Asking != nil {
		n = c.Asking.Requests + 1
	}
	switch {
	case c.Program == nil:
		return nil, 0, "the program was given no work yet"
	case c.Asking != nil && len(c.Asking.Held) >= run.MaxInner:
		return nil, 0, "too many requests are open at the same time"
	}
	need, most, v := budget.AskProgram(s, q.ref(), budget.EstimateInput(q.Bytes), q.Output)
	if v.Reason != "" {
		return nil, 0, v.Text
	}
	return []events.Payload{&events.CallReservedData{Event: "model_request", ToolRef: ref(*c), Fence: a.Fence, Request: n,
		Model:  q.Model,
		Tokens: need.Tokens, Cost: need.Cost}}, most, ""
}

// ModelUse is what a request used, in tokens. Cached and Written are parts of Input.
type ModelUse struct {
	Input, Output, Cached, Written int
	// Unknown is true where the provider did not say.
	Unknown bool
}

// Settle records what a request used. It answers nothing where that is known, or the attempt is not the current one any
// more: then what was set aside counts.
func Settle(s run.State, a Attempt, q ModelRequest, request int, u ModelUse) []events.Payload {
	if !a.holds(s) {
		return nil
	}
	c := s.Open[a.Call.ID]
	if c.Asking == nil {
		return nil
	}
	for _, h := range c.Asking.Held {
		if h.Request != request {
			continue
		}
		d := &events.CallSettledData{Event: "model_answer", ToolRef: ref(*c), Fence: a.Fence, Request: request,
			Unknown: u.Unknown}
		if !u.Unknown {
			d.InputTokens, d.OutputTokens = max(0, u.Input), max(0, u.Output)
			d.CachedTokens = min(max(0, u.Cached), d.InputTokens)
			d.Cost = budget.PaidFor(s, q.ref(),
				budget.Usage{Input: d.InputTokens, Output: d.OutputTokens, Cached: d.CachedTokens,
					Written: max(0, u.Written)})
		}
		return []events.Payload{d}
	}
	return nil
}
