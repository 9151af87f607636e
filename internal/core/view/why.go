package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Wait is one thing that a run waits for.
type Wait struct {
	// On is gate, resume, planner, gatekeeper, executor, toolrunner, provider, retry, call, child, budget, time, signal or
	// nothing.
	On string `json:"on"`
	// Step, Call and Gate it is about, where it is about one.
	Step string `json:"step_id,omitempty"`
	Call string `json:"call_id,omitempty"`
	Gate string `json:"gate_id,omitempty"`
	// Child is the run that it waits for.
	Child string `json:"sub_agent_id,omitempty"`
	// Provider of models that did not answer, HTTPStatus of its refusal, and Try, the number of the next request.
	Provider   string `json:"provider,omitempty"`
	HTTPStatus int    `json:"http_status,omitempty"`
	Try        int    `json:"try,omitempty"`
	// Since it waits; zero where it does not. Until is when a retry is due.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Text says it in words, without the times; Command is what a person can do about it.
	Text    string `json:"text"`
	Command string `json:"command,omitempty"`
}

// What a run can wait for. Four of them are the roles.
const (
	OnNothing  = "nothing"
	OnGate     = "gate"
	OnResume   = "resume"
	OnProvider = "provider"
	OnRetry    = "retry"
	OnCall     = "call"
	OnBudget   = "budget"
	OnChild    = "child"
	OnTime     = "time"
	OnSignal   = "signal"
)

// Line says it in words with the times, those of the day in the zone of now.
func (w Wait) Line(now time.Time) string {
	text := w.Text
	switch {
	case w.On == OnProvider:
		text += fmt.Sprintf(" since %s; next try in %s at %s; try %d", Since(w.Since, now), Since(now, w.Until),
			w.Until.In(now.Location()).Format("15:04:05"), w.Try)
	case w.On == OnTime:
		text += " for " + Since(now, w.Until) + " more"
	case w.On == OnSignal && !w.Until.IsZero():
		text += " for " + Since(w.Since, now) + ", at most " + Since(now, w.Until) + " more"
	case !w.Until.IsZero():
		text += ", again in " + Since(now, w.Until)
	case !w.Since.IsZero() && w.On == OnNothing:
		text += " " + Since(w.Since, now) + " ago"
	case !w.Since.IsZero():
		text += " for " + Since(w.Since, now)
	}
	if w.Command != "" {
		text += "; " + w.Command
	}
	return Clip(text, maxLine)
}

// Why says in one line what a run waits for and for how long (PLUS-5).
func Why(s run.State, now time.Time) string {
	var lines []string
	for _, w := range Waits(s, now) {
		lines = append(lines, w.Line(now))
	}
	return strings.Join(lines, " | ")
}

// Waits says what a run waits for, what a person must do first. There is always at least one.
func Waits(s run.State, now time.Time) []Wait {
	planner := string(events.Planner)
	switch {
	case s.Sequence == 0:
		return []Wait{{On: OnNothing, Text: "no such run"}}
	case s.Status.Ended():
		return []Wait{ended(s)}
	case s.Status == events.Created:
		return []Wait{{On: planner, Since: s.CreatedAt, Text: "created, and waits to be started by the planner"}}
	case s.Stopping != nil:
		return []Wait{{On: planner, Since: s.UpdatedAt, Text: fmt.Sprintf("stopping (%s): waits for %s to end",
			s.Stopping.FinishReason, Plural(len(s.Living()), "child run"))}}
	case s.Status == events.Paused && s.AwaitsBudget() != nil:
		return []Wait{{On: OnBudget, Since: s.UpdatedAt, Text: join("paused", Clip(s.PauseReason, 300)),
			Command: "inspan budget list shows all"}}
	case s.Status == events.Paused:
		return []Wait{{On: OnResume, Since: s.UpdatedAt, Text: join("paused", Clip(s.PauseReason, 200)) +
			"; waits to be resumed", Command: goOn(s)}}
	case s.Plan == nil && s.Planning != nil && s.Awaits(s.Planning.Outage):
		return []Wait{providerWait("the plan", s.Planning.Outage, s.Planning.NotBefore, now)}
	case s.Plan == nil:
		return []Wait{{On: planner, Since: s.UpdatedAt, Text: "waits for the planner, whose model makes the plan"}}
	}
	var waits []Wait
	for _, g := range s.Waiting() {
		waits = append(waits, Wait{On: OnGate, Step: g.StepID, Call: g.CallID, Gate: g.ID, Since: g.CreatedAt,
			Text: fmt.Sprintf("%s waits for a person at gate %s (%s)", position(g.StepID, g.CallID), g.ID,
				Clip(g.Description, 80)) + gateTerms(g, now), Command: "inspan approve " + s.HarnessID + "/" + g.ID})
	}
	for _, st := range s.Plan.Steps {
		waits = append(waits, stepWaits(s, st, now)...)
	}
	if len(waits) == 0 {
		waits = append(waits, Wait{On: planner, Since: s.UpdatedAt, Text: "waits for the next step from the planner"})
	}
	return waits
}

// goOn is what a person can do about a run that is paused. After a no at a gate that may be another plan for what has
// not begun.
func goOn(s run.State) string {
	command := "inspan resume " + s.HarnessID
	if Replannable(s) {
		command += " goes on as planned, inspan revise " + s.HarnessID + " --plan FILE replaces the steps that have not begun"
	}
	return command
}

// Replannable reports whether a run is paused because of a gate before a step or a call of its plan, and can be given
// another plan.
func Replannable(s run.State) bool {
	return s.Revisable() == "" && slices.ContainsFunc(s.Gates, func(g *run.Gate) bool {
		return (g.Status == run.GateRejected || g.Status == run.GateExpired) && g.Resolution > s.ResumedAt &&
			s.Step(g.StepID) != nil
	})
}

// gateTerms tells what else there is to know of a gate that waits.
func gateTerms(g *run.Gate, now time.Time) string {
	text := ""
	if g.Approvers > 1 {
		text = fmt.Sprintf(", %d of %d approvals", len(g.Votes), g.Approvers)
	}
	if !g.ExpiresAt.IsZero() {
		text += ", expires in " + Span(g.ExpiresAt.Sub(now))
	}
	return text
}

func ended(s run.State) Wait {
	w := Wait{On: OnNothing, Since: s.UpdatedAt, Text: string(s.Status)}
	if s.Result != nil {
		w.Text = join(fmt.Sprintf("%s (%s)", s.Status, s.Result.FinishReason), Clip(s.Result.Error, 200)) + ","
		if Stopped(*s.Result) {
			w.Text = join("stopped by "+who(s.Result.By, "somebody"), Clip(s.Result.Error, 200)) + ","
		}
	}
	return w
}

func stepWaits(s run.State, st *run.Step, now time.Time) []Wait {
	w := Wait{Step: st.ID, Since: s.UpdatedAt}
	switch {
	case st.Status == events.StepIsReady:
		if g := s.GateFor(st.ID, ""); g != nil && g.Status == run.GatePending {
			return nil // said by the gate
		}
		w.On, w.Text = string(events.Gatekeeper), "step "+st.ID+" waits for the gatekeeper"
		return []Wait{w}
	case st.Part != nil && st.Status == events.StepIsPending && now.Before(st.Part.NotBefore):
		w.On, w.Until, w.Text = OnRetry, st.Part.NotBefore, fmt.Sprintf("step %s: attempt %d waits for its time", st.Part.Of,
			st.Part.Number)
		if of := s.Step(st.Part.Of); of != nil && of.Flow != nil && of.Flow.Wake != nil {
			w.On, w.Text = OnTime, "step "+of.ID+" waits for the next wake-up of its agent"
		}
		return []Wait{w}
	case st.Status != events.StepIsRunning:
		return nil
	case st.Child != "":
		return []Wait{childWait(s, st)}
	case st.Owed > 0 && s.Awaits(st.Outage):
		w = providerWait("step "+st.ID, st.Outage, st.NotBefore, now)
		w.Step = st.ID
		return []Wait{w}
	case st.Owed > 0 && now.Before(st.NotBefore):
		w.On, w.Until = OnRetry, st.NotBefore
		w.Text = fmt.Sprintf("step %s: the model request failed %s", st.ID, times(st.Attempt))
		return []Wait{w}
	case st.Owed > 0 && budget.Ask(s, st, 0).Wait:
		w.On, w.Text = OnBudget, "step "+st.ID+" waits for the budget that turns of other steps hold"
		return []Wait{w}
	case st.Owed > 0 && st.Kind != "":
		w.On, w.Text = string(events.Executor), "step "+st.ID+" waits for the next turn of the executor"
		return []Wait{w}
	case st.Owed > 0:
		w.On, w.Text = string(events.Executor), "step "+st.ID+" waits for the executor's model turn"
		return []Wait{w}
	case st.Claimed().Open():
		c := st.Claimed()
		if _, place, asks := st.Asks(); asks {
			if g := s.GateFor(st.ID, place); g != nil && g.Status == run.GatePending {
				return nil // said by the gate
			} else if g == nil {
				w.On, w.Text = string(events.Gatekeeper), fmt.Sprintf("step %s waits for the gatekeeper to ask: %s", st.ID,
					c.Checks[c.Passed])
				return []Wait{w}
			}
		}
		w.On, w.Text = string(events.Toolrunner), fmt.Sprintf("step %s waits for check %d of %d: %s", st.ID, c.Passed+1,
			len(c.Checks), c.Checks[c.Passed])
		return []Wait{w}
	case st.Final:
		w.On, w.Text = string(events.Executor), "step "+st.ID+" waits for the executor to close it"
		return []Wait{w}
	}
	if w, ok := flowWait(s, st, now); ok {
		return []Wait{w}
	}
	var waits []Wait
	for _, c := range openCalls(s, st.ID) {
		if w, ok := callWait(s, c, now); ok {
			waits = append(waits, w)
		}
	}
	return waits
}

// providerWait is the wait of the request for a turn or the plan, what, for its provider. Where the request is due, it
// is the executor's to make.
func providerWait(what string, o *run.Outage, until, now time.Time) Wait {
	name := "provider " + Clip(o.Provider, 60)
	if o.HTTPStatus > 0 {
		name += fmt.Sprintf(" (%d)", o.HTTPStatus)
	}
	w := Wait{On: OnProvider, Provider: o.Provider, HTTPStatus: o.HTTPStatus, Try: o.Tries + 1, Since: o.Since,
		Until: until,
		Text:  what + ": waiting for " + name}
	switch {
	case run.ForBudget(o):
		w.On, w.Provider, w.Until = OnBudget, "", time.Time{}
		w.Text = what + ": waits for the planner to reserve more of its budgets"
	case o.Pause:
		w.On, w.Until = string(events.Planner), time.Time{}
		w.Text = what + ": waits for the planner, which pauses the run because of " + name
	case !now.Before(until):
		w.On, w.Since, w.Until = string(events.Executor), until, time.Time{}
		w.Text = fmt.Sprintf("%s: waits for the executor's model turn, try %d after %s did not answer", what, w.Try, name)
	}
	return w
}

func openCalls(s run.State, step string) []*run.Call {
	var calls []*run.Call
	for _, c := range s.Open {
		if c.Step == step {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *run.Call) int { return strings.Compare(a.ID, b.ID) })
	return calls
}

func callWait(s run.State, c *run.Call, now time.Time) (w Wait, ok bool) {
	call := fmt.Sprintf("call %s %s (%s)", Clip(c.Tool, 60), c.ID, Clip(Input(c.Input), 60))
	w = Wait{Step: c.Step, Call: c.ID, Since: s.UpdatedAt}
	switch c.Phase {
	case run.CallRequested:
		if g := s.GateFor(c.Step, c.ID); g != nil && g.Status == run.GatePending {
			return w, false // said by the gate
		}
		w.On, w.Text = string(events.Gatekeeper), call+" waits for the gatekeeper"
	case run.CallAllowed:
		w.On, w.Text = string(events.Toolrunner), call+" waits for a toolrunner"
		switch {
		case c.Tool == events.ToolDelegateResult:
			w.On, w.Text = OnChild, call+" waits for work in the background"
		case c.Effect == "read":
			w.Text = call + " waits for a toolrunner, or is being read"
		}
	case run.CallStarted:
		w.On, w.Since, w.Text = OnCall, c.StartedAt, fmt.Sprintf("%s runs on %s", call, Clip(c.Runner, 80))
	case run.CallDelegated:
		w.On, w.Since, w.Text = string(events.Planner), c.StartedAt, call+" waits for the planner to begin its child run"
		if k := s.ChildAt(c.Step, c.ID); k != nil && k.Lives() {
			w.On, w.Child, w.Command = OnChild, k.ID, "inspan why "+k.ID
			w.Text = call + " waits for child run " + k.ID + " of agent " + Clip(k.Agent, 60)
		}
	case run.CallMailed:
		w.On, w.Since, w.Text = string(events.Planner), c.StartedAt, call+" waits for the planner to deliver its mail"
	case run.CallDeferred:
		w.On, w.Until, w.Text = OnRetry, c.NotBefore, fmt.Sprintf("%s failed %s", call, times(c.Attempt))
		if !now.Before(c.NotBefore) {
			w.On, w.Since, w.Until, w.Text = string(events.Toolrunner), c.NotBefore, time.Time{},
				call+" is due again and waits for a toolrunner"
		}
	}
	return w, true
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
