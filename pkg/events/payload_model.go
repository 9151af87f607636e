package events

import "fmt"

// CallReservedData is stored before a request of a program of others for its model is passed on: what the request may
// use is set aside in the budget of the run.
type CallReservedData struct {
	Event string `json:"event"`
	ToolRef
	// Fence is that of the attempt of the call that the program carries out.
	Fence uint64 `json:"fence"`
	// Request counts the requests of the call.
	Request int `json:"request"`
	// Model is what the program calls it.
	Model string `json:"model,omitempty"`
	// Tokens are the input as it is estimated and all of the output that the answer may have, Cost is their price.
	Tokens int64    `json:"tokens"`
	Cost   MicroUSD `json:"cost_micro_usd,omitempty"`
}

// Kind implements Payload.
func (*CallReservedData) Kind() Kind { return CallReserved }

func (d *CallReservedData) line() string {
	return fmt.Sprintf("call %s: request %d of the program for its model, at most %d tokens", d.Call, d.Request, d.Tokens)
}

// CallSettledData is what a request of a program for its model came to: its use takes the place of what was set aside.
type CallSettledData struct {
	Event string `json:"event"`
	ToolRef
	Fence   uint64 `json:"fence"`
	Request int    `json:"request"`
	// InputTokens, of which CachedTokens came from the provider's cache, and OutputTokens as the provider counted them.
	InputTokens  int      `json:"input_tokens"`
	OutputTokens int      `json:"output_tokens"`
	CachedTokens int      `json:"cached_tokens,omitempty"`
	Cost         MicroUSD `json:"cost_micro_usd,omitempty"`
	// Unknown is true where the provider did not say what it used: what was set aside counts as used.
	Unknown bool `json:"unknown,omitempty"`
}

// Kind implements Payload.
func (*CallSettledData) Kind() Kind { return CallSettled }

func (d *CallSettledData) line() string {
	if d.Unknown {
		return fmt.Sprintf("call %s: it is unknown what request %d used", d.Call, d.Request)
	}
	return fmt.Sprintf("call %s: request %d used %d tokens", d.Call, d.Request, d.InputTokens+d.OutputTokens)
}
