package view

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// lineRow is the line of one event type.
type lineRow = row[func(p events.Payload) string]

// line makes a row of a function; its payload type says of which event type.
func line[P events.Payload](say func(d P) string) lineRow {
	var none P
	return lineRow{none.Kind(), func(p events.Payload) string {
		if d, ok := p.(P); ok {
			return say(d)
		}
		return ""
	}}
}

// lineRows are the lines of the event types whose row in pkg/events has none.
var lineRows = []lineRow{
	line(func(d *events.RunCreatedData) string {
		from := when(d.Direct, " and started, on the direct path,")
		if d.ForkOf != nil {
			from = fmt.Sprintf(" as a fork of run %s after event %d", d.ForkOf.Run, d.ForkOf.Sequence)
		}
		return fmt.Sprintf("run created%s for agent %s, autonomy %d: %s", from, d.Agent, d.Options.Autonomy,
			Clip(d.Task, 120))
	}),
	line(func(d *events.RunForkedData) string {
		return fmt.Sprintf("takes over the state of the run it was forked from, %s from %s on", Bytes(int64(len(d.Data))),
			Bytes(int64(d.Offset)))
	}),
	line(func(d *events.RunPausedData) string {
		return join("run paused by "+who(d.By, "the harness"), Clip(d.Reason, 300))
	}),
	line(func(d *events.RunResumedData) string { return "run resumed by " + who(d.By, "the harness") }),
	line(func(d *events.RunAdjustedData) string {
		return fmt.Sprintf("autonomy %d became %d, by %s", d.FromAutonomy, d.Autonomy, who(d.By, "somebody"))
	}),
	line(func(d *events.RunMovedData) string {
		return fmt.Sprintf("run moved here from station %s after event %d%s, by %s", d.FromStation, d.Covered,
			when(d.Fork, ", as a fork"), who(d.By, "somebody"))
	}),
	line(func(d *events.RunCompletedData) string {
		return join("run completed: "+resultText(d.Result), Delivery(d.Delivery))
	}),
	line(func(d *events.RunFailedData) string {
		if Stopped(d.Result) {
			return join(join("run stopped by "+who(d.By, "somebody")+", "+resultText(d.Result), Clip(d.Error, 300)),
				Delivery(d.Delivery))
		}
		return join(join("run failed ("+d.FinishReason+"), "+resultText(d.Result), Clip(d.Error, 300)), Delivery(d.Delivery))
	}),
	line(func(d *events.ChildFinishedData) string {
		if d.Outcome == events.ChildIsRefused {
			return join(fmt.Sprintf("no child run for %s (%s)", d.Place(), d.FinishReason), Clip(d.Error, 300))
		}
		text := fmt.Sprintf("child run %s of %s %s (%s), %s, %s tokens%s in %s", d.Child, d.Place(), d.Outcome,
			d.FinishReason,
			Plural(d.Use.ToolCalls, "tool call"), Count(d.Use.InputTokens+d.Use.OutputTokens),
			strings.TrimSuffix(", "+paid(d.Use.Cost), ", "), ms(d.DurationMS))
		return join(text+when(d.Retry, ", is tried once more"), Clip(d.Error, 300))
	}),
	line(func(d *events.CheckFailedData) string {
		text := join(fmt.Sprintf("check failed on step %s: %s", d.Step, d.Name), d.Reason)
		return join(text, Clip(strings.Join(LastLines(d.Output, 1), ""), 200))
	}),
	line(func(d *events.CheckpointSavedData) string {
		return fmt.Sprintf("checkpoint %d (%s) saved as a snapshot, covers %d events", d.Number, Clip(d.Name, 80), d.Covered)
	}),
	line(func(d *events.CheckpointFallbackData) string {
		return fmt.Sprintf("warning: the log of the station is unavailable, events from %d on are stored locally (%s): %s",
			d.Since, Clip(d.Store, 20), Clip(d.Reason, 200))
	}),
	line(func(d *events.PlanRequestedData) string {
		return join(fmt.Sprintf("request %d for a plan of the model", d.Try), Clip(d.Fault, 300))
	}),
	line(func(d *events.PlanDeferredData) string {
		if d.Class == events.ClassBudget {
			return "the plan waits for a budget: " + Clip(d.Error, 200)
		}
		return fmt.Sprintf("the request for a plan failed (attempt %d), %s: %s", d.Attempt, again(d.DelayMS, d.Outage),
			Clip(d.Error, 200))
	}),
	line(func(d *events.PlanAnsweredData) string {
		if d.Error != "" {
			return join("the model gave no plan", Clip(d.Error, 300))
		}
		return fmt.Sprintf("the model answered request %d for a plan, %s in and %s out", d.Try, Count(d.InputTokens),
			Plural(d.OutputTokens, "token"))
	}),
	line(func(d *events.PlanMadeData) string {
		return fmt.Sprintf("plan made (%s), %s: %s", d.Origin, Plural(len(d.Steps), "step"), stepsText(d.Steps))
	}),
	line(func(d *events.PlanRevisedData) string {
		return join(fmt.Sprintf("plan revised by %s, %s removed, %d kept, %d new: %s", who(d.By, "somebody"),
			Plural(len(d.Removed), "step"), len(d.Kept), len(d.Steps), stepsText(d.Steps)), Clip(d.Reason, 300))
	}),
	line(func(d *events.PlanCompletedData) string {
		return fmt.Sprintf("plan completed, %s", Plural(d.Steps, "step"))
	}),
	line(func(d *events.StepReadyData) string {
		return "step " + d.Step + " is ready" + when(d.Critical, ", and critical")
	}),
	line(func(d *events.StepAllowedData) string {
		return "step " + d.Step + " allowed" + when(d.Gate != "", " after gate "+d.Gate)
	}),
	line(func(d *events.StepFinishedData) string {
		return join(fmt.Sprintf("step %s finished%s%s", d.Step, turnsText(d.Turns), checkpointText(d.Checkpoint)),
			Clip(d.Output, 120))
	}),
	line(func(d *events.StepFailedData) string {
		return join(fmt.Sprintf("step %s failed (%s)%s%s", d.Step, d.FinishReason, turnsText(d.Turns),
			checkpointText(d.Checkpoint)), Clip(d.Error, 300))
	}),
	line(func(d *events.TurnDeferredData) string {
		if d.Class == events.ClassBudget {
			return fmt.Sprintf("turn %d of step %s waits for a budget: %s", d.Turn, d.Step, Clip(d.Error, 200))
		}
		return fmt.Sprintf("turn %d of step %s: the model request failed (attempt %d), %s: %s", d.Turn, d.Step,
			d.Attempt, again(d.DelayMS, d.Outage), Clip(d.Error, 200))
	}),
	line(turnText),
	line(func(d *events.HistoryCompactedData) string {
		return fmt.Sprintf("history of step %s compacted: %s became a summary, about %s tokens became %s of %s, the last %s untouched", d.Step, Plural(d.Replaced, "turn"),
			Count(d.TokensBefore), Count(d.TokensAfter), Count(d.Window), Count(d.Protected))
	}),
	line(artifactText),
	line(func(d *events.GateOpenedData) string {
		return fmt.Sprintf("gate %s waits for a person before %s: %s (%s)", d.Gate, position(d.Step, d.Call),
			Clip(d.Description, 160), Clip(d.Reason, 160))
	}),
	line(func(d *events.GateApprovedData) string {
		return join(fmt.Sprintf("gate %s approved by %s%s after %s", d.Gate, giver(d.GateAnswer), votes(d.GateAnswer),
			ms(d.WaitMS)), Clip(or(d.Reason, editedText(d.GateAnswer)), 200))
	}),
	line(func(d *events.GateVotedData) string {
		return join(fmt.Sprintf("gate %s approved by %s%s, it waits for more", d.Gate, giver(d.GateAnswer), votes(d.GateAnswer)),
			Clip(or(d.Reason, editedText(d.GateAnswer)), 200))
	}),
	line(func(d *events.GateExpiredData) string {
		return fmt.Sprintf("gate %s expired after %s without an answer: %s", d.Gate, ms(d.WaitMS), expiryText(d.Outcome))
	}),
	line(func(d *events.GateRejectedData) string {
		return join(fmt.Sprintf("gate %s rejected by %s after %s", d.Gate, giver(d.GateAnswer), ms(d.WaitMS)), Clip(d.Reason, 200))
	}),
	line(func(d *events.CallAllowedData) string {
		return "call " + name(d.ToolRef) + " allowed" + when(d.Edited, " with edited arguments") + when(d.Gate != "",
			" after gate "+d.Gate) + when(d.Rule != "", " by rule "+d.Rule)
	}),
	line(func(d *events.CallRefusedData) string {
		return join(fmt.Sprintf("call %s refused (%s)", name(d.ToolRef), or(d.Rule, d.Code)), Clip(d.Reason, 200))
	}),
	line(func(d *events.CallStartedData) string {
		return join(fmt.Sprintf("call %s started in %s%s", name(d.ToolRef), d.Sandbox,
			when(d.Attempt > 1, fmt.Sprintf(", attempt %d", d.Attempt))), Input([]byte(d.Input)))
	}),
	line(func(d *events.CallDeferredData) string {
		return fmt.Sprintf("call %s failed (attempt %d), again in %s: %s", name(d.ToolRef), d.Attempt, ms(d.DelayMS),
			Clip(d.Error, 200))
	}),
	line(func(d *events.CallFinishedData) string {
		return join(fmt.Sprintf("call %s %s in %s", name(d.ToolRef), finishWord(d), ms(d.DurationMS)),
			Gist(or(d.Output, d.Error), d.ExitCode != nil))
	}),
	line(func(d *events.CallFailedData) string {
		return join(fmt.Sprintf("call %s failed (%s)", name(d.ToolRef), d.Class), Clip(cause(d), 200))
	}),
}

var lines = index(lineRows)

// again says when a request that failed is made again.
func again(delayMS int64, o events.Outage) string {
	if o.Pause {
		return "again once the run was paused and resumed"
	}
	return "again in " + ms(delayMS)
}
