package runtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Payloads as the services would say them, with the event names of the vocabulary.

func eventOf(k events.Kind) string { w, _ := events.Lookup(k); return w.Event }

// Agent returns a pinned agent that may use the tools given.
func Agent(name string, tools ...string) events.Agent {
	return events.Agent{Name: name, Digest: digest(name), Model: "scripted/test", Prompt: "Do the task.", Tools: tools}
}

func digest(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// Created opens a run of the agent "worker" with the default options.
func Created() *events.RunCreatedData {
	return &events.RunCreatedData{Event: eventOf(events.RunCreated), TaskID: "task-1", TaskDigest: digest("task-1"),
		Task:  "fix the wheel",
		Agent: "worker", Agents: map[string]events.Agent{"worker": Agent("worker", "read", "bash")},
		Options: events.DefaultOptions(), Workspace: "session/demo", To: events.Created}
}

// DirectCreated opens a run on the direct path; its step is "step-1".
func DirectCreated() *events.RunCreatedData {
	c := Created()
	c.Event, c.To, c.Direct = events.RunStart, events.Running, true
	c.AgentID, c.AgentName, c.MaxSteps = c.Agent, c.Agent, c.Options.MaxSteps
	return c
}

// Started moves a run to running.
func Started() *events.RunStartedData {
	return &events.RunStartedData{Event: eventOf(events.RunStarted), AgentID: "worker", AgentName: "worker",
		Task:     "fix the wheel",
		MaxSteps: 50, From: events.Created, To: events.Running}
}

// Paused, Resumed and Adjusted steer a run.
func Paused(reason string) *events.RunPausedData {
	return &events.RunPausedData{Event: eventOf(events.RunPaused), From: events.Running, To: events.Paused, By: "anna",
		Reason: reason}
}

// Resumed ends a pause.
func Resumed() *events.RunResumedData {
	return &events.RunResumedData{Event: eventOf(events.RunResumed), From: events.Paused, To: events.Running, By: "anna"}
}

// Adjusted changes the autonomy level.
func Adjusted(from, to int) *events.RunAdjustedData {
	return &events.RunAdjustedData{Event: eventOf(events.RunAdjusted), Autonomy: to, FromAutonomy: from, By: "anna"}
}

// Moved says that all events so far were copied to where the next one is said.
func Moved(s run.State) *events.RunMovedData {
	return &events.RunMovedData{Event: eventOf(events.RunMoved), FromStation: s.Identity.Station, Covered: s.Sequence,
		By: "anna"}
}

// Pruned stands for that many events of a run of the agent "worker". It is the first event of its run, in no random
// history: its sequence and prevhash are not those of a run that begins.
func Pruned(covered uint64, to events.Status) *events.RunPrunedData {
	return &events.RunPrunedData{Event: eventOf(events.RunPruned), Covered: covered, Created: Created().Bare(),
		CreatedAt: Start, EndedAt: Start.Add(time.Minute), Backup: digest("manifest"), BackupAt: Start.Add(time.Hour),
		Result: events.Result{Event: eventOf(events.RunCompleted), From: events.Running, Status: to,
			Success: to == events.Completed, FinishReason: events.FinishDone, InputTokens: 7, OutputTokens: 3,
			TotalTokens: 10, Cost: 5, StepsCompleted: 2, StepsTotal: 2, TotalSteps: 3, ToolCallCount: 4}, By: "anna"}
}

// Step describes a plan step of the agent "worker".
func Step(id string, needs ...string) events.PlanStep {
	if needs == nil {
		needs = []string{}
	}
	return events.PlanStep{ID: id, Description: "do " + id, Agent: "worker", Dependencies: needs}
}

// Plan fixes a plan of the steps given.
func Plan(steps ...events.PlanStep) *events.PlanMadeData {
	return &events.PlanMadeData{Event: eventOf(events.PlanMade), TaskID: "task-1", Steps: steps, Origin: "task"}
}

// Revised replaces what has not begun of a plan by the steps given, in a state that a plan can be revised in. In a run
// that works in git the step that delivers follows them.
func Revised(s run.State, steps ...events.PlanStep) *events.PlanRevisedData {
	kept, removed, deliver := s.Plan.Unbegun()
	if deliver != nil {
		steps = append(steps, events.PlanStep{ID: deliver.ID, Description: deliver.Description, Agent: deliver.AssignedAgent,
			Kind:         deliver.Kind,
			Dependencies: []string{events.CheckoutStep, steps[len(steps)-1].ID}})
	}
	return &events.PlanRevisedData{Event: eventOf(events.PlanRevised), Steps: steps, Kept: kept, Removed: removed,
		By: "anna", Reason: "another way"}
}

// Ready asks for a step.
func Ready(step string) *events.StepReadyData {
	return &events.StepReadyData{Event: eventOf(events.StepReady), Step: step, Agent: "worker"}
}

// Allowed permits a step.
func Allowed(step string) *events.StepAllowedData {
	return &events.StepAllowedData{Event: eventOf(events.StepAllowed), Step: step, Agent: "worker", Autonomy: 3}
}

// StepDone finishes a step.
func StepDone(step, output string) *events.StepFinishedData {
	return &events.StepFinishedData{Event: eventOf(events.StepFinished), Step: step, Output: output,
		FinishReason: events.FinishDone, Turns: 1}
}

// StepBad fails a step.
func StepBad(step, why string) *events.StepFailedData {
	return &events.StepFailedData{Event: eventOf(events.StepFailed), Step: step, Error: why,
		FinishReason: events.FinishError, Turns: 1}
}

// Asked is a call as the model asks for it; ids are "c{turn}-{n}".
func Asked(turn, n int, tool, input string) events.RequestedCall {
	return events.RequestedCall{ID: fmt.Sprintf("c%d-%d", turn, n), ProviderID: fmt.Sprintf("toolu_%d_%d", turn, n),
		Tool:  tool,
		Input: json.RawMessage(input)}
}

// Turn is a finished model turn; without calls it is the last of its step.
func Turn(n int, step, text string, calls ...events.RequestedCall) *events.TurnFinishedData {
	reason := events.FinishToolUse
	if len(calls) == 0 {
		reason = events.FinishDone
	}
	return &events.TurnFinishedData{Event: eventOf(events.TurnFinished), Step: step, Turn: n, Text: text, Calls: calls,
		InputTokens:  20,
		OutputTokens: 10, TotalTokens: 30 * n, FinishReason: reason, Attempt: 1, DurationMS: 12, Model: "test",
		Provider: "scripted"}
}

// TurnDeferred defers a model request by two seconds.
func TurnDeferred(n int, step string, attempt int, at time.Time) *events.TurnDeferredData {
	return &events.TurnDeferredData{Event: eventOf(events.TurnDeferred), Step: step, Turn: n, Error: "429 slow down",
		Class:   "transient",
		Attempt: attempt, DelayMS: 2000, NotBefore: at.Add(2 * time.Second)}
}

// TurnWaits defers a model request whose provider does not answer by two seconds; pause makes the run wait for a
// person.
func TurnWaits(n int, step string, attempt int, at time.Time, pause bool) *events.TurnDeferredData {
	d := TurnDeferred(n, step, attempt, at)
	d.Error, d.Outage = "model: transient (HTTP 503): anthropic: overloaded", Out(pause)
	return d
}

// PlanWaits is TurnWaits for a request for a plan.
func PlanWaits(try, attempt int, at time.Time, pause bool) *events.PlanDeferredData {
	return &events.PlanDeferredData{Event: eventOf(events.PlanDeferred), Try: try,
		Error: "model: transient (HTTP 503): anthropic: overloaded", Class: "transient", Attempt: attempt, DelayMS: 2000,
		NotBefore: at.Add(2 * time.Second), Outage: Out(pause)}
}

// Out is the outage of a provider.
func Out(pause bool) events.Outage {
	return events.Outage{Provider: "anthropic", HTTPStatus: 503, Pause: pause}
}

// PausedClock pauses a run so that its clock stands.
func PausedClock(reason string) *events.RunPausedData {
	d := Paused(reason)
	d.ClockStopped = true
	return d
}

// TurnTooLong defers a model request whose prompt did not fit; the window is taken for so many tokens from then on.
func TurnTooLong(n int, step string, attempt, window int, at time.Time) *events.TurnDeferredData {
	d := TurnDeferred(n, step, attempt, at)
	d.Error, d.Class, d.Window = "400 the prompt is too long", events.ClassTooLong, window
	return d
}

// Compacted replaces the turns of a step up to through by a summary.
func Compacted(through, replaced int, step, summary string) *events.HistoryCompactedData {
	return &events.HistoryCompactedData{Event: eventOf(events.HistoryCompacted), Step: step, Through: through,
		Replaced: replaced, Summary: summary,
		TokensBefore: 900, TokensAfter: 300, Window: 1000, Protected: 425, InputTokens: 50, OutputTokens: 5, Attempt: 1,
		DurationMS: 7,
		Model:      "test", Provider: "scripted"}
}

// Saved stores what a call made.
func Saved(s run.State, ref events.ToolRef, fence uint64) *events.ArtifactSavedData {
	name := fmt.Sprintf("made-%d.md", s.Artifacts.Len()+1)
	return &events.ArtifactSavedData{Event: eventOf(events.ArtifactSaved), ToolRef: ref, Fence: fence,
		Artifacts: []events.Artifact{{ID: fmt.Sprintf("art-%d", s.Artifacts.Len()+1),
			Type: events.ArtifactReport, Name: name, Path: name, Size: 4, SHA256: digest(name), ContentType: "text/markdown",
			CreatedAt: s.UpdatedAt,
			Key:       "runs/" + s.HarnessID + "/output/" + name, Kept: events.StoredInBucket, TTLMS: 86_400_000,
			Run:  s.HarnessID,
			Step: ref.Step}}}
}

// Ref names a call of a step.
func Ref(step, call, tool string) events.ToolRef {
	return events.ToolRef{Step: step, Call: call, Tool: tool}
}

// CallYes allows a call.
func CallYes(ref events.ToolRef, effect string) *events.CallAllowedData {
	return &events.CallAllowedData{Event: eventOf(events.CallAllowed), ToolRef: ref, Effect: effect,
		InputHash: digest(ref.Call),
		Input:     `{}`, RulesDigest: digest("rules"), BudgetLeft: 99}
}

// CallNo refuses a call.
func CallNo(ref events.ToolRef) *events.CallRefusedData {
	return &events.CallRefusedData{Event: eventOf(events.CallRefused), ToolRef: ref, Code: events.RefusedGuard,
		Rule:   "no-force-push",
		Reason: "force push rewrites the history of others", Hint: "push without force"}
}

// CallBegun starts an attempt.
func CallBegun(ref events.ToolRef, attempt int) *events.CallStartedData {
	return &events.CallStartedData{Event: eventOf(events.CallStarted), ToolRef: ref, Input: `{}`, Attempt: attempt,
		Effect: "once",
		Runner: "runner-a", Sandbox: "host"}
}

// CallDeferred defers a call by one second; fence is the sequence of its call.started, 0 for a read-only tool.
func CallDeferred(ref events.ToolRef, attempt int, fence uint64, at time.Time) *events.CallDeferredData {
	return &events.CallDeferredData{Event: eventOf(events.CallDeferred), ToolRef: ref, Error: "connection reset",
		Class:   "transient",
		Attempt: attempt, Fence: fence, DelayMS: 1000, NotBefore: at.Add(time.Second)}
}

// CallDone finishes a call.
func CallDone(ref events.ToolRef, fence uint64, output string) *events.CallFinishedData {
	return &events.CallFinishedData{Event: eventOf(events.CallFinished), ToolRef: ref, Output: output, Success: true,
		DurationMS: 5,
		Attempt:    1, Fence: fence, Sandbox: "host"}
}

// CallBad fails a call.
func CallBad(ref events.ToolRef, fence uint64, class string) *events.CallFailedData {
	return &events.CallFailedData{Event: eventOf(events.CallFailed), ToolRef: ref, Error: "the tool did not answer",
		Class: class,
		Hint:  "try another way", DurationMS: 5, Attempt: 1, Fence: fence, Sandbox: "host"}
}

// GateAt opens a gate before a step (call == "") or a call.
func GateAt(gate, step, call string) *events.GateOpenedData {
	scope := "step"
	if call != "" {
		scope = "call"
	}
	proposal := fmt.Sprintf(`{"step":%q,"call":%q}`, step, call)
	return &events.GateOpenedData{Event: eventOf(events.GateOpened), Gate: gate, Scope: scope, Step: step, Call: call,
		Action: events.GateWaiting, Description: "may " + step + " go on?", Reason: "autonomy 3 asks at critical steps",
		Proposal: json.RawMessage(proposal), ProposalHash: digest(proposal),
		AnswerSubject: events.GateSubject("demo", "run", gate), StepsTotal: 1}
}

// Yes approves a gate as it stands in a state.
func Yes(g *run.Gate) *events.GateApprovedData {
	return &events.GateApprovedData{GateAnswer: answer(g, events.GateApproved, events.GateWasApproved, "")}
}

// No rejects a gate as it stands in a state.
func No(g *run.Gate, reason string) *events.GateRejectedData {
	return &events.GateRejectedData{GateAnswer: answer(g, events.GateRejected, events.GateWasRejected, reason)}
}

// Hard is a gate that needs two approvers and expires at Start.
func Hard(g *events.GateOpenedData) *events.GateOpenedData {
	g.Approvers, g.ExpiresAt, g.OnExpiry = 2, Start, events.ExpiryRejects
	g.GateReminders = events.GateReminders{RemindMS: 1, EscalateMS: 2, EscalateTo: "leads"}
	return g
}

// Offered is a gate that can be answered for later calls, too.
func Offered(g *events.GateOpenedData) *events.GateOpenedData {
	g.Rule, g.Always = "ask-bash", &events.Allowance{Rule: "ask-bash", RuleHash: digest("rule"), Tool: "bash",
		Pattern: "make all", Action: digest("make all")}
	return g
}

// Always is an approval that gives a grant of the run for an hour after a time.
func Always(s run.State, g *run.Gate, at time.Time) *events.GateApprovedData {
	d := Yes(g)
	d.Grant = &events.Grant{ID: g.ID, Run: s.HarnessID, Allowance: *g.Always, Scope: events.GrantRun, By: d.By, At: at,
		Until: at.Add(time.Hour)}
	return d
}

// Revoked takes a grant back.
func Revoked(gate string) *events.GrantRevokedData {
	return &events.GrantRevokedData{Event: eventOf(events.GrantRevoked), Revocation: events.Revocation{Grant: gate,
		By: "anna", Assurance: events.AssuranceSubject, Input: 77}}
}

// Vote is one yes of several.
func Vote(g *run.Gate, by string) *events.GateVotedData {
	d := &events.GateVotedData{GateAnswer: answer(g, events.GateVoted, events.GateHasVote, "")}
	d.By, d.Votes, d.Approvers = by, len(g.Votes)+1, g.Approvers
	return d
}

// Reminded calls people again at a gate.
func Reminded(g *run.Gate, to string) *events.GateRemindedData {
	return &events.GateRemindedData{Event: eventOf(events.GateReminded), Gate: g.ID, Step: g.StepID, Call: g.CallID,
		Action: events.GateWaiting, Number: g.Reminded + 1, To: to, ProposalHash: g.Hash, WaitMS: 1000}
}

// RanOut ends a gate that no one answered.
func RanOut(g *run.Gate) *events.GateExpiredData {
	return &events.GateExpiredData{Event: eventOf(events.GateExpired), Gate: g.ID, Step: g.StepID, Call: g.CallID,
		Action:  events.GateRanOut,
		Outcome: g.OnExpiry, ExpiresAt: g.ExpiresAt, ProposalHash: g.Hash, WaitMS: 1000}
}

func answer(g *run.Gate, k events.Kind, action, reason string) events.GateAnswer {
	return events.GateAnswer{Event: eventOf(k), Gate: g.ID, Step: g.StepID, Call: g.CallID, Action: action,
		By: "anna", Assurance: events.AssuranceSubject, Reason: reason, ProposalHash: g.Hash, WaitMS: 1000}
}

// Checkpoint says that a state was stored.
func Checkpoint(s run.State) *events.CheckpointSavedData {
	n := s.CheckpointCount + 1
	return &events.CheckpointSavedData{Event: eventOf(events.CheckpointSaved), Name: fmt.Sprintf("cp-%d", n), Number: n,
		Covered: s.Sequence, Key: fmt.Sprintf("demo.%s.cp-%d", s.HarnessID, n)}
}

// Taken says that the interval of a run was over.
func Taken(s run.State) *events.CheckpointTakenData {
	n := s.CheckpointCount + 1
	return &events.CheckpointTakenData{Event: eventOf(events.CheckpointTaken), Name: events.IntervalCheckpoint(n),
		Number:     n,
		IntervalMS: 300_000}
}

// Fallback warns that the next events are kept in the local store.
func Fallback(s run.State) *events.CheckpointFallbackData {
	return &events.CheckpointFallbackData{Event: eventOf(events.CheckpointFallback), Store: "local", Since: s.Sequence,
		Reason: "no answer"}
}

// PlanDone ends a plan.
func PlanDone(steps int) *events.PlanCompletedData {
	return &events.PlanCompletedData{Event: eventOf(events.PlanCompleted), Steps: steps}
}

// Completed ends a run well.
func Completed(s run.State) *events.RunCompletedData {
	return &events.RunCompletedData{Result: result(s, events.RunCompleted, events.Completed, events.FinishDone, "")}
}

// Failed ends a run badly.
func Failed(s run.State, reason, why string) *events.RunFailedData {
	return &events.RunFailedData{Result: result(s, events.RunFailed, events.Failed, reason, why)}
}

func result(s run.State, k events.Kind, to events.Status, reason, why string) events.Result {
	done, total := s.StepsCompleted()
	return events.Result{Event: eventOf(k), From: s.Status, Status: to, Success: to == events.Completed, Output: "done",
		FinishReason: reason, Error: why, StepsCompleted: done, StepsTotal: total, TotalSteps: s.Turns().Len(),
		ToolCallCount: s.TotalToolCalls, TotalTokens: s.Tokens.Total(), InputTokens: s.Tokens.Input,
		OutputTokens: s.Tokens.Output, DurationMS: 1000}
}
