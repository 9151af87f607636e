package events

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the word for what happened: "{family}.{verb}".
type Kind string

// The kinds. Families and verbs are the last two tokens of an event's subject.
const (
	RunCreated   Kind = "run.created"
	RunStarted   Kind = "run.started"
	RunPaused    Kind = "run.paused"
	RunResumed   Kind = "run.resumed"
	RunFunded    Kind = "run.funded"
	RunStopping  Kind = "run.stopping"
	RunAdjusted  Kind = "run.adjusted"
	RunMoved     Kind = "run.moved"
	RunPruned    Kind = "run.pruned"
	RunForked    Kind = "run.forked"
	RunCompleted Kind = "run.completed"
	RunFailed    Kind = "run.failed"

	PlanRequested Kind = "plan.requested"
	PlanDeferred  Kind = "plan.deferred"
	PlanAnswered  Kind = "plan.answered"
	PlanMade      Kind = "plan.made"
	PlanRevised   Kind = "plan.revised"
	PlanCompleted Kind = "plan.completed"

	StepReady    Kind = "step.ready"
	StepAllowed  Kind = "step.allowed"
	StepClaimed  Kind = "step.claimed"
	StepFinished Kind = "step.finished"
	StepFailed   Kind = "step.failed"
	StepExpanded Kind = "step.expanded"
	StepSettled  Kind = "step.settled"
	StepBranched Kind = "step.branched"

	ChildSpawned  Kind = "child.spawned"
	ChildFinished Kind = "child.finished"

	CheckPassed Kind = "check.passed"
	CheckFailed Kind = "check.failed"

	TurnDeferred Kind = "turn.deferred"
	TurnFinished Kind = "turn.finished"

	HistoryCompacted Kind = "history.compacted"

	MailInjected    Kind = "mail.injected"
	MailInterrupted Kind = "mail.interrupted"
	MailRequested   Kind = "mail.requested"
	MailAnswered    Kind = "mail.answered"

	CallAllowed   Kind = "call.allowed"
	CallRefused   Kind = "call.refused"
	CallStarted   Kind = "call.started"
	CallDelegated Kind = "call.delegated"
	// CallRequested and CallProgressed are about programs of others that carry out a call.
	CallRequested  Kind = "call.requested"
	CallProgressed Kind = "call.progressed"
	// CallReserved and CallSettled are about the requests of such programs for their models.
	CallReserved Kind = "call.reserved"
	CallSettled  Kind = "call.settled"
	CallDeferred Kind = "call.deferred"
	CallFinished Kind = "call.finished"
	CallFailed   Kind = "call.failed"

	ArtifactSaved Kind = "artifact.saved"
	CallPreviewed Kind = "call.previewed"

	GateOpened   Kind = "gate.opened"
	GateApproved Kind = "gate.approved"
	GateRejected Kind = "gate.rejected"
	GateVoted    Kind = "gate.voted"
	GateExpired  Kind = "gate.expired"
	GateReminded Kind = "gate.reminded"

	GrantRevoked Kind = "grant.revoked"

	CheckpointTaken    Kind = "checkpoint.taken"
	CheckpointSaved    Kind = "checkpoint.saved"
	CheckpointFallback Kind = "checkpoint.fallback"
)

// Service is the author of an event.
type Service string

// The five services.
const (
	Planner    Service = "planner"
	Executor   Service = "executor"
	Toolrunner Service = "toolrunner"
	Gatekeeper Service = "gatekeeper"
	Persister  Service = "persister"
)

// Services lists them in the order of the path of a tool call.
func Services() []Service { return []Service{Planner, Gatekeeper, Executor, Toolrunner, Persister} }

// Type is the row of one event type. Its fold rule is a row in pkg/run; what else belongs to the type is made from this
// row: its schema, its page, its sample, who may publish it and who checks that.
type Type struct {
	Kind Kind
	// Author is the only service that may say it.
	Author Service
	// Event is the monitoring event name (OBS-5 to OBS-11) carried in data.event; empty where the kind has none.
	Event string
	// Origin says whether a replay decides the event again.
	Origin Origin
	// Shown are the views that the event changes.
	Shown Views
	// Line says in words what the event says, for the activity log. Where the line needs units, lists or other layout
	// it is nil and internal/core/view has a row for it.
	Line func(Payload) string
	// Doc is one sentence for the generated reference.
	Doc string
	// New returns a zero payload to decode into.
	New func() Payload
}

// Origin is where an event comes from.
type Origin uint8

const (
	// Decided follows from the state before it: a replay makes the decision of its author again.
	Decided Origin = iota + 1
	// Recorded was asked for from outside, or says what an effect did: a replay takes it as it stands.
	Recorded
)

// Views are the views that an event changes.
type Views uint8

const (
	// InLog is the activity log, which shows every event.
	InLog Views = 1 << iota
	// InIndex is the index of runs: the row of the run is written at once, and not only with the next events.
	InIndex
	// InTree is the tree of a run that the console shows.
	InTree
)

// line makes a Line of a function of one payload type, which need not care for length and control characters.
func line[P Payload](say func(P) string) func(Payload) string {
	return func(p Payload) string {
		if d, ok := p.(P); ok {
			return say(d)
		}
		return ""
	}
}

// Payload is the typed data of an event.
type Payload interface{ Kind() Kind }

// Registry returns all words, in the order of a run's life.
func Registry() []Type { return vocabulary[:] }

var vocabulary = [...]Type{
	{RunCreated, Planner, "run_created", Recorded, InLog | InIndex | InTree, nil,
		"A task was accepted: the run exists, with its agents and options pinned. Carries run_start where the run " +
			"takes the direct path, on which it has started with this.",
		func() Payload { return new(RunCreatedData) }},
	{RunForked, Planner, "run_forked", Recorded, InLog | InTree, nil,
		"A part of the state that a forked run begins with; the run starts once it has all parts.",
		func() Payload { return new(RunForkedData) }},
	{RunStarted, Planner, "run_start", Decided, InLog | InTree, line((*RunStartedData).line),
		"The run moved from created to running.",
		func() Payload { return new(RunStartedData) }},
	{PlanRequested, Planner, "plan_requested", Decided, InLog, nil,
		"A model is to make the plan, or another one where its answer was none; the executor asks it.",
		func() Payload { return new(PlanRequestedData) }},
	{PlanDeferred, Executor, "error", Decided, InLog, nil,
		"A request for a plan failed in a way that may pass; it is made again not before the time given.",
		func() Payload { return new(PlanDeferredData) }},
	{PlanAnswered, Executor, "plan_answered", Decided, InLog | InTree, nil,
		"A request for a plan ended: with the model's text, which the planner checks, or with the reason why there is " +
			"none.",
		func() Payload { return new(PlanAnsweredData) }},
	{PlanMade, Planner, "plan_made", Decided, InLog | InIndex | InTree, nil,
		"The execution plan is fixed: steps, their agents and dependencies.",
		func() Payload { return new(PlanMadeData) }},
	{StepReady, Planner, "step_ready", Decided, InLog | InTree, nil,
		"All dependencies of a plan step are complete; the gatekeeper is asked to permit it.",
		func() Payload { return new(StepReadyData) }},
	{StepAllowed, Gatekeeper, "step_start", Decided, InLog | InTree, nil,
		"A plan step may be carried out; the executor begins it.",
		func() Payload { return new(StepAllowedData) }},
	{TurnDeferred, Executor, "error", Decided, InLog | InTree, nil,
		"A model request failed in a way that may pass; it is tried again not before the time given.",
		func() Payload { return new(TurnDeferredData) }},
	{TurnFinished, Executor, "step_complete", Decided, InLog | InTree, nil,
		"One model turn is done: text, requested calls, usage, finish reason.",
		func() Payload { return new(TurnFinishedData) }},
	{HistoryCompacted, Executor, "history_compacted", Recorded, InLog | InTree, nil,
		"The older turns of a step are shown to its model as a summary from now on; the turns themselves stay in " +
			"the log.",
		func() Payload { return new(HistoryCompactedData) }},
	{MailInjected, Executor, "mail_injected", Recorded, InLog, line((*MailInjectedData).line),
		"Messages that waited for the agent stand in the prompt of the next turn of the step.",
		func() Payload { return new(MailInjectedData) }},
	{MailInterrupted, Planner, "mail_interrupted", Recorded, InLog, line((*MailInterruptedData).line),
		"Urgent mail has come for the agent, which may interrupt it: the answer that its model is giving ends, and the " +
			"next turn is given the mail.",
		func() Payload { return new(MailInterruptedData) }},
	{MailRequested, Toolrunner, "tool_start", Recorded, InLog, line((*MailRequestedData).line),
		"A call of a mail tool waits for the planner; its sequence is the fence of the result.",
		func() Payload { return new(MailRequestedData) }},
	{MailAnswered, Planner, "mail_answered", Recorded, InLog, line((*MailAnsweredData).line),
		"What became of a call of a mail tool: the agent reads it as the result of the call.",
		func() Payload { return new(MailAnsweredData) }},
	{CallAllowed, Gatekeeper, "tool_allowed", Decided, InLog | InTree, nil,
		"A requested tool call may be carried out; its place in the budget is held. Carries tool_start for " +
			"read-only tools, which have no call.started.",
		func() Payload { return new(CallAllowedData) }},
	{CallRefused, Gatekeeper, "tool_refused", Decided, InLog | InTree, nil,
		"A requested tool call was refused, with the rule; it is never carried out.",
		func() Payload { return new(CallRefusedData) }},
	{CallStarted, Toolrunner, "tool_start", Decided, InLog | InTree, nil,
		"An attempt of a tool call with effects begins; its sequence is the fence of the attempt.",
		func() Payload { return new(CallStartedData) }},
	{CallDelegated, Toolrunner, "tool_start", Recorded, InLog | InTree, line((*CallDelegatedData).line),
		"A call of the tool delegate waits for a child run, which a planner spawns; its sequence is the fence of the result.",
		func() Payload { return new(CallDelegatedData) }},
	{CallRequested, Toolrunner, "tool_requested", Recorded, InLog | InTree, line((*CallRequestedData).line),
		"A program of others that carries out a call asks to do something inside, which the gatekeeper permits or refuses.",
		func() Payload { return new(CallRequestedData) }},
	{CallProgressed, Toolrunner, "tool_progress", Recorded, InLog, line((*CallProgressedData).line),
		"A program of others is given its work in a call, or its session has a name: from now on it may act. Names the " +
			"transcript of the session once that is stored.",
		func() Payload { return new(CallProgressedData) }},
	{CallReserved, Toolrunner, "model_request", Recorded, InLog, line((*CallReservedData).line),
		"A program of others asks its model: what the request may use is set aside before it is passed on.",
		func() Payload { return new(CallReservedData) }},
	{CallSettled, Toolrunner, "model_answer", Recorded, InLog | InTree, line((*CallSettledData).line),
		"What a request of a program for its model used takes the place of what was set aside for it.",
		func() Payload { return new(CallSettledData) }},
	{CallDeferred, Toolrunner, "error", Decided, InLog | InTree, nil,
		"An attempt failed in a way that may pass; the call is tried again not before the time given.",
		func() Payload { return new(CallDeferredData) }},
	{CallFinished, Toolrunner, "tool_result", Decided, InLog | InTree, nil,
		"A tool call was carried out; this is what the model reads.",
		func() Payload { return new(CallFinishedData) }},
	{CallFailed, Toolrunner, "tool_result", Decided, InLog | InTree, nil,
		"A tool call could not be carried out, or its outcome is unknown.",
		func() Payload { return new(CallFailedData) }},
	{ArtifactSaved, Toolrunner, "artifact_saved", Recorded, InLog, nil,
		"What a tool call made or changed in the workspace was stored as artifacts, before the call's end is " +
			"said; says also what was left out, and why.",
		func() Payload { return new(ArtifactSavedData) }},
	{CallPreviewed, Toolrunner, "call_previewed", Recorded, InLog | InIndex, line((*CallPreviewedData).line),
		"What the call at a gate would change in the workspace, for the person who decides; it decides nothing.",
		func() Payload { return new(CallPreviewedData) }},
	{GateOpened, Gatekeeper, "waiting_for_human", Decided, InLog | InIndex | InTree, nil,
		"A person must decide before the action given goes on; names the subject for the answer.",
		func() Payload { return new(GateOpenedData) }},
	{GateApproved, Gatekeeper, "gate_approved", Decided, InLog | InIndex | InTree, nil,
		"The gate's first valid answer was yes.",
		func() Payload { return new(GateApprovedData) }},
	{GateRejected, Gatekeeper, "gate_rejected", Decided, InLog | InIndex | InTree, nil,
		"The gate's first valid answer was no; the run is paused for replanning.",
		func() Payload { return new(GateRejectedData) }},
	{GateVoted, Gatekeeper, "gate_voted", Decided, InLog | InIndex | InTree, nil,
		"One yes of the several that the gate needs; it waits for the others.",
		func() Payload { return new(GateVotedData) }},
	{GateExpired, Gatekeeper, "gate_expired", Decided, InLog | InIndex | InTree, nil,
		"No one answered the gate in time; carries what follows: as a no, or the end of the run.",
		func() Payload { return new(GateExpiredData) }},
	{GateReminded, Gatekeeper, "gate_reminded", Recorded, InLog, line((*GateRemindedData).line),
		"No one has answered the gate for a time: people are called again, or others are.",
		func() Payload { return new(GateRemindedData) }},
	{GrantRevoked, Gatekeeper, "grant_revoked", Recorded, InLog, line((*GrantRevokedData).line),
		"A standing grant of the run was taken back: no call is permitted on it from now on.",
		func() Payload { return new(GrantRevokedData) }},
	{StepClaimed, Executor, "step_claimed", Decided, InLog | InTree, line((*StepClaimedData).line),
		"The agent calls a plan step done; its acceptance checks decide whether it is.",
		func() Payload { return new(StepClaimedData) }},
	{CheckPassed, Toolrunner, "check_passed", Recorded, InLog | InTree, line((*CheckPassedData).line),
		"An acceptance check passed on the tree of a claim; carries the evidence.",
		func() Payload { return new(CheckPassedData) }},
	{CheckFailed, Toolrunner, "check_failed", Recorded, InLog | InTree, nil,
		"An acceptance check did not pass: the agent reads why and goes on, unless this was its last claim.",
		func() Payload { return new(CheckFailedData) }},
	{ChildSpawned, Planner, "sub_agent_spawned", Decided, InLog | InIndex | InTree, line((*ChildSpawnedData).line),
		"A plan step, a call or a review is carried out by a run of its own; what that may spend is held from the budget.",
		func() Payload { return new(ChildSpawnedData) }},
	{ChildFinished, Planner, "sub_agent_finished", Recorded, InLog | InIndex | InTree, nil,
		"The run that a plan step, a call or a review was given to has ended, with its output and what it spent; or none " +
			"could be made.",
		func() Payload { return new(ChildFinishedData) }},
	{StepFinished, Executor, "step_finished", Decided, InLog | InTree, nil,
		"A plan step is complete, with its output.",
		func() Payload { return new(StepFinishedData) }},
	{StepFailed, Executor, "step_failed", Decided, InLog | InTree, nil,
		"A plan step failed; all that depends on it is blocked.",
		func() Payload { return new(StepFailedData) }},
	{CheckpointTaken, Planner, "checkpoint_taken", Recorded, InLog, line((*CheckpointTakenData).line),
		"A run in Dream Mode took a checkpoint because its interval was over: the state after this event.",
		func() Payload { return new(CheckpointTakenData) }},
	{StepExpanded, Planner, "step_expanded", Recorded, InLog | InTree, line((*StepExpandedData).line),
		"Steps were made of a plan step: of the items of a list, a round of a loop, or another attempt after a failed one.",
		func() Payload { return new(StepExpandedData) }},
	{StepBranched, Executor, "step_branched", Decided, InLog, line((*StepBranchedData).line),
		"The working tree is committed and published: the child that the step is given to begins with that commit.",
		func() Payload { return new(StepBranchedData) }},
	{StepSettled, Planner, "step_settled", Recorded, InLog | InTree, line((*StepSettledData).line),
		"A plan step ended by what the plan says: it was skipped, computed, waited for or approved, its parts have ended, " +
			"or its time is up.",
		func() Payload { return new(StepSettledData) }},
	{CheckpointSaved, Persister, "checkpoint", Recorded, InLog, nil,
		"The state up to a sequence, which includes the named checkpoint, was stored as a snapshot as well: the " +
			"run is loaded quickly from there.",
		func() Payload { return new(CheckpointSavedData) }},
	{CheckpointFallback, Persister, "store_fallback", Recorded, InLog, nil,
		"A warning: the primary store is away, and the local one keeps the run's events from a sequence on.",
		func() Payload { return new(CheckpointFallbackData) }},
	{RunPaused, Planner, "run_paused", Decided, InLog | InIndex | InTree, nil,
		"The run moved from running to paused; nothing new is permitted until it resumes.",
		func() Payload { return new(RunPausedData) }},
	{RunResumed, Planner, "run_resumed", Decided, InLog | InIndex | InTree, nil,
		"The run moved from paused to running.",
		func() Payload { return new(RunResumedData) }},
	{RunFunded, Planner, "run_funded", Recorded, InLog, line((*RunFundedData).line),
		"More of the budgets of its project, its user and the station was reserved for the run: a turn that waited for " +
			"that is owed again.",
		func() Payload { return new(RunFundedData) }},
	{RunStopping, Planner, "run_stopping", Decided, InLog | InIndex | InTree, line((*RunStoppingData).line),
		"The run is to end and waits for its children, which are asked to stop; nothing new is permitted.",
		func() Payload { return new(RunStoppingData) }},
	{RunAdjusted, Planner, "run_adjusted", Decided, InLog | InIndex, nil,
		"The autonomy level of the run was changed.",
		func() Payload { return new(RunAdjustedData) }},
	{RunMoved, Planner, "run_moved", Recorded, InLog | InIndex, nil,
		"The events before this one were copied here, byte for byte, from another station or from an archive; the " +
			"run goes on here.",
		func() Payload { return new(RunMovedData) }},
	{RunPruned, Planner, "run_pruned", Recorded, InLog | InIndex | InTree, line((*RunPrunedData).line),
		"All events of a run that had ended were left in a backup, to make room, or deleted on request: this one stands " +
			"for them.",
		func() Payload { return new(RunPrunedData) }},
	{PlanRevised, Planner, "plan_revised", Decided, InLog | InIndex | InTree, nil,
		"What had not begun of the plan of a paused run was replaced by other steps; what had begun stays.",
		func() Payload { return new(PlanRevisedData) }},
	{PlanCompleted, Planner, "plan_completed", Decided, InLog, nil,
		"All steps of the plan are complete.",
		func() Payload { return new(PlanCompletedData) }},
	{RunCompleted, Planner, "run_complete", Decided, InLog | InIndex | InTree, nil,
		"The run ended well; carries its result.",
		func() Payload { return new(RunCompletedData) }},
	{RunFailed, Planner, "run_complete", Decided, InLog | InIndex | InTree, nil,
		"The run ended badly; carries its result and the error.",
		func() Payload { return new(RunFailedData) }},
}

var byKind = func() map[Kind]Type {
	m := make(map[Kind]Type, len(vocabulary))
	for _, w := range vocabulary {
		m[w.Kind] = w
	}
	return m
}()

// Lookup returns the word of a kind.
func Lookup(k Kind) (Type, bool) {
	w, ok := byKind[k]
	return w, ok
}

// Version is the schema version of every payload today.
const Version = 1

const typePrefix = "dev.inspan."

// typeSuffix is the schema version in a CloudEvents type.
var typeSuffix = ".v" + strconv.Itoa(Version)

// Type returns the CloudEvents type of a kind: dev.inspan.{family}.{verb}.v1.
func (k Kind) Type() string { return typePrefix + string(k) + typeSuffix }

// Family returns the part before the dot.
func (k Kind) Family() string { f, _, _ := strings.Cut(string(k), "."); return f }

// UnknownTypeError is returned for a type or schema version that this program does not know (EVT-7).
type UnknownTypeError struct{ Type string }

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("unknown event type %q: this program knows dev.inspan.{family}.{verb}.v%d of %d kinds; "+
		"a newer service wrote it, upgrade this one", e.Type, Version, len(vocabulary))
}

// ParseType returns the kind of a CloudEvents type, or an *UnknownTypeError.
func ParseType(t string) (Kind, error) {
	k, ok := kindOf(t)
	if _, known := byKind[k]; !ok || !known {
		return "", &UnknownTypeError{Type: t}
	}
	return k, nil
}

// kindOf returns the kind that a CloudEvents type names, whether or not there is such a kind.
func kindOf(t string) (k Kind, ok bool) {
	rest, prefixed := strings.CutPrefix(t, typePrefix)
	rest, versioned := strings.CutSuffix(rest, ".v1")
	return Kind(rest), prefixed && versioned
}
