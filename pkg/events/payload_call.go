package events

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// ToolRef is the part that all events of one tool call share. The field names are those of the monitoring events.
type ToolRef struct {
	Step string `json:"step_id"`
	Call string `json:"tool_id"`
	Tool string `json:"tool_name"`
	// Parent is the call inside of which a program of others made this one; empty for all others.
	Parent string `json:"parent,omitempty"`
}

// CallAllowedData permits a call. For a read-only tool it is the monitoring event tool_start and carries Input.
type CallAllowedData struct {
	Event string `json:"event"`
	ToolRef
	// Effect class of the tool: read, idempotent, reconcilable or once.
	Effect string `json:"effect"`
	// InputHash is the hex SHA-256 of the exact arguments permitted.
	InputHash string `json:"input_hash"`
	Input     string `json:"input,omitempty"`
	// TimeoutMS of one attempt, in milliseconds; 0 leaves it to the tool.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Rule that allowed it, if one spoke, and the gate that was approved for it.
	Rule string `json:"rule,omitempty"`
	Gate string `json:"gate_id,omitempty"`
	// RulesDigest is the hex SHA-256 of the rule set in force.
	RulesDigest string `json:"rules_digest"`
	// BudgetLeft after this call.
	BudgetLeft int `json:"budget_left"`
	// Edited is true where what is permitted are not the arguments that were asked for but those of the gate's
	// approval.
	Edited bool `json:"edited,omitempty"`
	// Hooks are the answers of the hooks that were asked about the call.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Grants are the standing grants that the permission rests on, one for each rule that asks about the call.
	Grants []GrantUse `json:"grants,omitempty"`
}

// Codes of a refusal.
const (
	RefusedPermission = "permission_denied"
	RefusedUnknown    = "unknown_tool"
	RefusedInput      = "invalid_input"
	RefusedBudget     = "budget_exceeded"
	RefusedGuard      = "guard_denied"
	RefusedByPerson   = "rejected"
	RefusedHook       = "hook_denied"
	RefusedDoomLoop   = "doom_loop"
)

// CallRefusedData refuses a call for good; the agent sees code, reason and hint.
type CallRefusedData struct {
	Event string `json:"event"`
	ToolRef
	Code        string `json:"code"`
	Rule        string `json:"rule,omitempty"`
	Reason      string `json:"reason"`
	Hint        string `json:"hint,omitempty"`
	Gate        string `json:"gate_id,omitempty"`
	RulesDigest string `json:"rules_digest,omitempty"`
	// Hooks are the answers of the hooks that were asked about the call.
	Hooks []HookAnswer `json:"hooks,omitempty"`
}

// CallStartedData is the monitoring event tool_start. It is stored before the attempt has any effect.
type CallStartedData struct {
	Event string `json:"event"`
	ToolRef
	Input string `json:"input"`
	// Attempt counts from 1.
	Attempt int    `json:"attempt"`
	Effect  string `json:"effect"`
	// Runner is the instance that holds the lease; Sandbox the backend it uses.
	Runner  string `json:"runner"`
	Sandbox string `json:"sandbox"`
	// Key is the number of the station's key that the idempotency key is made with: 0 before it was replaced.
	Key int `json:"key,omitempty"`
}

// CallDeferredData is an error event: an attempt that will be made again.
type CallDeferredData struct {
	Event string `json:"event"`
	ToolRef
	Error     string    `json:"error"`
	Class     string    `json:"class"`
	Attempt   int       `json:"attempt"`
	Fence     uint64    `json:"fence,omitempty"`
	DelayMS   int64     `json:"delay_ms"`
	NotBefore time.Time `json:"not_before"`
}

// CallFinishedData is the monitoring event tool_result (TOOL-2, OBS-19).
type CallFinishedData struct {
	Event string `json:"event"`
	ToolRef
	Output string `json:"output"`
	// OutputRef is the whole output where Output is shortened.
	OutputRef *Ref `json:"output_ref,omitempty"`
	// Images are the pictures in the result that the model is shown with it.
	Images []Image `json:"images,omitempty"`
	// Success is false where the tool ran but what it tried did not work.
	Success    bool   `json:"success"`
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Attempt    int    `json:"attempt"`
	RetryCount int    `json:"retry_count"`
	// Fence is the sequence of the call.started it belongs to; 0 for read-only tools, which have none.
	Fence    uint64 `json:"fence,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// Reconciled is true where an earlier attempt was found to have taken effect.
	Reconciled bool   `json:"reconciled,omitempty"`
	Sandbox    string `json:"sandbox"`
	// Usage is what the call's commands used, where it ran any and the sandbox measures.
	Usage *Usage `json:"usage,omitempty"`
	// Notes is the path of the AGENTS.md of the workspace that Output ends with, where the agent was not shown it
	// before.
	Notes string `json:"workspace_notes,omitempty"`
	// Dir is the folder of the workspace that later shells of the step begin in, where the call changed it; "." is the
	// workspace.
	Dir string `json:"dir,omitempty"`
	// Background is the command that runs on beyond the call, or whose output the call showed.
	Background *Background `json:"background,omitempty"`
	// Hooks are the answers of the hooks that were asked about the result.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Reported is true where the result is what a program of others said, and not what was seen.
	Reported bool `json:"reported,omitempty"`
	// Uncommitted is what the working tree has that no commit has, once the call has ended. It is looked at for calls
	// of named agents that may have changed it; nil where it was not.
	Uncommitted *Uncommitted `json:"uncommitted,omitempty"`
}

// Uncommitted is how many paths of a working tree have changes that are in no commit, new files included, and the
// branch that is checked out, empty for none.
type Uncommitted struct {
	Paths  int    `json:"paths"`
	Branch string `json:"branch,omitempty"`
}

// Background is a command that runs on beyond the call that started it, at most to the end of its step. Nothing starts
// it again.
type Background struct {
	// ID is the handle that the agent has, one of its step.
	ID string `json:"id"`
	// Runner is the instance that it ends with, in the result of the call that started it.
	Runner string `json:"runner,omitempty"`
	// At is how many bytes of what it wrote were shown by the end of the call, or had been lost before.
	At int64 `json:"at,omitempty"`
}

// Usage is what commands used. What is 0 is not known or less than its unit.
type Usage struct {
	// UserMS and SystemMS of processor time, in milliseconds.
	UserMS   int64 `json:"user_ms,omitempty"`
	SystemMS int64 `json:"system_ms,omitempty"`
	// MaxMemoryBytes is the most memory of one command at a time.
	MaxMemoryBytes int64 `json:"max_memory_bytes,omitempty"`
	// ReadBytes and WriteBytes went from and to disks.
	ReadBytes  int64 `json:"read_bytes,omitempty"`
	WriteBytes int64 `json:"write_bytes,omitempty"`
	// Commands counts what was run.
	Commands int `json:"commands"`
}

// OutcomeUnknown is the class of a call of which no one knows whether it took effect: its lease ran out after it began,
// or what carried it out was lost in the middle. The machine never runs it again.
const OutcomeUnknown = "outcome_unknown"

// OutcomeUnknownHint is what the agent reads about such a call.
const OutcomeUnknownHint = "check the current state before you repeat it; the same call needs the approval of a person"

// CallFailedData is the monitoring event tool_result of a call that could not be carried out.
type CallFailedData struct {
	Event string `json:"event"`
	ToolRef
	Error string `json:"error"`
	// Class: transient (retries used up), permanent, invalid, timeout, denied, outcome_unknown.
	Class      string `json:"class"`
	Hint       string `json:"hint,omitempty"`
	Success    bool   `json:"success"`
	DurationMS int64  `json:"duration_ms"`
	Attempt    int    `json:"attempt"`
	RetryCount int    `json:"retry_count"`
	Fence      uint64 `json:"fence,omitempty"`
	Sandbox    string `json:"sandbox,omitempty"`
	// Usage is what the last attempt's commands used until they ended or were ended, where it ran any.
	Usage *Usage `json:"usage,omitempty"`
	// Hooks are the answers of the hooks that were asked about the result.
	Hooks []HookAnswer `json:"hooks,omitempty"`
}

func (*CallAllowedData) Kind() Kind  { return CallAllowed }
func (*CallRefusedData) Kind() Kind  { return CallRefused }
func (*CallStartedData) Kind() Kind  { return CallStarted }
func (*CallDeferredData) Kind() Kind { return CallDeferred }
func (*CallFinishedData) Kind() Kind { return CallFinished }
func (*CallFailedData) Kind() Kind   { return CallFailed }

// Preview shortens an input for a monitoring event, never inside a character, and shows its text as it is.
func Preview(input json.RawMessage) string {
	input = Plain(input)
	if len(input) <= MaxPreview {
		return string(input)
	}
	end := MaxPreview
	for end > 0 && !utf8.RuneStart(input[end]) {
		end--
	}
	return string(input[:end]) + "..."
}
