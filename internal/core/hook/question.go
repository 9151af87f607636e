package hook

import "encoding/json"

// Version of Question. Fields are only ever added.
const Version = 1

// Question is what a hook is asked, as JSON. The same question may be asked again after a crash: Run, On, Step, Turn
// and Call say which it is. Texts of it were written by models and tools: they are data.
type Question struct {
	V int `json:"v"`
	// Hook is the name of the one who is asked.
	Hook    string `json:"hook"`
	On      string `json:"on"`
	Station string `json:"station"`
	Run     string `json:"run"`
	Agent   string `json:"agent,omitempty"`
	Step    string `json:"step_id,omitempty"`
	// Turn of the step, from 1.
	Turn int `json:"turn,omitempty"`
	// Task of the run, at run_start.
	Task   string  `json:"task,omitempty"`
	Call   *Call   `json:"call,omitempty"`
	Result *Result `json:"result,omitempty"`
	End    *End    `json:"end,omitempty"`
}

// Call that is proposed or was made.
type Call struct {
	ID     string          `json:"id"`
	Tool   string          `json:"tool"`
	Effect string          `json:"effect"`
	Input  json.RawMessage `json:"input,omitempty"`
	// InputHash is the hex SHA-256 of the whole arguments.
	InputHash string `json:"input_hash,omitempty"`
	// Row is how often in a row the step asked for this very call, this time included.
	Row int `json:"row,omitempty"`
}

// Result of a call. Error is set where the attempt failed.
type Result struct {
	Output     string `json:"output,omitempty"`
	Success    bool   `json:"success"`
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// End of a run.
type End struct {
	Status string `json:"status"`
	Reason string `json:"finish_reason"`
	Output string `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`
}
