package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Line is one line of the activity log (EVT-12): when, the place in the run, who, and what. zone is nil for UTC.
func Line(f events.Fact, p events.Payload, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return fmt.Sprintf("%s %4d  %-10s  %s", f.Time.In(zone).Format("2006-01-02 15:04:05.000"), f.Sequence, f.Author(), Text(p))
}

// maxLine is the most characters of an answer of Text or Why.
const maxLine = 4000

// Text says in words, on one line, what a fact says.
func Text(p events.Payload) string { return Clip(text(p), maxLine) }

func text(p events.Payload) string {
	switch d := p.(type) {
	case *events.RunCreatedData:
		from := when(d.Direct, " and started, on the direct path,")
		if d.ForkOf != nil {
			from = fmt.Sprintf(" as a fork of run %s after fact %d", d.ForkOf.Run, d.ForkOf.Sequence)
		}
		return fmt.Sprintf("run created%s for agent %s, autonomy %d: %s", from, d.Agent, d.Options.Autonomy, Clip(d.Task, 120))
	case *events.RunForkedData:
		return fmt.Sprintf("takes over the state of the run it was forked from, %s from %s on", Bytes(int64(len(d.Data))), Bytes(int64(d.Offset)))
	case *events.RunStartedData:
		return "run started"
	case *events.RunPausedData:
		return join("run paused by "+who(d.By, "the harness"), Clip(d.Reason, 300))
	case *events.RunResumedData:
		return "run resumed by " + who(d.By, "the harness")
	case *events.RunAdjustedData:
		return fmt.Sprintf("autonomy %d became %d, by %s", d.FromAutonomy, d.Autonomy, who(d.By, "somebody"))
	case *events.RunMovedData:
		return fmt.Sprintf("run moved here from station %s after fact %d%s, by %s", d.FromStation, d.Covered, when(d.Fork, ", as a fork"), who(d.By, "somebody"))
	case *events.RunCompletedData:
		return join("run completed: "+resultText(d.Result), Delivery(d.Delivery))
	case *events.RunFailedData:
		return join(join("run failed ("+d.FinishReason+"), "+resultText(d.Result), Clip(d.Error, 300)), Delivery(d.Delivery))
	case *events.CheckpointSavedData:
		return fmt.Sprintf("checkpoint %d (%s) saved as a snapshot, covers %d facts", d.Number, Clip(d.Name, 80), d.Covered)
	case *events.CheckpointFallbackData:
		return fmt.Sprintf("warning: the station's log is away, facts from %d on are kept in the local store (%s): %s", d.Since, Clip(d.Store, 20), Clip(d.Reason, 200))
	case *events.PlanMadeData:
		return fmt.Sprintf("plan made (%s), %s: %s", d.Origin, Plural(len(d.Steps), "step"), stepsText(d.Steps))
	case *events.PlanRevisedData:
		return join(fmt.Sprintf("plan revised by %s, %s removed, %d kept, %d new: %s", who(d.By, "somebody"), Plural(len(d.Removed), "step"), len(d.Kept), len(d.Steps), stepsText(d.Steps)), Clip(d.Reason, 300))
	case *events.PlanCompletedData:
		return fmt.Sprintf("plan completed, %s", Plural(d.Steps, "step"))
	case *events.StepReadyData:
		return "step " + d.Step + " is ready" + when(d.Critical, ", and critical")
	case *events.StepAllowedData:
		return "step " + d.Step + " allowed" + when(d.Gate != "", " after gate "+d.Gate)
	case *events.StepFinishedData:
		return join(fmt.Sprintf("step %s finished after %s%s", d.Step, Plural(d.Turns, "turn"), checkpointText(d.Checkpoint)), Clip(d.Output, 120))
	case *events.StepFailedData:
		return join(fmt.Sprintf("step %s failed (%s) after %s%s", d.Step, d.FinishReason, Plural(d.Turns, "turn"), checkpointText(d.Checkpoint)), Clip(d.Error, 300))
	case *events.TurnDeferredData:
		return fmt.Sprintf("turn %d of step %s: the model request failed (attempt %d), again in %s: %s", d.Turn, d.Step, d.Attempt, ms(d.DelayMS), Clip(d.Error, 200))
	case *events.TurnFinishedData:
		return turnText(d)
	case *events.HistoryCompactedData:
		return fmt.Sprintf("history of step %s compacted: %s became a summary, about %s tokens became %s of %s, the last %s untouched", d.Step, Plural(d.Replaced, "turn"),
			Count(d.TokensBefore), Count(d.TokensAfter), Count(d.Window), Count(d.Protected))
	case *events.ArtifactSavedData:
		return artifactText(d)
	}
	return gateText(p)
}

func gateText(p events.Payload) string {
	switch d := p.(type) {
	case *events.GateOpenedData:
		return fmt.Sprintf("gate %s waits for a person before %s: %s (%s)", d.Gate, place(d.Step, d.Call), Clip(d.Description, 160), Clip(d.Reason, 160))
	case *events.GateApprovedData:
		return join(fmt.Sprintf("gate %s approved by %s%s after %s", d.Gate, Clip(d.By, 80), votes(d.GateAnswer), ms(d.WaitMS)), Clip(or(d.Reason, editedText(d.GateAnswer)), 200))
	case *events.GateVotedData:
		return join(fmt.Sprintf("gate %s approved by %s%s, it waits for more", d.Gate, Clip(d.By, 80), votes(d.GateAnswer)), Clip(or(d.Reason, editedText(d.GateAnswer)), 200))
	case *events.GateExpiredData:
		return fmt.Sprintf("gate %s expired after %s without an answer: %s", d.Gate, ms(d.WaitMS), expiryText(d.Outcome))
	case *events.GateRejectedData:
		return join(fmt.Sprintf("gate %s rejected by %s after %s", d.Gate, Clip(d.By, 80), ms(d.WaitMS)), Clip(d.Reason, 200))
	}
	return callText(p)
}

func checkpointText(number int) string {
	return when(number > 0, fmt.Sprintf(", checkpoint %d", number))
}

// votes tells how many of several approvals a gate has.
func votes(a events.GateAnswer) string {
	return when(a.Approvers > 1, fmt.Sprintf(" (%d of %d)", a.Votes, a.Approvers))
}

func editedText(a events.GateAnswer) string {
	return when(len(a.EditedInput) > 0, "with edited arguments, "+Input(a.EditedInput))
}

func expiryText(outcome string) string {
	if outcome == events.ExpiryFails {
		return "the run ends"
	}
	return "it counts as a no"
}

func callText(p events.Payload) string {
	switch d := p.(type) {
	case *events.CallAllowedData:
		return "call " + name(d.ToolRef) + " allowed" + when(d.Edited, " with edited arguments") + when(d.Gate != "", " after gate "+d.Gate) + when(d.Rule != "", " by rule "+d.Rule)
	case *events.CallRefusedData:
		return join(fmt.Sprintf("call %s refused (%s)", name(d.ToolRef), or(d.Rule, d.Code)), Clip(d.Reason, 200))
	case *events.CallStartedData:
		return join(fmt.Sprintf("call %s started in %s%s", name(d.ToolRef), d.Sandbox, when(d.Attempt > 1, fmt.Sprintf(", attempt %d", d.Attempt))), Input([]byte(d.Input)))
	case *events.CallDeferredData:
		return fmt.Sprintf("call %s failed (attempt %d), again in %s: %s", name(d.ToolRef), d.Attempt, ms(d.DelayMS), Clip(d.Error, 200))
	case *events.CallFinishedData:
		return join(fmt.Sprintf("call %s %s in %s", name(d.ToolRef), finishWord(d), ms(d.DurationMS)), Gist(or(d.Output, d.Error), d.ExitCode != nil))
	case *events.CallFailedData:
		return join(fmt.Sprintf("call %s could not be carried out (%s)", name(d.ToolRef), d.Class), Clip(cause(d), 200))
	}
	return string(p.Kind())
}

func finishWord(d *events.CallFinishedData) string {
	switch {
	case d.Success:
		return "finished"
	case d.ExitCode != nil:
		return fmt.Sprintf("ended with exit code %d", *d.ExitCode)
	}
	return "finished without success"
}

func turnText(d *events.TurnFinishedData) string {
	var tools []string
	for _, c := range d.Calls {
		tools = append(tools, Clip(c.Tool, 40))
	}
	wants := d.FinishReason
	if len(tools) > 0 {
		wants = "asks for " + strings.Join(tools, ", ")
	}
	return join(fmt.Sprintf("turn %d of step %s in %s, %d+%d tokens, %s", d.Turn, d.Step, ms(d.DurationMS), d.InputTokens, d.OutputTokens, paid(d.Cost)+wants), Clip(d.Text, 120))
}

func resultText(r events.Result) string {
	return fmt.Sprintf("%d of %s, %s, %s, %s tokens%s in %s", r.StepsCompleted, Plural(r.StepsTotal, "step"), Plural(r.TotalSteps, "turn"),
		Plural(r.ToolCallCount, "tool call"), Count(r.TotalTokens), strings.TrimSuffix(", "+paid(r.Cost), ", "), ms(r.DurationMS))
}

// paid is an amount of money and a comma, "" for none.
func paid(m events.MicroUSD) string {
	if m == 0 {
		return ""
	}
	return m.String() + ", "
}

func stepsText(plan []events.PlanStep) string {
	var ids []string
	for _, st := range plan {
		ids = append(ids, st.ID+when(st.Critical, " (critical)")+when(len(st.Dependencies) > 0, " after "+strings.Join(st.Dependencies, " and ")))
	}
	return Clip(strings.Join(ids, ", "), 200)
}

func name(r events.ToolRef) string { return Clip(r.Tool, 60) + " " + r.Call }

func place(step, call string) string {
	if call == "" {
		return "step " + step
	}
	return "call " + call + " of step " + step
}

func who(by, other string) string { return Clip(or(by, other), 80) }

func when(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

// cause is why a call could not be carried out, without its class: facts of earlier programs say that once more in front.
func cause(d *events.CallFailedData) string { return strings.TrimPrefix(d.Error, d.Class+": ") }
