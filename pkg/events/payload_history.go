package events

// HistoryCompactedData replaces the older turns of a step by a summary in what its model is shown (LOOP-9). Token
// counts of the prompt are estimates; those of the request for the summary are the provider's.
type HistoryCompactedData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	// Through is the number in the run of the last turn that the summary stands for. It never grows smaller.
	Through int `json:"through_turn"`
	// Replaced is how many turns of the step the summary stands for, those of earlier summaries too.
	Replaced int `json:"turns_replaced"`
	// Summary has at most MaxInlineText bytes.
	Summary string `json:"summary"`
	// TokensBefore and TokensAfter estimate the prompt of the turn that is owed, without and with this summary.
	TokensBefore int `json:"tokens_before"`
	TokensAfter  int `json:"tokens_after"`
	// Window is the context window that was kept to, Protected how much of the newest history was left as it was; both
	// in tokens. Protected is less than the agent asks for where the window has no room for so much.
	Window    int `json:"context_window"`
	Protected int `json:"protected_tokens"`
	// Usage of the request for the summary.
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	CachedTokens int `json:"cached_tokens,omitempty"`
	// CacheWriteTokens is the part of the input that the provider put into its cache.
	CacheWriteTokens int `json:"cache_write_tokens,omitempty"`
	// ModelRef is the reference, "provider/name", that it is paid for by; Cost what it cost by the run's prices.
	ModelRef   string   `json:"model_ref,omitempty"`
	Cost       MicroUSD `json:"cost_micro_usd,omitempty"`
	Attempt    int      `json:"attempt"`
	DurationMS int64    `json:"duration_ms"`
	Model      string   `json:"model"`
	Provider   string   `json:"provider"`
}

// Kind implements Payload.
func (*HistoryCompactedData) Kind() Kind { return HistoryCompacted }

// Compaction says when and how the history of an agent's steps is compacted. Nil and zero values mean the defaults.
type Compaction struct {
	// Off never compacts.
	Off bool `json:"off,omitempty"`
	// Threshold is the part of the context window, above 0 and up to 1, that starts a compaction; 0 means
	// DefaultThreshold.
	Threshold float64 `json:"threshold,omitempty"`
	// ProtectTokens of the newest history are left as they are; nil means DefaultProtectTokens.
	ProtectTokens *int `json:"protect_tokens,omitempty"`
}

// Defaults of Compaction (LOOP-7, LOOP-8).
const (
	DefaultThreshold     = 0.85
	DefaultProtectTokens = 40_000
)
