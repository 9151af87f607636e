package run

// UnderWay is what is known of the attempt of a call that is under way.
type UnderWay struct {
	// Made is set once it was said what it made.
	Made bool `json:"made,omitempty"`
	// Key is the number of the station's key that the idempotency key of the call is made with.
	Key int `json:"key,omitempty"`
}

// BudgetLeft is the number of tool calls that may still be allowed (TOOL-9).
func (s *State) BudgetLeft() int {
	return max(0, s.Options.MaxToolCalls-s.TotalToolCalls-s.CallsHeld-s.Below().ToolCalls-s.HeldForChildren().ToolCalls)
}
