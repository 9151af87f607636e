package events

import (
	"encoding/json"
	"time"
)

// StepStatus of a plan step (PLAN-4).
type StepStatus string

// The step statuses.
const (
	StepIsPending   StepStatus = "pending"
	StepIsReady     StepStatus = "ready"
	StepIsRunning   StepStatus = "running"
	StepIsCompleted StepStatus = "completed"
	StepIsFailed    StepStatus = "failed"
	StepIsBlocked   StepStatus = "blocked"
	// StepIsSkipped is a step that is not carried out, because its condition is false or enough others are done. What
	// depends on it goes on.
	StepIsSkipped StepStatus = "skipped"
)

// PlanStep is one node of a plan as made (PLAN-2).
type PlanStep struct {
	ID           string   `json:"id"`
	Description  string   `json:"description"`
	Agent        string   `json:"agent"`
	Dependencies []string `json:"dependencies"`
	Critical     bool     `json:"critical"`
	// Kind of a step of the harness; empty for those of agents.
	Kind StepKind `json:"kind,omitempty"`
	// Git are the settings of the task for this step alone; what is not set is as for the run, and so are all steps
	// without it.
	Git *GitSettings `json:"git,omitempty"`
	// Child says that the step is carried out by a run of its own, and where that works: own or shared. Without it the
	// step is part of this run, whoever's it is.
	Child string `json:"child,omitempty"`
	// Accept are the checks of this step alone.
	Accept *Accept `json:"accept,omitempty"`
	// Flow is when and how often the step is carried out; nil for once, after those that it depends on.
	Flow *StepFlow `json:"flow,omitempty"`
}

// PlanMadeData fixes the plan.
type PlanMadeData struct {
	Event  string     `json:"event"`
	TaskID string     `json:"task_id"`
	Steps  []PlanStep `json:"steps"`
	// Origin is "task" (given), "single" (one step) or "model".
	Origin string `json:"origin"`
	// Agents pins the definitions of agents that the plan names and run.created did not.
	Agents map[string]Agent `json:"agents,omitempty"`
	// Usage of the model that made the plan.
	InputTokens  int `json:"input_tokens,omitempty"`
	OutputTokens int `json:"output_tokens,omitempty"`
	// ModelRef is the reference of the model that made it, Cost what that cost.
	ModelRef string   `json:"model_ref,omitempty"`
	Cost     MicroUSD `json:"cost_micro_usd,omitempty"`
	Lost     *Lost    `json:"lost,omitempty"`
	// Prices of the models of Agents, as in run.created.
	Prices map[string]Price `json:"prices,omitempty"`
	// Vars are the values that expressions of the plan know as vars.
	Vars map[string]json.RawMessage `json:"vars,omitempty"`
}

// PlanRevisedData replaces the steps of a plan that have not begun (PLAN-9).
type PlanRevisedData struct {
	Event string `json:"event"`
	// Steps are the new steps. In a run that works in git the last one is the step that delivers, after all others.
	Steps []PlanStep `json:"steps"`
	// Removed are the ids of the steps that had not begun, Kept those of the steps that stay, in the order of the plan.
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"`
	// By is who asked for it, Reason why.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Input is the position of the message that asked for it.
	Input uint64 `json:"input_seq,omitempty"`
	// Agents and Prices are pinned as in plan.made.
	Agents map[string]Agent `json:"agents,omitempty"`
	Prices map[string]Price `json:"prices,omitempty"`
}

// PlanCompletedData ends the plan.
type PlanCompletedData struct {
	Event string `json:"event"`
	Steps int    `json:"steps"`
}

// StepReadyData asks the gatekeeper to permit a step.
type StepReadyData struct {
	Event    string `json:"event"`
	Step     string `json:"step_id"`
	Agent    string `json:"agent"`
	Critical bool   `json:"critical"`
	// When is the condition of the step, which was found to hold; empty where it has none.
	When string `json:"when,omitempty"`
}

// StepAllowedData permits a step.
type StepAllowedData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	Agent string `json:"agent"`
	// Gate that was approved for it, if one stood there.
	Gate     string `json:"gate_id,omitempty"`
	Autonomy int    `json:"autonomy"`
}

// StepFinishedData is an explicit completion signal (PLAN-11).
type StepFinishedData struct {
	Event        string `json:"event"`
	Step         string `json:"step_id"`
	Output       string `json:"output"`
	FinishReason string `json:"finish_reason"`
	Turns        int    `json:"turns"`
	// Checkpoint is the number of the checkpoint that this event is, from 1; absent where the run keeps none.
	Checkpoint int `json:"checkpoint,omitempty"`
}

// StepCheckpoint is the name of the checkpoint that the end of a step is.
func StepCheckpoint(step string) string { return "step-" + step }

// StepFailedData is the named event step_failed.
type StepFailedData struct {
	Event        string `json:"event"`
	Step         string `json:"step_id"`
	Error        string `json:"error"`
	FinishReason string `json:"finish_reason"`
	Turns        int    `json:"turns"`
	// RunReason is the finish reason of the run where it fails because of this step alone; empty means step_failed.
	RunReason string `json:"run_finish_reason,omitempty"`
	Lost      *Lost  `json:"lost,omitempty"`
	// Hooks are the answers of the hooks that were asked before the turn.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Checkpoint is the number of the checkpoint that this event is, from 1; absent where the run keeps none.
	Checkpoint int `json:"checkpoint,omitempty"`
}

// TurnDeferredData is an error event: a model request that will be tried again.
type TurnDeferredData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	Turn  int    `json:"step_number"`
	Error string `json:"error"`
	Class string `json:"class"`
	// Attempt that failed, from 1.
	Attempt   int       `json:"attempt"`
	DelayMS   int64     `json:"delay_ms"`
	NotBefore time.Time `json:"not_before"`
	// Window is what the context window of the model is taken for from now on in the run, in tokens, where Class is
	// ClassTooLong; 0 says nothing of it.
	Window int   `json:"context_window,omitempty"`
	Lost   *Lost `json:"lost,omitempty"`
	// Hooks are the answers of the hooks that were asked before the turn.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	Outage
}

// Outage is what a deferred model request waits for, where that is a provider of models. Events of older programs have
// none of it.
type Outage struct {
	// Provider that did not answer, such as "anthropic"; HTTPStatus of its refusal, 0 where there was none.
	Provider   string `json:"provider,omitempty"`
	HTTPStatus int    `json:"http_status,omitempty"`
	// Pause is true where the request is not made again before the run was paused and a person resumed it.
	Pause bool `json:"pause,omitempty"`
}

// ClassInterrupted is the class of a turn that a hook holds back until a person resumes the run. Attempt is then that
// of the last request, 0 where there was none.
const ClassInterrupted = "interrupted"

// ClassTooLong is the class of a turn whose prompt did not fit the model's context window.
const ClassTooLong = "too_long"

// CutOff is the input, as a JSON string, of a call in which an answer was cut off before its arguments. No tool takes a
// text for them, so the call is refused.
const CutOff = "the answer was cut off before the arguments of this call"

// RequestedCall is a tool call as the model asked for it.
type RequestedCall struct {
	// ID is unique in the run: "c{turn}-{n}".
	ID string `json:"id"`
	// ProviderID is the provider's id, which its next request must repeat.
	ProviderID string `json:"provider_id"`
	Tool       string `json:"tool_name"`
	// Input is set unless it is larger than MaxInlineInput; then InputRef is.
	Input    json.RawMessage `json:"input,omitempty"`
	InputRef *Ref            `json:"input_ref,omitempty"`
}

// Inline limits: what is larger goes to the object store.
const (
	// MaxInlineInput is the largest tool input kept inside an event, in bytes.
	MaxInlineInput = 48 << 10
	// MaxInlineRaw is the largest provider message kept inside an event, in bytes.
	MaxInlineRaw = 48 << 10
	// MaxInlineText is the largest text kept inside an event, in bytes.
	MaxInlineText = 32 << 10
	// MaxInlineOutput is the largest tool output kept inside an event, in bytes.
	MaxInlineOutput = 32 << 10
	// MaxPreview is how much of an input a monitoring event shows, in bytes.
	MaxPreview = 2 << 10
	// MaxCallsPerTurn bounds the calls of one answer; further ones are refused by the executor.
	MaxCallsPerTurn = 64
)

// TurnFinishedData is the monitoring event step_complete.
type TurnFinishedData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	// Turn counts the turns of the run from 1.
	Turn    int             `json:"step_number"`
	Text    string          `json:"text,omitempty"`
	TextRef *Ref            `json:"text_ref,omitempty"`
	Calls   []RequestedCall `json:"calls,omitempty"`
	// CallsKey is the same for turns that ask for the same calls, in any order.
	CallsKey     string `json:"calls_key,omitempty"`
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
	FinishReason string `json:"finish_reason"`
	// OutputFault says why a last answer is not one that the agent's output asks for, "" where it is.
	OutputFault string `json:"output_fault,omitempty"`
	Attempt     int    `json:"attempt"`
	DurationMS  int64  `json:"duration_ms"`
	Model       string `json:"model"`
	Provider    string `json:"provider"`
	// Raw is the provider's own form of the message, kept unchanged; RawRef where it is large.
	Raw    json.RawMessage `json:"raw,omitempty"`
	RawRef *Ref            `json:"raw_ref,omitempty"`
	// Hooks are the answers of the hooks that were asked before the turn.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Interrupted is true where a person ended the answer: Text is what the model had said until then, and the step is
	// owed another turn. Such a turn asks for no calls. Estimated is true where the provider had counted no tokens: the
	// numbers above are estimates.
	Interrupted bool `json:"interrupted,omitempty"`
	Estimated   bool `json:"usage_estimated,omitempty"`
}

// Action of a gate event (OBS-20).
const (
	GateWaiting     = "waiting"
	GateWasApproved = "approved"
	GateWasRejected = "rejected"
	GateHasVote     = "voted"
	GateRanOut      = "expired"
	// How far it is proven who answered: a signature that was verified, a subject that permissions bind, the word of the
	// gateway, which knows the token that was used and no person, or a claim.
	AssuranceSignature = "signature"
	AssuranceSubject   = "subject"
	AssuranceGateway   = "asserted_by_gateway"
	AssuranceNone      = "none"
)

// Gateway is the name of the NATS user of the gateway, and the last token of the subject that it answers gates on: no
// person may have it.
const Gateway = "gateway"

// GateOpenedData is the named event waiting_for_human.
type GateOpenedData struct {
	Event string `json:"event"`
	Gate  string `json:"gate_id"`
	// Scope is "step", "call", or "check" where a person decides whether a step is done; Call is the place of the check
	// then.
	Scope       string `json:"scope"`
	Step        string `json:"step_id"`
	Call        string `json:"call_id,omitempty"`
	Action      string `json:"action"`
	Description string `json:"description"`
	Reason      string `json:"reason"`
	Rule        string `json:"rule,omitempty"`
	// Proposal is the exact action, ProposalHash the hex SHA-256 of its bytes; an answer may name the hash it saw.
	Proposal     json.RawMessage `json:"proposal"`
	ProposalHash string          `json:"proposal_hash"`
	// AnswerSubject is where to answer: {"decision":"approve"} or {"decision":"reject","reason":"..."}.
	AnswerSubject string `json:"answer_subject"`
	// Progress of the plan when the gate was opened, for the person who decides.
	StepsCompleted int `json:"steps_completed"`
	StepsTotal     int `json:"steps_total"`
	// Hooks are the answers of the hooks that were asked about the call.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Approvers that must say yes, where it is more than one.
	Approvers int `json:"approvers,omitempty"`
	// ExpiresAt is when the gate stops waiting, and OnExpiry what follows then; neither stands where it waits for ever.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	OnExpiry  string    `json:"on_expiry,omitempty"`
	GateReminders
	// Always is what an approval can allow once and for all; nil where the gate can only be answered for this call.
	Always *Allowance `json:"always,omitempty"`
}

// GateAnswer is what a gate was answered with.
type GateAnswer struct {
	Event        string `json:"event"`
	Gate         string `json:"gate_id"`
	Step         string `json:"step_id"`
	Call         string `json:"call_id,omitempty"`
	Action       string `json:"action"`
	By           string `json:"by"`
	Assurance    string `json:"assurance"`
	Reason       string `json:"reason,omitempty"`
	ProposalHash string `json:"proposal_hash"`
	WaitMS       int64  `json:"wait_ms"`
	// Input is the position of the answer in the input stream: a second look at it is not a second answer.
	Input uint64 `json:"input_seq,omitempty"`
	// Key and Signature of a signed answer, so that it can be verified from the event alone.
	Key       string `json:"key,omitempty"`
	Signature string `json:"signature,omitempty"`
	// EditedInput are the arguments that were approved instead of those proposed, and EditedHash the hash of that
	// action, see EditedHash; empty where the proposal was taken as it is.
	EditedInput json.RawMessage `json:"edited_input,omitempty"`
	EditedHash  string          `json:"edited_hash,omitempty"`
	// Votes that the gate has with this one, of Approvers that it needs, where it needs more than one.
	Votes     int `json:"votes,omitempty"`
	Approvers int `json:"approvers,omitempty"`
	// Hooks are the answers of the hooks that were asked about the edited call.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Grant is what the approval allows for later calls, too.
	Grant *Grant `json:"grant,omitempty"`
	// Deputy gave the answer in the place of By, who is away; nil where By gave it.
	Deputy *DeputyAnswer `json:"deputy,omitempty"`
}

// Givers are who an answer is of: whom it counts for, and who gave it in their place.
func (a *GateAnswer) Givers() []string {
	if a.Deputy == nil {
		return []string{a.By}
	}
	return []string{a.By, a.Deputy.By}
}

// GateApprovedData says yes.
type GateApprovedData struct{ GateAnswer }

// GateRejectedData says no.
type GateRejectedData struct{ GateAnswer }

func (*PlanMadeData) Kind() Kind      { return PlanMade }
func (*PlanRevisedData) Kind() Kind   { return PlanRevised }
func (*PlanCompletedData) Kind() Kind { return PlanCompleted }
func (*StepReadyData) Kind() Kind     { return StepReady }
func (*StepAllowedData) Kind() Kind   { return StepAllowed }
func (*StepFinishedData) Kind() Kind  { return StepFinished }
func (*StepFailedData) Kind() Kind    { return StepFailed }
func (*TurnDeferredData) Kind() Kind  { return TurnDeferred }
func (*TurnFinishedData) Kind() Kind  { return TurnFinished }
func (*GateOpenedData) Kind() Kind    { return GateOpened }
func (*GateApprovedData) Kind() Kind  { return GateApproved }
func (*GateRejectedData) Kind() Kind  { return GateRejected }
