package run

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// SchemaVersion of State today (EVT-2).
const SchemaVersion = 1

// State is all that is known of a run. Its JSON names are those of the state snapshot (EVT-2), with ours beside them.
// Slices and maps reachable from a State are shared with the states it was made from: read them, never write.
type State struct {
	SchemaVersion int           `json:"schemaVersion"`
	HarnessID     string        `json:"harnessId"`
	AgentName     string        `json:"agentName"`
	TaskID        string        `json:"taskId"`
	Status        events.Status `json:"status"`
	CreatedAt     time.Time     `json:"createdAt"`
	UpdatedAt     time.Time     `json:"updatedAt"`
	Plan          *Plan         `json:"plan"`
	// Planning is the request for the plan that a model makes; nil where none was made, and once there is a plan.
	Planning *Planning `json:"planning,omitempty"`
	// CurrentStepIndex is the first step that is not completed; len(steps) when all are.
	CurrentStepIndex int `json:"currentStepIndex"`
	// ToolCallHistory holds the ended calls, also refused ones, in the order they ended.
	ToolCallHistory List[CallRecord] `json:"toolCallHistory"`
	// TotalToolCalls counts executed calls: refused ones and those of the harness do not count, and retries count once.
	TotalToolCalls  int               `json:"totalToolCalls"`
	SubAgentIDs     []string          `json:"subAgentIds"`
	SubAgentResults map[string]string `json:"subAgentResults"`
	// Children are the runs that steps were given to, in their order, with those that were refused.
	Children []*Child `json:"children,omitempty"`
	// Stopping is how the run will end once its children have; nil where it is not going to.
	Stopping          *Stopping  `json:"stopping,omitempty"`
	AgentLoopSnapshot *Loop      `json:"agentLoopSnapshot"`
	LastCheckpointAt  *time.Time `json:"lastCheckpointAt"`
	// CheckpointCovers is the sequence up to which the last snapshot that was saved as a checkpoint holds the run.
	CheckpointCovers uint64 `json:"checkpointCovers,omitempty"`
	// CheckpointSaves counts the snapshots since the last checkpoint, in a run that takes checkpoints by the clock.
	CheckpointSaves uint64 `json:"checkpointSaves,omitempty"`
	// Checkpoints in the order they came; CheckpointCount is the number of the last one.
	Checkpoints     List[Checkpoint]       `json:"checkpoints,omitzero"`
	CheckpointCount int                    `json:"checkpointCount"`
	Identity        events.Identity        `json:"identity"`
	Created         *events.RunCreatedData `json:"created,omitempty"`
	// Agents pinned by the run, by name.
	Agents  map[string]events.Agent `json:"agents,omitempty"`
	Options events.Options          `json:"options"`
	// Sequence and Hash of the last event; the next one must carry Sequence+1 and Hash.
	Sequence uint64 `json:"sequence"`
	Hash     string `json:"hash"`
	// Windows are the context windows, in tokens, of models that took less than their agents' files say, by reference
	// of the model.
	Windows map[string]int `json:"windows,omitempty"`
	// Open calls by id: requested and not yet ended.
	Open map[string]*Call `json:"openCalls,omitempty"`
	// HarnessTurns counts the turns that the harness took itself, in steps of its own.
	HarnessTurns int `json:"harnessTurns,omitempty"`
	// CallsHeld counts the calls allowed and not yet ended: their place in the budget is held. Calls of the harness
	// have none.
	CallsHeld int `json:"callsHeld"`
	// Gates in the order they were opened.
	Gates  []*Gate `json:"gates,omitempty"`
	Tokens Tokens  `json:"tokens"`
	// Cost so far by the run's Prices; Lost is what was set aside for requests of which no one knows what they used.
	Cost   events.MicroUSD         `json:"costMicroUsd,omitempty"`
	Lost   events.Lost             `json:"lost,omitzero"`
	Prices map[string]events.Price `json:"prices,omitempty"`
	// Spent is the use of each model by each agent, in the order they came first.
	Spent []Spend `json:"spent,omitempty"`
	// StartedAt and EndedAt are nil until then.
	StartedAt *time.Time `json:"startedAt,omitempty"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
	// Clock is what does not count towards the deadline.
	Clock Clock `json:"clock,omitzero"`
	// PausedSince is the sequence of the last run.paused, ResumedAt that of the last run.resumed.
	PauseReason string `json:"pauseReason,omitempty"`
	ResumedAt   uint64 `json:"resumedAtSequence,omitempty"`
	// PausedByParent is true where the run is paused because its parent is.
	PausedByParent bool           `json:"pausedByParent,omitempty"`
	Result         *events.Result `json:"result,omitempty"`
	// Inputs are the positions of the last messages from outside that became events, at most MaxInputs.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Unknown lists "tool:input hash" of the calls whose outcome no one knows.
	Unknown  []string `json:"unknownOutcomes,omitempty"`
	PlanDone bool     `json:"planCompleted,omitempty"`
	// Cancelled says why the run was started only to be ended; empty for all others.
	Cancelled string `json:"cancelled,omitempty"`
	// Held is what a hook stopped the run for while the run has not followed yet; nil where nothing is open.
	Held *Held `json:"held,omitempty"`
	// Message are messages to the agents that no model and no tool gave, in their order.
	Messages []Message `json:"said,omitempty"`
	// Artifacts that the run made, in their order, at most MaxArtifacts.
	Artifacts List[events.Artifact] `json:"artifacts,omitzero"`
	// ForkStart is what is there of the state that a forked run begins with, while parts are missing. Forked is true
	// once it was whole.
	ForkStart string `json:"forkStart,omitempty"`
	Forked    bool   `json:"forked,omitempty"`
	// StopPassed is true once a hook has interrupted the end of the run: a person who resumes it lets it end.
	StopPassed bool `json:"stopPassed,omitempty"`
	// Pruned is where the events of the run are, for which run.pruned stands; nil for all other runs.
	Pruned *Pruned `json:"pruned,omitempty"`
}

// Held is the answer of a hook that the run has to follow. Told is true once the planner was told of an interrupt that
// another role recorded.
type Held struct {
	events.HookAnswer
	Told bool `json:"told,omitempty"`
}

// Plan is the execution plan and where each step stands.
type Plan struct {
	TaskID    string    `json:"taskId"`
	CreatedAt time.Time `json:"createdAt"`
	Origin    string    `json:"origin,omitempty"`
	Steps     []*Step   `json:"steps"`
	// Vars are the values that expressions of the plan know as vars.
	Vars map[string]json.RawMessage `json:"vars,omitempty"`
	// Removed are the ids of the steps that revisions took out. No step may have one of them again.
	Removed []string `json:"removedSteps,omitempty"`
}

// Step of a plan. Shared between states: never written after it was made.
type Step struct {
	ID            string            `json:"id"`
	Description   string            `json:"description"`
	AssignedAgent string            `json:"assignedAgent"`
	Dependencies  []string          `json:"dependencies"`
	Critical      bool              `json:"critical"`
	Kind          events.StepKind   `json:"kind,omitempty"`
	Status        events.StepStatus `json:"status"`
	Output        string            `json:"output,omitempty"`
	Error         string            `json:"error,omitempty"`
	// RunReason is the finish reason of the run where it fails because of this step alone; empty means step_failed.
	RunReason string `json:"runFinishReason,omitempty"`
	// Turns done in this step.
	Turns int `json:"turns,omitempty"`
	// Owed is the sequence of the event since which a model turn is owed, 0 if none is. Only the delivery of that
	// very event acts on it, so that two deliveries never ask the model twice.
	Owed uint64 `json:"owed,omitempty"`
	// Final is true once the last turn asked for no calls: the step only needs its step.finished.
	Final bool `json:"final,omitempty"`
	// Attempt counts the failed attempts of the turn that is owed; NotBefore is when the next may be made.
	Attempt   int       `json:"attempt,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Outage is the provider that the turn waits for; nil where it waits for none.
	Outage *Outage `json:"outage,omitempty"`
	// Mended is true once the model was told what is wrong with its last answer: it is told once.
	Mended bool `json:"mended,omitempty"`
	// Passed is true where a hook interrupted the turn that is owed: a person who resumes the run lets it be taken.
	Passed bool `json:"passed,omitempty"`
	// Compacted stands for the older turns in what the model is shown; nil where all are shown.
	Compacted *Compacted `json:"compacted,omitempty"`
	// TooLong counts how often the turn that is owed did not fit the model's context window.
	TooLong int `json:"tooLong,omitempty"`
	// Background are the commands that calls of the step started to run beyond them, in the order of their results.
	// Shared between states: never written after it was made.
	Background []events.Background `json:"background,omitempty"`
	// Claim is the last time that the agent called the step done, where checks decide; nil before the first. Never
	// written after it was made.
	Claim *Claim `json:"claim,omitempty"`
	// Git are the settings of this step in place of the run's, as its plan has them. Never written after it was made.
	Git *events.GitSettings `json:"git,omitempty"`
	// Child says where the run works that the step is given to; empty for a step of this run.
	Child string `json:"child,omitempty"`
	// Accept are the checks of this step alone, as its plan has them. Never written after it was made.
	Accept *events.Accept `json:"accept,omitempty"`
	// ReadyAt and AllowedAt are sequences, 0 until then.
	ReadyAt   uint64 `json:"readyAt,omitempty"`
	AllowedAt uint64 `json:"allowedAt,omitempty"`
	StepCourse
}

// Compacted is the last compaction of a step. Shared between states: never written after it was made.
type Compacted struct {
	// Through is the number of the last turn that the summary stands for; After is that of the last turn of the run
	// when it was made, so that only later turns were shown it.
	Through int `json:"through"`
	After   int `json:"after"`
	// Count of compactions of the step so far.
	Count   int    `json:"count"`
	Summary string `json:"summary"`
}

// Turn is one model turn.
type Turn struct {
	Number  int                    `json:"number"`
	Step    string                 `json:"step"`
	Text    string                 `json:"text,omitempty"`
	TextRef *events.Ref            `json:"textRef,omitempty"`
	Calls   []events.RequestedCall `json:"calls,omitempty"`
	// Key is KeyOf(Calls) as the log has it, empty where it has none.
	Key          string `json:"key,omitempty"`
	FinishReason string `json:"finishReason"`
	// Fault says why the answer cannot be the last one, "" where it can or asks for calls.
	Fault        string          `json:"fault,omitempty"`
	InputTokens  int             `json:"inputTokens"`
	OutputTokens int             `json:"outputTokens"`
	Model        string          `json:"model,omitempty"`
	Provider     string          `json:"provider,omitempty"`
	Raw          json.RawMessage `json:"raw,omitempty"`
	RawRef       *events.Ref     `json:"rawRef,omitempty"`
	At           time.Time       `json:"at"`
	// Interrupted is true where a person ended the answer before the model had.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Phase of an open call.
type Phase string

// The phases of an open call.
const (
	CallRequested Phase = "requested"
	CallAllowed   Phase = "allowed"
	CallStarted   Phase = "started"
	CallDeferred  Phase = "deferred"
	// CallDelegated is a call that waits for a child run.
	CallDelegated Phase = "delegated"
	// CallMailed is a call of a mail tool that waits for a planner.
	CallMailed Phase = "mailed"
)

// Call is a tool call that has not ended. Shared between states: never written after it was made.
type Call struct {
	events.RequestedCall
	Step   string `json:"step"`
	Turn   int    `json:"turn"`
	Phase  Phase  `json:"phase"`
	Effect string `json:"effect,omitempty"`
	// Attempt is the number of the last attempt that began or failed.
	Attempt int `json:"attempt,omitempty"`
	// Fence is the sequence of the current call.started.
	Fence     uint64 `json:"fence,omitempty"`
	Runner    string `json:"runner,omitempty"`
	TimeoutMS int64  `json:"timeoutMs,omitempty"`
	InputHash string `json:"inputHash,omitempty"`
	// Edited is true where Input is what a person approved instead of what the model asked for.
	Edited    bool      `json:"edited,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Delegation is what a call that waits for a child run asks for; nil for all others.
	Delegation *events.Delegation `json:"delegation,omitempty"`
	UnderWay
	// Parent is the call inside of which a program of others made this one. Program is how far such a program came that
	// carries out this one, nil before it was given work, and Inner counts what it asked for.
	Parent  string   `json:"parent,omitempty"`
	Program *Program `json:"program,omitempty"`
	Inner   int      `json:"inner,omitempty"`
	MailCall
	// Asking are the requests of that program for its model; nil before the first.
	Asking *Asking `json:"asking,omitempty"`
}

// CallRecord is an ended call (TOOL-2).
type CallRecord struct {
	ID         string          `json:"id"`
	Step       string          `json:"step"`
	Turn       int             `json:"turn"`
	CallName   string          `json:"callName"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Result     string          `json:"result"`
	ResultRef  *events.Ref     `json:"resultRef,omitempty"`
	Images     []events.Image  `json:"images,omitempty"`
	DurationMS int64           `json:"duration"`
	RetryCount int             `json:"retryCount"`
	Timestamp  time.Time       `json:"timestamp"`
	// Outcome is "finished", "failed" or "refused".
	Outcome string `json:"outcome"`
	// Effect is the effect class of the call, empty where it was refused.
	Effect  string `json:"effect,omitempty"`
	Success bool   `json:"success"`
	// Code of a refusal or class of a failure, and the guard rule that spoke.
	Code string `json:"code,omitempty"`
	Rule string `json:"rule,omitempty"`
	Hint string `json:"hint,omitempty"`
	// Edited is true where Arguments are what a person approved instead of what the model asked for.
	Edited bool `json:"edited,omitempty"`
	// Notes is the path of the workspace's notes to agents that Result ends with.
	Notes string `json:"notes,omitempty"`
	// Dir is the folder that later shells of the step begin in, where the call changed it; "." is the workspace.
	Dir string `json:"dir,omitempty"`
	// Fresh is true where Result has output of a command in the background that no result before it had. Parent is that
	// of Call: with one, Result is what the program said.
	Fresh  bool   `json:"fresh,omitempty"`
	Parent string `json:"parent,omitempty"`
	// Uncommitted is what the working tree had after the call that no commit has; nil where no one looked.
	Uncommitted *events.Uncommitted `json:"uncommitted,omitempty"`
}

// Gate is a place where a person decides (GATE-7).
type Gate struct {
	ID         string     `json:"id"`
	Scope      string     `json:"scope"`
	StepID     string     `json:"stepId"`
	CallID     string     `json:"callId,omitempty"`
	Status     GateStatus `json:"status"`
	CreatedAt  time.Time  `json:"createdAt"`
	ResolvedAt *time.Time `json:"resolvedAt"`
	Hash       string     `json:"proposalHash"`
	// Text a person reads, and the answer's author and reason.
	Description string `json:"description"`
	By          string `json:"by,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Rule        string `json:"rule,omitempty"`
	GatePosition
	// Deputy gave the answer in the place of By; nil where By gave it.
	Deputy *events.DeputyAnswer `json:"deputy,omitempty"`
	// Approvers that must say yes, where it is more than one, and the votes of those who did.
	Approvers int    `json:"approvers,omitempty"`
	Votes     []Vote `json:"votes,omitempty"`
	GateTime
	// Edited are the arguments that were approved instead of those proposed.
	Edited json.RawMessage `json:"edited,omitempty"`
	// Preview is what the call would change, for the person who answers; nil where none came.
	Preview *events.CallPreview `json:"preview,omitempty"`
	GateGrant
}

// GatePosition is where a gate and its answer are: Sequence is that of gate.opened, Resolution that of the answer, 0
// while pending, Input the position of the answer in the input stream.
type GatePosition struct {
	Sequence   uint64 `json:"sequence"`
	Input      uint64 `json:"input,omitempty"`
	Resolution uint64 `json:"resolution,omitempty"`
}

// GateGrant is what an approval of a gate can allow for later calls, and the grant that it gave, until that was
// revoked.
type GateGrant struct {
	Always  *events.Allowance `json:"always,omitempty"`
	Grant   *events.Grant     `json:"grant,omitempty"`
	Revoked bool              `json:"revoked,omitempty"`
}

// Vote is one yes to a gate that needs several.
type Vote struct {
	By string `json:"by"`
	// Action is the hash of the action that was approved; only votes for the same one add up.
	Action string    `json:"action"`
	At     time.Time `json:"at"`
	Input  uint64    `json:"input,omitempty"`
	// Deputy gave it in the place of By; empty where By gave it.
	Deputy string `json:"deputy,omitempty"`
}

// VotesFor counts those who said yes to an action.
func (g *Gate) VotesFor(action string) int {
	n := 0
	for _, v := range g.Votes {
		if v.Action == action {
			n++
		}
	}
	return n
}

// Voted reports whether one of some people said yes already, in whoever's place.
func (g *Gate) Voted(by ...string) bool {
	return slices.ContainsFunc(g.Votes, func(v Vote) bool {
		return slices.Contains(by, v.By) || v.Deputy != "" && slices.Contains(by, v.Deputy)
	})
}

// GateStatus of a gate.
type GateStatus string

// The statuses of a gate.
const (
	GatePending  GateStatus = "pending"
	GateApproved GateStatus = "approved"
	GateRejected GateStatus = "rejected"
	GateExpired  GateStatus = "expired"
	// GateSuperseded is a gate that the revision of a plan closed: the step it stood before was removed or changed.
	GateSuperseded GateStatus = "superseded"
)

// Tokens used so far.
type Tokens struct {
	Input  int `json:"input"`
	Output int `json:"output"`
	Cached int `json:"cached"`
}

// Total of input and output.
func (t Tokens) Total() int { return t.Input + t.Output }

// Spend is what an agent used of a model.
type Spend struct {
	Model  string          `json:"model"`
	Agent  string          `json:"agent"`
	Turns  int             `json:"turns"`
	Input  int             `json:"inputTokens"`
	Output int             `json:"outputTokens"`
	Cached int             `json:"cachedTokens"`
	Cost   events.MicroUSD `json:"costMicroUsd"`
	// Priced is false where no price of the model is known.
	Priced bool `json:"priced"`
}

// MaxInputs bounds State.Inputs. A message is delivered again within minutes, not after so many others.
const MaxInputs = 32

// Took reports whether the message at that position of the input stream became an event already.
func (s *State) Took(input uint64) bool { return slices.Contains(s.Inputs, input) }

// Step returns the step of that id, or nil.
func (s *State) Step(id string) *Step {
	if s.Plan == nil {
		return nil
	}
	for _, st := range s.Plan.Steps {
		if st.ID == id {
			return st
		}
	}
	return nil
}

// Gate returns the gate of that id, or nil.
func (s *State) Gate(id string) *Gate {
	for _, g := range s.Gates {
		if g.ID == id {
			return g
		}
	}
	return nil
}

// GateFor returns the last gate opened for a step (call == "") or for a call, or nil.
func (s *State) GateFor(step, call string) *Gate {
	for i := len(s.Gates) - 1; i >= 0; i-- {
		if g := s.Gates[i]; g.StepID == step && g.CallID == call {
			return g
		}
	}
	return nil
}

// Waiting returns the gates that have no answer yet and whose step or call still needs one.
func (s *State) Waiting() []*Gate {
	if s.Status.Ended() {
		return nil
	}
	var w []*Gate
	for _, g := range s.Gates {
		st := s.Step(g.StepID)
		needed := st != nil && st.Status == events.StepIsReady
		if g.Scope == events.ScopeCheck {
			_, place, asks := st.Asks()
			needed = asks && place == g.CallID
		} else if g.CallID != "" {
			needed = s.Open[g.CallID] != nil
		}
		if g.Status == GatePending && needed {
			w = append(w, g)
		}
	}
	return w
}

// Turns returns the turns so far.
func (s *State) Turns() List[Turn] {
	if s.AgentLoopSnapshot == nil {
		return List[Turn]{}
	}
	return s.AgentLoopSnapshot.Turns
}

// ModelTurns counts the turns that models took.
func (s *State) ModelTurns() int {
	if s.Pruned != nil {
		return s.Result.TotalSteps
	}
	return s.Turns().Len() - s.HarnessTurns
}

// Harness reports whether a step is one of the harness, which asks no model.
func (s *State) Harness(step string) bool {
	st := s.Step(step)
	return st != nil && st.Harness()
}

// Agent returns the pinned definition of the agent a step is assigned to.
func (s *State) Agent(name string) (events.Agent, bool) {
	a, ok := s.Agents[name]
	return a, ok
}
