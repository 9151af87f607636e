// Package lifecycle decides about a run as a whole: its birth, its moves between statuses, its end.
//
// Promises: only the six moves of the table are made; every other wish is refused with the current status and the
// wished one, and changes nothing. A run that exists is never created again.
package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MoveError is returned for a move that the table does not have (LIFE-3).
type MoveError struct {
	From, To events.Status
	// Stopping is true where the run waits for its children and then ends.
	Stopping bool
}

func (e *MoveError) Error() string {
	switch {
	case e.Stopping:
		return "the run is stopping: it ends when its children have"
	case e.From.Ended():
		return fmt.Sprintf("the run has already %s", e.From)
	case e.From == e.To:
		return fmt.Sprintf("the run is already %s", e.From)
	}
	return fmt.Sprintf("the run is %s and cannot become %s", e.From, e.To)
}

// moves is the whole table (LIFE-2).
var moves = map[events.Status][]events.Status{
	events.Created: {events.Running},
	events.Running: {events.Paused, events.Completed, events.Failed},
	events.Paused:  {events.Running, events.Failed},
}

// Check returns nil where the table has the move, else a *MoveError.
func Check(from, to events.Status) error {
	for _, m := range moves[from] {
		if m == to {
			return nil
		}
	}
	return &MoveError{From: from, To: to}
}

// Begin answers a task: the run is created, started and, where the plan is known, given its plan and first steps. made
// is nil where a model must make the plan first. On a later look it says only what is missing. answers are those of the
// hooks that were asked before: a block ends the run before it does anything, an interrupt pauses it.
func Begin(s run.State, now time.Time, created *events.RunCreatedData, made *events.PlanMadeData,
	answers []events.HookAnswer) ([]events.Payload, error) {
	var say []events.Payload
	if s.Sequence == 0 && created.Direct {
		return []events.Payload{Birth(created, answers)}, nil
	}
	if s.Sequence == 0 {
		say = append(say, created)
	}
	if s.Sequence == 0 || s.Status == events.Created {
		begun := started(s, created)
		begun.Hooks = answers
		say = append(say, begun)
	}
	if s.Plan != nil {
		return Progress(s, now)
	}
	held, blocked := heldBack(s, now, say, answers)
	say = append(say, held...)
	if blocked {
		return say, nil
	}
	if made == nil || s.Status.Ended() {
		return say, nil
	}
	git := created.Git
	if s.Sequence > 0 {
		git = s.Created.Git // as it was when the run was created, whatever the agent's file says by now
	}
	made = delivery.Wrap(git, made)
	say = append(say, made)
	return append(say, plan.Next(run.State{Plan: planOf(made)}, now)...), nil
}

func started(s run.State, c *events.RunCreatedData) *events.RunStartedData {
	maxSteps := s.Options.MaxSteps
	if s.Sequence == 0 {
		maxSteps = c.Options.MaxSteps
	}
	return &events.RunStartedData{Event: "run_start", AgentID: c.Agent, AgentName: c.Agent, Task: c.Task,
		MaxSteps: maxSteps, From: events.Created, To: events.Running}
}

func planOf(m *events.PlanMadeData) *run.Plan {
	p := &run.Plan{}
	for _, st := range m.Steps {
		p.Steps = append(p.Steps, &run.Step{ID: st.ID, AssignedAgent: st.Agent, Kind: st.Kind, Dependencies: st.Dependencies,
			Critical: st.Critical, Status: events.StepIsPending, StepCourse: run.StepCourse{Flow: st.Flow}})
	}
	return p
}

// Progress says what follows from the state of the plan: what it decides about its steps, or the end of the run. While
// the run is paused steps still become ready; the gatekeeper holds them back.
func Progress(s run.State, now time.Time) ([]events.Payload, error) {
	if cancelling(s) {
		return cancelled(s, now, s.Cancelled), nil
	}
	if s.Plan == nil || s.Status.Ended() || s.Status == events.Created {
		return nil, nil
	}
	if s.Stopping != nil {
		return Stopped(s, now)
	}
	if say := plan.Next(s, now); len(say) > 0 {
		return say, nil
	}
	if len(s.Living()) > 0 {
		return nil, nil // a run does not end before its children
	}
	done, total := s.StepsCompleted()
	if done == total {
		return completed(s, now), nil
	}
	for _, st := range s.Plan.Steps {
		if st.Status == events.StepIsReady || st.Status == events.StepIsRunning {
			return nil, nil
		}
	}
	if plan.Waits(s.Plan) {
		return nil, nil
	}
	return []events.Payload{failedBySteps(s, now)}, nil
}

// completed ends a run whose steps are all complete. A paused run ends when it is resumed.
func completed(s run.State, now time.Time) []events.Payload {
	var say []events.Payload
	if !s.PlanDone && !s.Direct() {
		say = append(say, &events.PlanCompletedData{Event: "plan_completed", Steps: len(s.Plan.Steps)})
	}
	if s.Status != events.Running {
		return say
	}
	r := result(s, now, events.Completed)
	r.FinishReason = events.FinishDone
	r.Output = output(s.Plan)
	if checks, verified := acceptance.Verified(s, r.Delivery); verified {
		r.Verified = checks
	} else {
		r.Passed = checks
	}
	return append(say, &events.RunCompletedData{Result: r})
}

func failedBySteps(s run.State, now time.Time) *events.RunFailedData {
	r := result(s, now, events.Failed)
	r.FinishReason = events.FinishStep
	r.Output = output(s.Plan)
	var why []string
	own, harness := 0, 0
	for _, st := range s.Plan.Steps {
		if st.Kind != "" {
			harness++
		}
	}
	for _, st := range s.Plan.Steps {
		if st.Status != events.StepIsFailed || st.Spared() {
			continue
		}
		why = append(why, st.ID+": "+st.Error)
		if st.Kind == "" {
			own++
		}
		// The reason of the only step of the agent, or that of the harness where no agent's step failed.
		if st.RunReason != "" && (st.Kind == "" && planned(s.Plan)-harness == 1 || st.Kind != "" && own == 0) {
			r.FinishReason = st.RunReason
		}
	}
	r.Error = shorten("step failed: "+strings.Join(why, "; "), maxError)
	return &events.RunFailedData{Result: r}
}

// planned counts the steps that are not parts of others.
func planned(p *run.Plan) (n int) {
	for _, st := range p.Steps {
		if st.Part == nil {
			n++
		}
	}
	return n
}

const (
	maxError  = 4 << 10
	maxOutput = 32 << 10
)

func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}

// output is the output of the last completed steps: those that no other step depends on.
func output(p *run.Plan) string {
	needed := map[string]bool{}
	for _, st := range p.Steps {
		if st.Kind != "" {
			continue // what the harness delivers is not the output, and needs no step's
		}
		for _, d := range st.Dependencies {
			needed[d] = true
		}
	}
	var parts []string
	for _, st := range p.Steps {
		if st.Status == events.StepIsCompleted && st.Kind == "" && st.Part == nil && !needed[st.ID] {
			parts = append(parts, st.Output)
		}
	}
	return shorten(strings.Join(parts, "\n\n"), maxOutput)
}

// result fills in what every end has in common (LIFE-12, LOOP-13).
func result(s run.State, now time.Time, to events.Status) events.Result {
	done, total := s.StepsCompleted()
	r := events.Result{Event: "run_complete", From: s.Status, Status: to, Success: to == events.Completed,
		StepsCompleted: done, StepsTotal: total, TotalSteps: s.ModelTurns(), ToolCallCount: s.TotalToolCalls,
		Delivery:    delivery.Of(s),
		TotalTokens: s.Tokens.Total(), InputTokens: s.Tokens.Input, OutputTokens: s.Tokens.Output, Cost: s.Cost + s.Lost.Cost}
	if used := s.Below(); used.Runs > 0 {
		r.Below = &used
	}
	if s.StartedAt != nil {
		r.DurationMS = now.Sub(*s.StartedAt).Milliseconds()
	}
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			switch {
			case st.Done():
			case st.Status == events.StepIsFailed:
				r.FailedSteps = append(r.FailedSteps, st.ID)
			case st.Status == events.StepIsBlocked:
				r.BlockedSteps = append(r.BlockedSteps, st.ID)
			default: // not a step that stands in the way
			}
		}
	}
	return r
}
