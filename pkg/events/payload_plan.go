package events

import "time"

// MaxPlanAgents bounds the names of agents that a request for a plan shows to the model.
const MaxPlanAgents = 500

// PlanRequestedData asks for a plan that a model is to make.
type PlanRequestedData struct {
	Event string `json:"event"`
	// Try counts the requests of the run from 1: an answer that is no plan is followed by another request.
	Try int `json:"try"`
	// Agents are the names of those that the plan may give steps to, at most MaxPlanAgents.
	Agents []string `json:"agents,omitempty"`
	// Fault says why the answer before was no plan, and Hint what to do about it; both are empty in the first request.
	Fault string `json:"fault,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// PlanDeferredData is an error event: a request for a plan that failed and will be made again.
type PlanDeferredData struct {
	Event string `json:"event"`
	Try   int    `json:"try"`
	Error string `json:"error"`
	Class string `json:"class"`
	// Attempt that failed, from 1.
	Attempt   int       `json:"attempt"`
	DelayMS   int64     `json:"delay_ms"`
	NotBefore time.Time `json:"not_before"`
	Lost      *Lost     `json:"lost,omitempty"`
	Outage
}

// PlanAnsweredData is the end of a request for a plan: the text of the model, or why there is none.
type PlanAnsweredData struct {
	Event   string `json:"event"`
	Try     int    `json:"try"`
	Text    string `json:"text,omitempty"`
	TextRef *Ref   `json:"text_ref,omitempty"`
	// Error says why the model gave no answer, and RunReason is the finish reason of the run then.
	Error        string `json:"error,omitempty"`
	RunReason    string `json:"run_finish_reason,omitempty"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	CachedTokens int    `json:"cached_tokens,omitempty"`
	// CacheWriteTokens is the part of the input that the provider put into its cache.
	CacheWriteTokens int `json:"cache_write_tokens,omitempty"`
	// ModelRef is the reference, "provider/name", that the answer is paid for by; Cost what it cost by the run's
	// prices.
	ModelRef string   `json:"model_ref,omitempty"`
	Cost     MicroUSD `json:"cost_micro_usd,omitempty"`
	Lost     *Lost    `json:"lost,omitempty"`
	// TotalTokens of the run so far.
	TotalTokens  int    `json:"total_tokens"`
	FinishReason string `json:"finish_reason,omitempty"`
	Attempt      int    `json:"attempt"`
	DurationMS   int64  `json:"duration_ms"`
	Model        string `json:"model,omitempty"`
	Provider     string `json:"provider,omitempty"`
}

func (*PlanRequestedData) Kind() Kind { return PlanRequested }
func (*PlanDeferredData) Kind() Kind  { return PlanDeferred }
func (*PlanAnsweredData) Kind() Kind  { return PlanAnswered }
