// Package view puts facts and states into words for people.
//
// Promises: the same fact gives the same line, the same state the same answer. Nothing is hidden but length; control
// characters of what others wrote are made visible.
package view

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Line is one line of the activity log (EVT-12).
func Line(f events.Fact, p events.Payload) string {
	return fmt.Sprintf("%s %-5d %-12s %s", f.Time.UTC().Format("15:04:05.000"), f.Sequence, f.Author(), Text(p))
}

// maxLine is the most characters of an answer of Text or Why.
const maxLine = 4000

// Text says in words, on one line, what a fact says.
func Text(p events.Payload) string { return Clip(text(p), maxLine) }

func text(p events.Payload) string {
	switch d := p.(type) {
	case *events.RunCreatedData:
		return fmt.Sprintf("run created for agent %s: %s", d.Agent, Clip(d.Task, 100))
	case *events.RunStartedData:
		return "run started"
	case *events.RunPausedData:
		return join("run paused by "+or(d.By, "the harness"), d.Reason)
	case *events.RunResumedData:
		return "run resumed by " + or(d.By, "the harness")
	case *events.RunAdjustedData:
		return fmt.Sprintf("autonomy %d became %d, by %s", d.FromAutonomy, d.Autonomy, or(d.By, "unknown"))
	case *events.RunCompletedData:
		return fmt.Sprintf("run completed: %d steps, %d turns, %d tool calls, %d tokens, %s", d.StepsCompleted, d.TotalSteps, d.ToolCallCount, d.TotalTokens, ms(d.DurationMS))
	case *events.RunFailedData:
		return join("run failed ("+d.FinishReason+")", d.Error)
	case *events.PlanMadeData:
		return fmt.Sprintf("plan made (%s): %s", d.Origin, steps(d.Steps))
	case *events.PlanCompletedData:
		return "plan completed"
	case *events.StepReadyData:
		return "step " + d.Step + " is ready"
	case *events.StepAllowedData:
		return join("step "+d.Step+" allowed", gate(d.Gate))
	case *events.StepFinishedData:
		return join(fmt.Sprintf("step %s finished after %d turns", d.Step, d.Turns), Clip(d.Output, 100))
	case *events.StepFailedData:
		return join("step "+d.Step+" failed ("+d.FinishReason+")", Clip(d.Error, 300))
	case *events.TurnDeferredData:
		return fmt.Sprintf("model request failed (attempt %d), again in %s: %s", d.Attempt, ms(d.DelayMS), Clip(d.Error, 200))
	case *events.TurnFinishedData:
		return join(fmt.Sprintf("turn %d of step %s: %d calls, %d+%d tokens, %s", d.Turn, d.Step, len(d.Calls), d.InputTokens, d.OutputTokens, d.FinishReason), Clip(d.Text, 100))
	case *events.GateOpenedData:
		return join("waiting for a person at gate "+d.Gate+": "+Clip(d.Description, 120), d.Reason)
	case *events.GateApprovedData:
		return join(fmt.Sprintf("gate %s approved by %s after %s", d.Gate, d.By, ms(d.WaitMS)), d.Reason)
	case *events.GateRejectedData:
		return join(fmt.Sprintf("gate %s rejected by %s after %s", d.Gate, d.By, ms(d.WaitMS)), d.Reason)
	case *events.CheckpointSavedData:
		return fmt.Sprintf("checkpoint %d saved (%s), covers %d facts", d.Number, d.Name, d.Covered)
	}
	return callText(p)
}

func callText(p events.Payload) string {
	switch d := p.(type) {
	case *events.CallAllowedData:
		return join(name(d.ToolRef)+" allowed", gate(d.Gate))
	case *events.CallRefusedData:
		return join(name(d.ToolRef)+" refused ("+or(d.Rule, d.Code)+")", Clip(d.Reason, 200))
	case *events.CallStartedData:
		return join(fmt.Sprintf("%s started, attempt %d in %s", name(d.ToolRef), d.Attempt, d.Sandbox), Clip(d.Input, 120))
	case *events.CallDeferredData:
		return fmt.Sprintf("%s failed (attempt %d), again in %s: %s", name(d.ToolRef), d.Attempt, ms(d.DelayMS), Clip(d.Error, 200))
	case *events.CallFinishedData:
		word := "finished"
		if !d.Success {
			word = "finished without success"
		}
		return join(fmt.Sprintf("%s %s in %s", name(d.ToolRef), word, ms(d.DurationMS)), Clip(d.Output, 100))
	case *events.CallFailedData:
		return join(fmt.Sprintf("%s failed (%s)", name(d.ToolRef), d.Class), Clip(d.Error, 200))
	}
	return string(p.Kind())
}

func name(r events.ToolRef) string { return r.Tool + " " + r.Call }

func gate(id string) string {
	if id == "" {
		return ""
	}
	return "gate " + id
}

func steps(plan []events.PlanStep) string {
	var ids []string
	for _, st := range plan {
		id := st.ID
		if st.Critical {
			id += "!"
		}
		ids = append(ids, id)
	}
	return Clip(strings.Join(ids, ", "), 120)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + ": " + b
}

func ms(n int64) string { return Span(time.Duration(n) * time.Millisecond) }

// Span is a duration for people.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Clip puts a text on one line of at most n characters and shows what a terminal would act on.
func Clip(s string, n int) string {
	var b strings.Builder
	count := 0
	for _, r := range strings.Join(strings.Fields(s), " ") {
		if count++; count > n {
			return b.String() + "..."
		}
		b.WriteRune(shown(r))
	}
	return b.String()
}

// Whole is a text of several lines with what a terminal would act on made visible; nothing is left out.
func Whole(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return shown(r)
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

func shown(r rune) rune {
	if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) {
		return '\u00b7'
	}
	return r
}

// Why says in one line what a run waits for, and since when (PLUS-5).
func Why(s run.State, now time.Time) string { return Clip(why(s, now), maxLine) }

func why(s run.State, now time.Time) string {
	since := func(at time.Time) string { return Span(max(0, now.Sub(at))) }
	switch {
	case s.Sequence == 0:
		return "there is no such run"
	case s.Status == events.Created:
		return "created " + since(s.CreatedAt) + " ago and not started: waits for a planner"
	case s.Status.Ended():
		return join(fmt.Sprintf("%s %s ago (%s)", s.Status, since(s.UpdatedAt), s.Result.FinishReason), Clip(s.Result.Error, 300))
	case s.Status == events.Paused:
		return join("paused for "+since(s.UpdatedAt), s.PauseReason) + "; go on with: inspan resume " + s.HarnessID
	case s.Plan == nil:
		return "waits for a plan for " + since(s.UpdatedAt) + ": its agent asks a model"
	}
	var why []string
	for _, g := range s.Waiting() {
		why = append(why, fmt.Sprintf("gate %s waits for a person for %s (%s); answer with: inspan approve %s", g.ID, since(g.CreatedAt), Clip(g.Description, 80), g.ID))
	}
	for _, st := range s.Plan.Steps {
		why = append(why, whyStep(s, st, now)...)
	}
	if len(why) == 0 {
		return "the planner owes the next step for " + since(s.UpdatedAt)
	}
	return strings.Join(why, "; ")
}

func whyStep(s run.State, st *run.Step, now time.Time) []string {
	switch {
	case st.Status == events.StepIsReady:
		if g := s.GateFor(st.ID, ""); g != nil && g.Status == run.GatePending {
			return nil
		}
		return []string{fmt.Sprintf("step %s waits for the gatekeeper", st.ID)}
	case st.Status != events.StepIsRunning:
		return nil
	case st.Owed > 0 && now.Before(st.NotBefore):
		return []string{fmt.Sprintf("step %s: the model request failed %d times, again in %s", st.ID, st.Attempt, Span(st.NotBefore.Sub(now)))}
	case st.Owed > 0 || st.Final:
		return []string{fmt.Sprintf("step %s: a model turn is owed or under way for %s (executor)", st.ID, Span(max(0, now.Sub(s.UpdatedAt))))}
	}
	var why []string
	for _, c := range s.Open {
		if c.Step == st.ID {
			why = append(why, whyCall(s, c, now))
		}
	}
	return why
}

func whyCall(s run.State, c *run.Call, now time.Time) string {
	call := "call " + c.Tool + " " + c.ID
	switch c.Phase {
	case run.CallStarted:
		return fmt.Sprintf("%s runs on %s for %s", call, c.Runner, Span(max(0, now.Sub(c.StartedAt))))
	case run.CallDeferred:
		return fmt.Sprintf("%s failed %d times, again in %s", call, c.Attempt, Span(max(0, c.NotBefore.Sub(now))))
	case run.CallAllowed:
		return call + " waits for a toolrunner"
	case run.CallRequested:
		if g := s.GateFor(c.Step, c.ID); g != nil && g.Status == run.GatePending {
			return call + " waits at gate " + g.ID
		}
	}
	return call + " waits for the gatekeeper"
}
