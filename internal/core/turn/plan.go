package turn

import (
	"time"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// PlanTask is a request for a plan that the model is to be asked for.
type PlanTask struct {
	// Try is the number of the request, Attempt how often it is made with this, both from 1.
	Try, Attempt int
	// Owed identifies the debt: it is paid once.
	Owed uint64
	// Lost counts the attempts of which no one knows whether they were made.
	Lost int
}

// PlanDuty is what the executor owes a run that waits for its plan. At most one field is set; all empty means nothing.
type PlanDuty struct {
	Ask    *PlanTask
	Append []events.Payload
	Wait   time.Time
}

// NextPlan says what is owed to a run that waits for its plan, where so many attempts may have been made by somebody
// who was lost.
func NextPlan(s run.State, now time.Time, lost int) PlanDuty {
	p := s.Planning
	if s.Status != events.Running || p == nil || p.Owed == 0 || s.Held != nil || s.Suspended(p.Outage) {
		return PlanDuty{}
	}
	if now.Before(p.NotBefore) {
		return PlanDuty{Wait: p.NotBefore}
	}
	task := PlanTask{Try: p.Try, Attempt: p.Attempt + 1, Owed: p.Owed, Lost: lost}
	switch v := budget.AskPlan(s, lost); {
	case v.Reason != "":
		return PlanDuty{Append: []events.Payload{unplanned(s, task, v.Reason, v.Text, lost)}}
	case v.Short:
		return PlanDuty{Append: []events.Payload{&events.PlanDeferredData{Event: "error", Try: p.Try, Error: v.Text,
			Class: events.ClassBudget, Attempt: p.Attempt, NotBefore: now, Lost: budget.LostPlans(s, lost),
			Outage: events.OutageOfBudget()}}}
	}
	return PlanDuty{Ask: &task}
}

// FinishPlan records the answer to a request for a plan, also of a run that was paused meanwhile.
func FinishPlan(s run.State, task PlanTask, d events.PlanAnsweredData) []events.Payload {
	if !owesPlan(s, task) {
		return nil
	}
	d.Event, d.Try, d.Attempt = "plan_answered", task.Try, task.Attempt
	d.TotalTokens = s.Tokens.Total() + d.InputTokens + d.OutputTokens
	d.ModelRef, d.Cost = budget.Paid(s.Prices, s.Agents[s.AgentName].Model, d.Provider, d.Model,
		budget.Usage{Input: d.InputTokens, Output: d.OutputTokens, Cached: d.CachedTokens, Written: d.CacheWriteTokens})
	d.Lost = budget.LostPlans(s, task.Lost)
	return []events.Payload{&d}
}

// FailPlan records a request for a plan that was not answered: it is made again later, or the run gets no plan.
func FailPlan(s run.State, task PlanTask, f Failure, now time.Time) []events.Payload {
	if !owesPlan(s, task) || s.Planning.Attempt+1 != task.Attempt {
		return nil
	}
	n := task.Lost
	if f.Begun {
		n++
	}
	if f.ends(task.Attempt) {
		return []events.Payload{unplanned(s, task, events.FinishError, f.Error, n)}
	}
	outage, delay, text := f.wait(s.Lasting(s.Planning.Outage), task.Attempt, now)
	return []events.Payload{&events.PlanDeferredData{Event: "error", Try: task.Try, Error: text, Class: f.Class,
		Attempt: task.Attempt, DelayMS: delay.Milliseconds(), NotBefore: now.Add(delay), Lost: budget.LostPlans(s, n),
		Outage: outage}}
}

// owesPlan reports whether a run still owes that very request.
func owesPlan(s run.State, task PlanTask) bool {
	return !s.Status.Ended() && s.Plan == nil && s.Planning != nil && s.Planning.Owed == task.Owed
}

// unplanned ends a request for a plan without an answer.
func unplanned(s run.State, task PlanTask, reason, text string, lost int) *events.PlanAnsweredData {
	return &events.PlanAnsweredData{Event: "plan_answered", Try: task.Try, Attempt: task.Attempt, Error: text,
		RunReason:   reason,
		TotalTokens: s.Tokens.Total(), Lost: budget.LostPlans(s, lost)}
}
