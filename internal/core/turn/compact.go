package turn

import (
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Compact records a summary that was asked for because a turn was owed. It says nothing where the debt was paid or
// where somebody else compacted as far, or further, before: a second look answers nothing.
func Compact(s run.State, task Task, d events.HistoryCompactedData) []events.Payload {
	st := owing(s, task)
	if st == nil || st.Compacted != nil && st.Compacted.Through >= d.Through {
		return nil
	}
	d.ModelRef, d.Cost = budget.Paid(s.Prices, s.Agents[st.AssignedAgent].Model, d.Provider, d.Model,
		budget.Usage{Input: d.InputTokens, Output: d.OutputTokens, Cached: d.CachedTokens, Written: d.CacheWriteTokens})
	return []events.Payload{&d}
}

// Inject records mail that the turn which is owed will be shown; nothing where that debt was paid.
func Inject(s run.State, task Task, d *events.MailInjectedData) []events.Payload {
	st := owing(s, task)
	if st == nil || d == nil || st.Final || s.Status != events.Running {
		return nil
	}
	return []events.Payload{d}
}

// Full ends a step whose prompt does not fit the model's context window, also with all of its history compacted.
func Full(s run.State, task Task, why string) []events.Payload {
	st := owing(s, task)
	if st == nil {
		return nil
	}
	return []events.Payload{failed(s, st, events.FinishContext, why)}
}

// owing is the step of a task that is still owed that very turn, or nil.
func owing(s run.State, task Task) *run.Step {
	st := s.Step(task.Step.ID)
	if s.Status.Ended() || st == nil || st.Status != events.StepIsRunning || st.Owed != task.Owed {
		return nil
	}
	return st
}
