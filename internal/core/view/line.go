package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Line is one line of the activity log (EVT-12): when, the place in the run, who, and what. zone is nil for UTC.
func Line(f events.Event, p events.Payload, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return fmt.Sprintf("%s %4d  %-10s  %s", f.Time.In(zone).Format("2006-01-02 15:04:05.000"), f.Sequence, f.Author(),
		Text(p))
}

// maxLine is the most characters of an answer of Text or Why.
const maxLine = 4000

// Text says in words, on one line, what an event says.
func Text(p events.Payload) string {
	say := lines[p.Kind()]
	if w, ok := events.Lookup(p.Kind()); say == nil && ok {
		say = w.Line
	}
	if say == nil {
		return Clip(string(p.Kind()), maxLine)
	}
	return Clip(say(p), maxLine)
}

// turnsText is how many turns a step took: nothing where a child or a person did what there was to do.
func turnsText(n int) string {
	return when(n > 0, " after "+Plural(n, "turn"))
}

func checkpointText(number int) string {
	return when(number > 0, fmt.Sprintf(", checkpoint %d", number))
}

// giver is who gave an answer, and for whom.
func giver(a events.GateAnswer) string {
	if a.Deputy == nil {
		return Clip(a.By, 80)
	}
	return Clip(a.Deputy.By, 80) + " for " + Clip(a.By, 80)
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
	if outcome == events.ExpiryEscalates {
		return "others are asked"
	}
	return "it counts as a reject"
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
	if d.Estimated {
		wants = "estimated, " + wants
	}
	if len(tools) > 0 {
		wants = "asks for " + strings.Join(tools, ", ")
	}
	return join(fmt.Sprintf("turn %d of step %s in %s, %d+%d tokens, %s", d.Turn, d.Step, ms(d.DurationMS), d.InputTokens,
		d.OutputTokens, paid(d.Cost)+wants), Clip(d.Text, 120))
}

func resultText(r events.Result) string {
	return fmt.Sprintf("%d of %s, %s, %s, %s tokens%s in %s", r.StepsCompleted, Plural(r.StepsTotal, "step"),
		Plural(r.TotalSteps, "turn"),
		Plural(r.ToolCallCount, "tool call"), Count(r.TotalTokens), strings.TrimSuffix(", "+paid(r.Cost), ", "),
		ms(r.DurationMS)) + belowText(r.Below) + when(r.Success, ", "+Verified(&r))
}

// belowText is what the children of a run spent beside it, "" where it had none.
func belowText(u *events.Use) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf(", and %s with %s, %s tokens%s", Plural(u.Runs, "child run"), Plural(u.ToolCalls, "tool call"),
		Count(u.InputTokens+u.OutputTokens), strings.TrimSuffix(", "+paid(u.Cost), ", "))
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
		ids = append(ids, st.ID+when(st.Critical, " (critical)")+when(len(st.Dependencies) > 0,
			" after "+strings.Join(st.Dependencies, " and ")))
	}
	return Clip(strings.Join(ids, ", "), 200)
}

func name(r events.ToolRef) string { return Clip(r.Tool, 60) + " " + r.Call }

func position(step, call string) string {
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

// cause is why a call could not be carried out, without its class: events of earlier programs say that once more in
// front.
func cause(d *events.CallFailedData) string { return strings.TrimPrefix(d.Error, d.Class+": ") }
