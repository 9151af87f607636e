package events

import (
	"encoding/json"
	"time"
)

// Status of a run (LIFE-2).
type Status string

// The five statuses.
const (
	Created   Status = "created"
	Running   Status = "running"
	Paused    Status = "paused"
	Completed Status = "completed"
	Failed    Status = "failed"
)

// Ended reports whether nothing more may happen.
func (s Status) Ended() bool { return s == Completed || s == Failed }

// Options of a run, complete: defaults are applied when the run is created (LIFE-11).
type Options struct {
	// Autonomy 1 to 5; default 3.
	Autonomy int `json:"autonomy"`
	// MaxToolCalls is the budget of executed tool calls; default 100.
	MaxToolCalls int `json:"max_tool_calls"`
	// MaxSteps is the most model turns of one plan step; default 50.
	MaxSteps int `json:"max_steps"`
	// TimeoutMS bounds the run's life from its start, in milliseconds; default 30 minutes, 0 means none.
	TimeoutMS int64 `json:"timeout_ms"`
	// MaxTokens is the budget of tokens of all model requests, in and out; 0 means none. MaxCost is that of money.
	MaxTokens int64    `json:"max_tokens,omitempty"`
	MaxCost   MicroUSD `json:"max_cost_micro_usd,omitempty"`
	// CheckpointIntervalMS is the longest time between checkpoints while something happens; default 5 minutes.
	CheckpointIntervalMS int64 `json:"checkpoint_interval_ms"`
	// Mode is empty for a normal run.
	Mode RunMode `json:"mode,omitempty"`
	// MaxSubAgentDepth bounds nesting; default 3.
	MaxSubAgentDepth int `json:"max_sub_agent_depth"`
	// EternalEngine keeps snapshots of the run in the station's store; default true.
	EternalEngine bool `json:"eternal_engine_enabled"`
	// Funds are what the run may spend of the budgets of its project, its user and its station; nil where none is set.
	Funds *Funds `json:"funds,omitempty"`
}

// DefaultOptions are in force where neither the task nor the agent says otherwise.
func DefaultOptions() Options {
	return Options{
		Autonomy: 3, MaxToolCalls: 100, MaxSteps: 50, TimeoutMS: (30 * time.Minute).Milliseconds(),
		CheckpointIntervalMS: (5 * time.Minute).Milliseconds(), MaxSubAgentDepth: 3, EternalEngine: true,
	}
}

// Agent is an agent definition as pinned in a run: all that decisions about it need.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Digest is the SHA-256 (hex) of the file it was loaded from.
	Digest string `json:"digest"`
	// Model is "provider/name".
	Model           string   `json:"model"`
	Temperature     *float64 `json:"temperature,omitempty"`
	MaxOutputTokens int      `json:"max_output_tokens,omitempty"`
	// Prompt is the body of the file, a Handlebars template.
	Prompt string `json:"prompt,omitempty"`
	// Tools the agent may see and call.
	Tools []string `json:"tools,omitempty"`
	// Delegates are the agents that this one may give work to, with the tool delegate.
	Delegates []string `json:"delegates,omitempty"`
	// MCP are the servers of other tools, which stand in Tools by the names that models call them by.
	MCP []MCPServer `json:"mcp,omitempty"`
	// Served are those of Tools that programs of others serve over NATS, as they were pinned.
	Served []ServedTool `json:"served,omitempty"`
	// Runtime is the program that carries out the steps; nil for a model. Plan is "" (one step) or "model" (it makes it).
	Runtime *Runtime `json:"runtime,omitempty"`
	Plan    string   `json:"plan,omitempty"`
	// Options that the agent file sets; zero means not set.
	Autonomy     int      `json:"autonomy,omitempty"`
	MaxSteps     int      `json:"max_steps,omitempty"`
	MaxToolCalls int      `json:"max_tool_calls,omitempty"`
	TimeoutMS    int64    `json:"timeout_ms,omitempty"`
	MaxTokens    int64    `json:"max_tokens,omitempty"`
	MaxCost      MicroUSD `json:"max_cost_micro_usd,omitempty"`
	// OutputSchema is the JSON Schema that the last answer of a step must fit, as one JSON document; empty means any
	// text.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// DoomLoop is what counts as going round in circles; zero values mean the defaults of the harness.
	DoomLoop DoomLoop `json:"doom_loop,omitzero"`
	// Memory is text that the agent always has in mind, and Skills are what it can read up when it needs them; both
	// were read beside the agent's file and are pinned with it.
	Memory []Document `json:"memory,omitempty"`
	Skills []Skill    `json:"skills,omitempty"`
	// NoWorkspaceMemory is true where AGENTS.md files of the workspace are not shown with results from their
	// directories.
	NoWorkspaceMemory bool `json:"no_workspace_memory,omitempty"`
	// NoImages is true where the model takes no images: it is told of them in words.
	NoImages bool `json:"no_images,omitempty"`
	// ContextWindow of the model in tokens, fixed when the agent was pinned; 0 means that no one knows one, as before
	// there was one, or that the model has none.
	ContextWindow int `json:"context_window,omitempty"`
	// Compaction of the history of its steps; nil means the defaults.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Retry of transient tool failures; zero values mean 3 retries from 1000 ms.
	Retry Retry `json:"retry,omitzero"`
	// Guards are the agent's own rules, applied after the built-in ones.
	Guards []Rule `json:"guards,omitempty"`
	// Hooks are asked after those of the station.
	Hooks []Hook `json:"hooks,omitempty"`
	// Gates say how the gates of the agent's steps and calls are answered.
	Gates GateTerms `json:"gates,omitzero"`
	// Sandbox the agent's tools run in; empty means the station's default.
	Sandbox Sandbox `json:"sandbox,omitzero"`
	// Harness is HarnessOn or HarnessOff where the agent's file or the defaults of its station say so.
	Harness string `json:"harness,omitempty"`
	// Artifacts says what of the workspace is kept as artifacts; nil means the station's defaults.
	Artifacts *ArtifactRules `json:"artifacts,omitempty"`
	// Accept decides that a step of the agent is done; nil leaves that to the agent.
	Accept *Accept `json:"accept,omitempty"`
	// Project and Role are where the agent belongs; empty for one that belongs nowhere.
	Project string `json:"project,omitempty"`
	Role    string `json:"role,omitempty"`
	// Git says how runs of the agent work in git; nil leaves it to the task. With GitDefaults only the station says so:
	// it holds for runs that work in git anyway.
	Git         *GitSettings `json:"git,omitempty"`
	GitDefaults bool         `json:"git_defaults,omitempty"`
	// Subscribe has messages start runs of the agent. Only a registered agent has it: a run pins none of it.
	Subscribe []Subscription `json:"subscribe,omitempty"`
	// Roles are those whose agents run this definition. They are part of what is registered, and of no run.
	Roles []AgentRole `json:"roles,omitempty"`
}

// Retry says how often and how fast a transient failure is tried again.
type Retry struct {
	// MaxRetries after the first attempt; nil means 3.
	MaxRetries *int `json:"max_retries,omitempty"`
	// BaseBackoffMS before the first retry, in milliseconds; each later one is twice the one before; 0 means 1000.
	BaseBackoffMS int64 `json:"base_backoff_ms,omitempty"`
}

// Sandbox names the backend, what it must allow and what it must enforce. What it cannot enforce is an error of the
// call.
type Sandbox struct {
	Mode    string `json:"mode,omitempty"`
	Network bool   `json:"network,omitempty"`
	// AllowedHosts are all that may be reached where Network is false; the form of an entry is that of an agent file.
	AllowedHosts []string `json:"allowed_hosts,omitempty"`
	// Backend is what mode auto means; empty leaves it to the station.
	Backend string `json:"isolation_backend,omitempty"`
	// MinIsolation is the weakest mode that the agent's tools may run in.
	MinIsolation string `json:"min_isolation,omitempty"`
	// CPU in processors, MemoryBytes, DiskBytes and PIDs bound what a call's commands use together; 0 sets no limit.
	CPU         float64 `json:"cpu,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	DiskBytes   int64   `json:"disk_bytes,omitempty"`
	PIDs        int     `json:"pids,omitempty"`
	// TimeoutMS bounds the life of a sandbox, in milliseconds; 0 sets no limit.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// ReadOnly, ReadWrite and Denied are paths, relative to the workspace or absolute on the toolrunner's machine.
	ReadOnly  []string `json:"read_only,omitempty"`
	ReadWrite []string `json:"read_write,omitempty"`
	Denied    []string `json:"denied,omitempty"`
	// Image is what a mode that has images takes the system's files from; empty leaves it to the station.
	Image string `json:"image,omitempty"`
	// Requires lists the commands that must be there, each with the version that it must have where that matters:
	// go>=1.22, git.
	Requires []string `json:"requires,omitempty"`
}

// Rule is one guard rule.
type Rule struct {
	// ID is the merge key.
	ID string `json:"id"`
	// Tool is a glob over tool names; empty means "*".
	Tool string `json:"tool,omitempty"`
	// Match conditions, all given must hold. None given: every call of the tool matches.
	Match Match `json:"match,omitzero"`
	// Except takes a match back where its conditions, all given, hold.
	Except *Match `json:"except,omitempty"`
	// Action is allow, deny or ask.
	Action string `json:"action"`
	Reason string `json:"reason,omitempty"`
	// Locked rules cannot be replaced or removed by a later layer.
	Locked bool `json:"locked,omitempty"`
	// Remove takes the rule of this ID out of the layers below.
	Remove bool `json:"remove,omitempty"`
	// Gate says how the gate of a rule that asks is answered.
	Gate GateTerms `json:"gate,omitzero"`
}

// Match holds the conditions of a rule.
type Match struct {
	// Argv patterns for one simple command of a shell text: "*" is one word (globs allowed), "**" any number.
	Argv []string `json:"argv,omitempty"`
	// FlagsAny holds if one of these flags is present; clustered short flags are taken apart.
	FlagsAny []string `json:"flags_any,omitempty"`
	// FlagsAll holds if every one is present; alternatives are written "-r|-R|--recursive".
	FlagsAll []string `json:"flags_all,omitempty"`
	// RefspecForce holds for a "+ref" argument.
	RefspecForce bool `json:"refspec_force,omitempty"`
	// Glob over the whole text of a simple command.
	Glob string `json:"glob,omitempty"`
	// PathOutside is "workspace": an argument of the tool that is a path leaves it.
	PathOutside string `json:"path_outside,omitempty"`
	// Path is a glob over an argument of the tool that is a path, as it was given and in its shortest form.
	Path string `json:"path,omitempty"`
}

// RunCreatedData pins everything a run is made of.
type RunCreatedData struct {
	Event      string `json:"event"`
	TaskID     string `json:"task_id"`
	TaskDigest string `json:"task_digest"`
	TaskSource string `json:"task_source,omitempty"`
	Task       string `json:"task"`
	Agent      string `json:"agent"`
	// Agents holds the definitions of all agents the run uses, by name; Agent is among them.
	Agents  map[string]Agent `json:"agents"`
	Options Options          `json:"options"`
	// Prices in force for the run, by model reference; a model without one is not known to cost anything.
	Prices    map[string]Price  `json:"prices,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Workspace is the run's directory below the workspace root, for example "session/demo" (WS-1).
	Workspace    string `json:"workspace"`
	Session      string `json:"session_id,omitempty"`
	WorkflowRun  string `json:"workflow_run_id,omitempty"`
	Parent       string `json:"parent_run_id,omitempty"`
	Orchestrator string `json:"orchestrator_run_id,omitempty"`
	WorkID       string `json:"work_id,omitempty"`
	// Earlier are the runs of the same workflow that had ended and kept files when this one was created, the one that
	// ended last at the end: their files are brought into the workspace. At most MaxEarlier.
	Earlier []string `json:"earlier_runs,omitempty"`
	// SessionFence is the fence of the run's lock on its session, SessionPrompt what the session adds to the system
	// prompt.
	SessionFence  uint64 `json:"session_fence,omitempty"`
	SessionPrompt string `json:"session_prompt,omitempty"`
	// History is the conversation that the run begins with: a Part by content (LOOP-11).
	History *Ref `json:"history,omitempty"`
	// HistoryTokens estimates what is told of it, where the run has a budget of tokens or money.
	HistoryTokens int `json:"history_tokens,omitempty"`
	// By claims who asked for the run. Project is the last token of the task's subject, which permissions bind to a user.
	By      string `json:"by,omitempty"`
	Project string `json:"project,omitempty"`
	// ChildOf is where a child comes from; nil for all other runs.
	ChildOf *Lineage `json:"child_of,omitempty"`
	// Review is what a run reviews that was made for a check; nil for all other runs.
	Review *ReviewOf `json:"review,omitempty"`
	// What began the run: the firing of a schedule, a binding of a work item, mail, or an attempt of a merge queue.
	Firing  *FiringRef  `json:"firing,omitempty"`
	Work    *WorkRef    `json:"work,omitempty"`
	Address *AddressRef `json:"address,omitempty"`
	Landing *LandingRef `json:"landing,omitempty"`
	ForkOf  *ForkOrigin `json:"fork_of,omitempty"`
	// PlanOrigin is where the plan will come from, in the words of plan.made; empty in events from before it was said.
	PlanOrigin string `json:"plan_origin,omitempty"`
	// Formula is what the plan was made from, where whoever sent the task said so; it is a claim.
	Formula *Formula `json:"formula,omitempty"`
	// Handoff and Mail came with the task; Context is what the operator tells all agents when the run is created.
	Handoff string   `json:"handoff,omitempty"`
	Mail    []Letter `json:"mail,omitempty"`
	Context string   `json:"operator_context,omitempty"`
	// Repo, Ref, Stream and Attended are as in the task.
	Repo     string `json:"repo,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Stream   bool   `json:"stream,omitempty"`
	Attended bool   `json:"attended,omitempty"`
	// Git is how the run works in git; nil where it does not.
	Git *GitWork `json:"git,omitempty"`
	// Accept decides that the last steps of the run are done, those that no other step depends on.
	Accept *Accept `json:"accept,omitempty"`
	// Durability is the server's fsync mode and version when the run was created (SAFE-1).
	Durability string `json:"durability,omitempty"`
	// TraceParent is the W3C trace context that came with the task. All events of the run carry it.
	TraceParent string `json:"traceparent,omitempty"`
	To          Status `json:"to"`
	// Direct says that the run takes the direct path: with this event it has started, its plan is OnlyStep, and that
	// step is allowed. Event is then RunStart, To is Running, and the three after it are those of the monitoring event.
	Direct    bool   `json:"direct,omitempty"`
	AgentID   string `json:"agent_id,omitempty"`
	AgentName string `json:"agent_name,omitempty"`
	MaxSteps  int    `json:"max_steps,omitempty"`
	// Hooks are the answers of the hooks that were asked before a direct run began; none of them held it back.
	Hooks []HookAnswer `json:"hooks,omitempty"`
}

// RunStartedData is the monitoring event run_start.
type RunStartedData struct {
	Event     string `json:"event"`
	AgentID   string `json:"agent_id"`
	AgentName string `json:"agent_name"`
	Task      string `json:"task"`
	MaxSteps  int    `json:"max_steps"`
	From      Status `json:"from"`
	To        Status `json:"to"`
	// Hooks are the answers of the hooks that were asked before the run began.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Cancelled says why the run is started only to be ended: the next event ends it, whoever writes that.
	Cancelled string `json:"cancelled,omitempty"`
}

// RunPausedData says why a run stands still.
type RunPausedData struct {
	Event  string `json:"event"`
	From   Status `json:"from"`
	To     Status `json:"to"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Gate   string `json:"gate_id,omitempty"`
	// Input is the position of the message that asked for it, 0 where none did.
	Input uint64 `json:"input_seq,omitempty"`
	// Hooks are the answers of the hooks that were asked before the end of the run.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// ClockStopped is true where the pause does not count towards the deadline of the run. In events of older programs
	// it does.
	ClockStopped bool `json:"clock_stopped,omitempty"`
	// Parent is true where the run is paused because its parent is; it is resumed with that.
	Parent bool `json:"parent,omitempty"`
	// Interrupt is true where answers that models were giving are ended, and what they said so far is kept.
	Interrupt bool `json:"interrupt,omitempty"`
	// Funds are what the run may spend from now on, where it waits for a budget: it returns what it does not need now.
	Funds *Funds `json:"funds,omitempty"`
}

// RunResumedData ends a pause.
type RunResumedData struct {
	Event string `json:"event"`
	From  Status `json:"from"`
	To    Status `json:"to"`
	By    string `json:"by,omitempty"`
	// Input is the position of the message that asked for it, 0 where none did.
	Input uint64 `json:"input_seq,omitempty"`
	// Funds are what the run may spend from now on, where it waited for that.
	Funds *Funds `json:"funds,omitempty"`
}

// RunAdjustedData changes the autonomy level for steps not yet started (GATE-10).
type RunAdjustedData struct {
	Event        string `json:"event"`
	Autonomy     int    `json:"autonomy"`
	FromAutonomy int    `json:"from_autonomy"`
	By           string `json:"by,omitempty"`
	// Input is the position of the message that asked for it, 0 where none did.
	Input uint64 `json:"input_seq,omitempty"`
}

// RunMovedData begins the life of a run at a place where its events were copied to: another station (import), or the
// same one after its log was lost (restore). It is the only event whose station may differ from that of the one before.
type RunMovedData struct {
	Event string `json:"event"`
	// FromStation is where the events before were said.
	FromStation string `json:"from_station"`
	// Covered is the sequence of the last event that was copied; the prevhash of this event is its hash.
	Covered uint64 `json:"covered_sequence"`
	// Fork says that the run may go on where it came from, too.
	Fork bool `json:"fork,omitempty"`
	// SameKey says that idempotency keys are what they were. Without it an idempotent call that had started is not
	// begun again: its outcome is unknown.
	SameKey bool   `json:"same_key,omitempty"`
	By      string `json:"by,omitempty"`
}

// Finish reasons of a run or step (LOOP-4).
const (
	FinishDone     = "agent_done"
	FinishToolUse  = "tool_use"
	FinishMaxSteps = "max_steps"
	FinishTimeout  = "timeout"
	FinishDoomLoop = "doom_loop"
	FinishOutput   = "output_invalid"
	// FinishUnverified: the step was claimed to be done as often as it may be, and its checks did not pass.
	FinishUnverified = "unverified"
	FinishEmpty      = "empty_answer"
	FinishTokens     = "budget_tokens"
	FinishCost       = "budget_usd"
	FinishStopped    = "stopped"
	FinishCancelled  = "cancelled_before_start"
	FinishError      = "error"
	FinishLength     = "length"
	FinishRefusal    = "refusal"
	FinishStep       = "step_failed"
	FinishHook       = "hook_blocked"
	FinishExpired    = "gate_expired"
	// FinishContext: what the model must be shown does not fit its context window, also with all of the history
	// compacted.
	FinishContext = "context_window"
	// FinishCheckout: the working tree could not be made ready; FinishDelivery: the work is done, and could not be
	// delivered.
	FinishCheckout = "checkout_failed"
	FinishDelivery = "delivery_failed"
	// FinishInterrupted: a person interrupted the answer of a turn; its step goes on when the run is resumed.
	FinishInterrupted = "interrupted"
	// FinishCondition: an expression of the step cannot be evaluated; FinishParts: too few of its parts were completed.
	FinishCondition = "condition_error"
	FinishParts     = "parts_failed"
)

// Words of DoomLoop.Action, from the mildest: a word in the conversation and no more; a word that asks for a summary,
// then the end of the step; a word, then a person, then the end (the default); a word, then the end.
const (
	DoomWarn      = "warn"
	DoomSummarize = "summarize"
	DoomPause     = "pause"
	DoomFail      = "fail"
)

// DoomLoop says what counts as going round in circles, and how far it is answered (LOOP-5).
type DoomLoop struct {
	// Threshold is how often the same calls, the same alternation of calls or the same error come in a row; at least 2.
	Threshold int `json:"threshold,omitempty"`
	// Cycle is the most turns that may alternate and still count.
	Cycle  int    `json:"cycle,omitempty"`
	Action string `json:"action,omitempty"`
}

// Result of a run, the one task-output format (LIFE-12, LOOP-13).
type Result struct {
	Event        string `json:"event"`
	From         Status `json:"from"`
	Status       Status `json:"status"`
	Success      bool   `json:"success"`
	Output       string `json:"output"`
	FinishReason string `json:"finish_reason"`
	Error        string `json:"error,omitempty"`
	// StepsCompleted of StepsTotal plan steps.
	StepsCompleted int `json:"steps_completed"`
	StepsTotal     int `json:"steps_total"`
	// TotalSteps counts model turns; the name is that of the monitoring event.
	TotalSteps    int      `json:"total_steps"`
	ToolCallCount int      `json:"tool_call_count"`
	TotalTokens   int      `json:"total_tokens"`
	InputTokens   int      `json:"input_tokens"`
	OutputTokens  int      `json:"output_tokens"`
	Cost          MicroUSD `json:"cost_micro_usd,omitempty"`
	DurationMS    int64    `json:"duration_ms"`
	FailedSteps   []string `json:"failed_steps,omitempty"`
	BlockedSteps  []string `json:"blocked_steps,omitempty"`
	By            string   `json:"by,omitempty"`
	// Input is the position of the message that stopped it, 0 where none did.
	Input uint64 `json:"input_seq,omitempty"`
	// Hooks are the answers of the hooks that were asked before the end of the run.
	Hooks []HookAnswer `json:"hooks,omitempty"`
	// Delivery is what became of the work in git; nil where the run does not work in git.
	Delivery *Delivery `json:"delivery,omitempty"`
	// Verified are the checks that vouch for the steps of a completed run; a run without them is not verified.
	Verified []Verified `json:"verified,omitempty"`
	// Passed are checks that passed in a completed run which they do not verify: they only judge what the agent says of
	// itself, or not what is delivered.
	Passed []Verified `json:"passed,omitempty"`
	// Below is what the children of the run spent, which the counts above leave out; nil where it had none.
	Below *Use `json:"below,omitempty"`
}

// RunCompletedData is the monitoring event run_complete with success.
type RunCompletedData struct{ Result }

// RunFailedData is the monitoring event run_complete without success.
type RunFailedData struct{ Result }

// CheckpointSavedData says that a checkpoint was stored as a snapshot as well, so that loading the run is quick.
type CheckpointSavedData struct {
	Event  string `json:"event"`
	Name   string `json:"name"`
	Number int    `json:"checkpoint"`
	// Covered is the sequence of the last event in the stored state.
	Covered uint64 `json:"covered_sequence"`
	// Key in the state bucket.
	Key string `json:"key"`
}

// CheckpointFallbackData warns that the station's log cannot be reached, and that a local store keeps what is said.
type CheckpointFallbackData struct {
	Event string `json:"event"`
	// Store that keeps the events: "local", or what an earlier version called it.
	Store string `json:"store"`
	// Since is the sequence of the first event that it keeps.
	Since uint64 `json:"since_sequence"`
	// Reason is what the primary store, or whoever asked it, said last.
	Reason string `json:"reason"`
}

func (*RunCreatedData) Kind() Kind      { return RunCreated }
func (*RunStartedData) Kind() Kind      { return RunStarted }
func (*RunPausedData) Kind() Kind       { return RunPaused }
func (*RunResumedData) Kind() Kind      { return RunResumed }
func (*RunAdjustedData) Kind() Kind     { return RunAdjusted }
func (*RunMovedData) Kind() Kind        { return RunMoved }
func (*RunCompletedData) Kind() Kind    { return RunCompleted }
func (*RunFailedData) Kind() Kind       { return RunFailed }
func (*CheckpointSavedData) Kind() Kind { return CheckpointSaved }

func (*CheckpointFallbackData) Kind() Kind { return CheckpointFallback }

func (*RunStartedData) line() string { return "run started" }
