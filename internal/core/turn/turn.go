// Package turn decides about model turns: when one is owed, what an answer means, and when a step is done.
//
// Promises: a step ends for exactly one reason, each with its own finish reason (LOOP-4). A turn that somebody else
// finished first is not finished again. A model request that its provider did not answer is made again until the
// provider was waited for as long as it may be, each delay at least twice the one before up to MaxDelay; then the run
// is paused. No time of an event is taken from a clock here.
package turn

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Limits of one turn.
const (
	// MaxAttempts of a model request that is answered in vain.
	MaxAttempts = 6
	// BaseDelay before the second attempt.
	BaseDelay = time.Second
	// MaxDelay bounds the doubling, not a longer wait that the provider asks for.
	MaxDelay = 2 * time.Minute
)

// Task is a turn that is owed.
type Task struct {
	Step *run.Step
	// Number of the turn within its step, and Attempt of its request, both from 1.
	Number, Attempt int
	// Owed identifies the debt: it is paid once.
	Owed uint64
	// Lost counts the requests for this turn of which no one knows whether they were made.
	Lost int
	// Mail counts the messages that the step was given before: they are in the prompt of this turn.
	Mail int
}

// Duty is what the executor owes a step. At most one field is set; all empty means nothing.
type Duty struct {
	Ask    *Task
	Append []events.Payload
	Wait   time.Time
}

// LookAgain is how soon a turn that the budget has no room for now is looked at again.
const LookAgain = time.Second

// Next says what is owed to a step.
func Next(s run.State, stepID string, now time.Time) Duty { return NextAfter(s, stepID, now, 0) }

// NextAfter is Next where so many requests for the turn may have been made by somebody who was lost.
func NextAfter(s run.State, stepID string, now time.Time, lostRequests int) Duty {
	st := s.Step(stepID)
	if s.Status != events.Running || st == nil || st.Status != events.StepIsRunning {
		return Duty{}
	}
	if st.Child != "" && (!st.Harness() || st.Owed == 0) {
		return Duty{Append: child.Close(s, st)}
	}
	if st.Final {
		return Duty{Append: closing(s, st)}
	}
	if st.Owed == 0 || s.Held != nil && s.Held.Told || s.Suspended(st.Outage) {
		return Duty{} // nothing, or not before the run was paused and a person lets it go on
	}
	if s.Held != nil {
		return Duty{Append: []events.Payload{interrupted(s, st, nil, hook.Why(s.Held.HookAnswer), now)}}
	}
	if st.Child != "" {
		if say := delivery.Worktree(s, st); len(say) > 0 {
			return Duty{Append: say}
		}
		return Duty{Append: child.Close(s, st)}
	}
	if st.Kind != "" {
		return Duty{Append: delivery.Next(s, st)}
	}
	if most := maxSteps(s, st); st.Turns >= most {
		return Duty{Append: []events.Payload{failed(s, st, events.FinishMaxSteps,
			fmt.Sprintf("the step used all of its %d turns and did not finish", most))}}
	}
	if c := loop.Look(s, stepID); c.Grade == loop.End {
		return Duty{Append: []events.Payload{failed(s, st, events.FinishDoomLoop, c.String())}}
	}
	if now.Before(st.NotBefore) {
		return Duty{Wait: st.NotBefore}
	}
	switch v := budget.Ask(s, st, lostRequests); {
	case v.Reason != "":
		return Duty{Append: []events.Payload{failed(s, st, v.Reason, v.Text)}}
	case v.Wait:
		return Duty{Wait: now.Add(LookAgain)}
	case v.Short:
		return Duty{Append: []events.Payload{&events.TurnDeferredData{Event: "error", Step: st.ID, Turn: s.Turns().Len() + 1,
			Error: v.Text, Class: events.ClassBudget, Attempt: st.Attempt, NotBefore: now, Lost: lost(s, st, lostRequests),
			Outage: events.OutageOfBudget()}}}
	}
	return Duty{Ask: &Task{Step: st, Number: st.Turns + 1, Attempt: st.Attempt + 1, Owed: st.Owed, Lost: lostRequests,
		Mail: mailOf(s, st)}}
}

// maxSteps is the most turns of a step: what its agent's file says, unless the step is of the run's own agent, whose
// file and task have been weighed when the run was created (LOOP-2).
func maxSteps(s run.State, st *run.Step) int {
	if a := s.Agents[st.AssignedAgent]; st.AssignedAgent != s.AgentName && a.MaxSteps > 0 {
		return a.MaxSteps
	}
	return s.Options.MaxSteps
}

// closing is the end of a step whose last turn asked for no calls, or its claim where checks decide about the step;
// nothing while they do.
func closing(s run.State, st *run.Step) []events.Payload {
	if c := st.Claimed(); c.Open() {
		return nil
	} else if c != nil && c.Failed != "" {
		if st.Flow.Checks() {
			return []events.Payload{failed(s, st, events.FinishUnverified,
				fmt.Sprintf("the check %q did not pass: %s", c.Checks[c.Passed], c.Failed))}
		}
		return []events.Payload{failed(s, st, events.FinishUnverified, fmt.Sprintf(
			"the agent called the step done, claim %d of %d, and the check %q did not pass: %s", c.Number, c.Most,
			c.Checks[c.Passed],
			c.Failed))}
	}
	for _, t := range run.Backward(s.Turns()) {
		if t.Step == st.ID {
			return []events.Payload{ending(s, st, t.Text, t.FinishReason, t.Fault)}
		}
	}
	return []events.Payload{ending(s, st, "", events.FinishDone, "")}
}

// ending says how a step ends for the reason that its last turn did.
func ending(s run.State, st *run.Step, text, reason, fault string) events.Payload {
	if len(s.Agents[st.AssignedAgent].OutputSchema) > 0 {
		text = acceptance.Document(text)
	}
	switch reason {
	case events.FinishLength:
		return failed(s, st, events.FinishLength, "the model's answer was cut at its output limit")
	case events.FinishRefusal:
		return failed(s, st, events.FinishRefusal, "the model refused to answer")
	}
	if fault != "" && reason == events.FinishEmpty {
		return failed(s, st, events.FinishEmpty, "the model "+fault+", twice")
	}
	if fault != "" {
		return failed(s, st, events.FinishOutput,
			"the answer does not match the output schema of the agent, even after a retry: "+fault)
	}
	if st.Claimed() == nil {
		if claim := acceptance.Claim(s, st); claim != nil {
			return claim
		}
	}
	return finished(s, st, text, reason)
}

// Answer is what the model said, with its large parts already stored, and what the hooks answered before.
type Answer struct{ Data events.TurnFinishedData }

// Finish records an answer to a task, and the end of the step where the answer is final. The numbers of the turn and
// its calls follow from the state, as other steps may have taken turns since. Where the turn is in the log already and
// only the end of the step is not, that is what is said.
func Finish(s run.State, task Task, a Answer) []events.Payload {
	st := s.Step(task.Step.ID)
	switch {
	case s.Status.Ended() || st == nil || st.Status != events.StepIsRunning:
		return nil
	case st.Final:
		return closing(s, st)
	case st.Owed != task.Owed:
		return nil
	case mailOf(s, st) != task.Mail: // somebody else gave the turn mail, which the prompt of this answer did not have
		return nil
	}
	d := a.Data
	d.Event, d.Step, d.Turn = "step_complete", st.ID, s.Turns().Len()+1
	d.TotalTokens = s.Tokens.Total() + d.InputTokens + d.OutputTokens
	d.Calls = append([]events.RequestedCall(nil), d.Calls...)
	d.CallsKey = run.KeyOf(d.Calls)
	d.ModelRef, d.Cost = budget.Paid(s.Prices, s.Agents[st.AssignedAgent].Model, d.Provider, d.Model,
		budget.Usage{Input: d.InputTokens, Output: d.OutputTokens, Cached: d.CachedTokens, Written: d.CacheWriteTokens})
	d.Lost = lost(s, st, task.Lost)
	for i := range d.Calls {
		d.Calls[i].ID = fmt.Sprintf("c%d-%d", d.Turn, i+1)
	}
	if len(d.Calls) > 0 || d.Interrupted {
		return []events.Payload{&d}
	}
	if d.OutputFault != "" && !st.Mended {
		return []events.Payload{&d} // it is told, and asked again
	}
	done := *st
	done.Turns++
	return []events.Payload{&d, ending(s, &done, d.Text, d.FinishReason, d.OutputFault)}
}

// mailOf counts the messages of mail that a step was given.
func mailOf(s run.State, st *run.Step) (n int) {
	for _, m := range s.Messages {
		if m.Step == st.ID {
			n += len(m.Mail)
		}
	}
	return n
}

// Failure is a model request that was not answered.
type Failure struct {
	Error, Class string
	// Retryable is true where the request is made again after a while, Repair where it is once a person has resumed the
	// run, which is paused for that. With neither the step ends.
	Retryable, Repair bool
	// RetryAfter is the least wait, where the provider asked for it; MaxWait how long the provider is waited for before
	// the run is paused, 0 without a limit.
	RetryAfter, MaxWait time.Duration
	// Provider that did not answer, and HTTPStatus of its refusal. Where it is empty, the request was answered in vain,
	// and is made MaxAttempts times.
	Provider   string
	HTTPStatus int
	// Begun is true where the answer had begun: it is paid for, and no one says how much.
	Begun bool
	// Window is what the model's context window is taken for from now on, where the prompt was too long; see
	// prompt.Smaller.
	Window int
}

// delay is how long the next attempt waits after so many failed ones.
func (f Failure) delay(failed int) time.Duration {
	return max(min(BaseDelay<<min(failed-1, 16), MaxDelay), f.RetryAfter)
}

// ends reports whether a request is not made again after that attempt.
func (f Failure) ends(attempt int) bool {
	return !f.Repair && (!f.Retryable || f.Provider == "" && attempt >= MaxAttempts)
}

// wait says when a request that failed is made again: o is the outage that lasts, attempt the number of the request.
// Where a person must resume the run first, e says so, and text why.
func (f Failure) wait(o *run.Outage, attempt int, now time.Time) (e events.Outage, delay time.Duration, text string) {
	e = events.Outage{Provider: f.Provider, HTTPStatus: f.HTTPStatus, Pause: f.Repair}
	since := now
	switch {
	case o != nil:
		since, attempt = o.Since, o.Tries+1
	case f.Provider != "":
		attempt = 1 // of this outage
	}
	if e.Pause {
		return e, 0, f.Error
	}
	delay = f.delay(attempt)
	if f.MaxWait <= 0 || f.Provider == "" || now.Add(delay).Sub(since) <= f.MaxWait {
		return e, delay, f.Error
	}
	e.Pause = true
	return e, 0, fmt.Sprintf("not available for %s, and the longest wait is %s: %s", now.Sub(since).Round(time.Second),
		f.MaxWait, f.Error)
}

// lost is what is counted for requests without an answer, nil for none. Without a budget nothing is set aside.
func lost(s run.State, st *run.Step, n int) *events.Lost {
	if n <= 0 || !budget.Limited(s) {
		return nil
	}
	each, err := budget.Reserve(s, st)
	if err != nil {
		return nil
	}
	all := each.Times(n)
	return &events.Lost{Requests: n, Tokens: all.Tokens, Cost: all.Cost}
}

// Fail records a failed request: it is made again later, or the step fails.
func Fail(s run.State, task Task, f Failure, now time.Time) []events.Payload {
	st := s.Step(task.Step.ID)
	if s.Status.Ended() || st == nil || st.Status != events.StepIsRunning || st.Owed != task.Owed || st.Attempt+
		1 != task.Attempt {
		return nil
	}
	n := task.Lost
	if f.Begun {
		n++
	}
	if f.ends(task.Attempt) {
		end := failed(s, st, events.FinishError, f.Error)
		end.Lost = lost(s, st, n)
		return []events.Payload{end}
	}
	outage, delay, text := f.wait(s.Lasting(st.Outage), task.Attempt, now)
	return []events.Payload{&events.TurnDeferredData{Event: "error", Step: st.ID, Turn: s.Turns().Len() + 1, Error: text,
		Class: f.Class, Attempt: task.Attempt, DelayMS: delay.Milliseconds(), NotBefore: now.Add(delay), Window: f.Window,
		Lost: lost(s, st, n), Outage: outage}}
}

// interrupted holds a turn back until the run was paused and resumed.
func interrupted(s run.State, st *run.Step, answers []events.HookAnswer, why string,
	now time.Time) *events.TurnDeferredData {
	return &events.TurnDeferredData{Event: "error", Step: st.ID, Turn: s.Turns().Len() + 1, Error: why,
		Class:   events.ClassInterrupted,
		Attempt: st.Attempt, NotBefore: now, Hooks: answers}
}

// Held says what follows where a hook does not let a turn be taken: a block fails the step, an interrupt holds the turn
// back until a person resumes the run. ok is false where the turn may be taken.
func Held(s run.State, task Task, answers []events.HookAnswer, now time.Time) (say []events.Payload, ok bool) {
	a, ok := events.Decisive(answers)
	st := s.Step(task.Step.ID)
	switch {
	case !ok:
		return nil, false
	case s.Status != events.Running || st == nil || st.Status != events.StepIsRunning || st.Owed != task.Owed ||
		st.Attempt+1 != task.Attempt || s.Held != nil:
		return nil, true
	case a.Answer == events.HookInterrupt:
		return []events.Payload{interrupted(s, st, answers, hook.Why(a), now)}, true
	}
	f := failed(s, st, events.FinishHook, hook.Why(a))
	f.Hooks = answers
	return []events.Payload{f}, true
}

func finished(s run.State, st *run.Step, output, reason string) *events.StepFinishedData {
	return &events.StepFinishedData{Event: "step_finished", Step: st.ID, Output: output, FinishReason: reason,
		Turns: st.Turns, Checkpoint: s.NextCheckpoint()}
}

func failed(s run.State, st *run.Step, reason, text string) *events.StepFailedData {
	d := &events.StepFailedData{Event: "step_failed", Step: st.ID, Error: text, FinishReason: reason, Turns: st.Turns,
		Checkpoint: s.NextCheckpoint()}
	if reason != events.FinishError && reason != events.FinishHook {
		d.RunReason = reason
	}
	return d
}
