package lifecycle

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Wish is what somebody outside asks for. Input is the position of the message: a second look at it says nothing.
type Wish struct {
	By, Reason string
	Input      uint64
	// Interrupt, of a pause, ends the answers that models are giving.
	Interrupt bool
}

// Pause holds a running run. One that a hook did not let begin ends instead.
func Pause(s run.State, now time.Time, w Wish) ([]events.Payload, error) {
	if s.Took(w.Input) {
		return nil, nil
	}
	if s.Stopping != nil {
		return nil, &MoveError{From: s.Status, To: events.Paused, Stopping: true}
	}
	if err := Check(s.Status, events.Paused); err != nil {
		return nil, err
	}
	if s.Plan == nil && s.Held != nil && s.Held.Answer != events.HookInterrupt {
		return blocked(s, now, s.Held.HookAnswer), nil // whoever asked that hook is gone; no pause takes its answer away
	}
	return []events.Payload{&events.RunPausedData{Event: "run_paused", From: s.Status, To: events.Paused, By: w.By,
		Reason: w.Reason, Input: w.Input, ClockStopped: true, Interrupt: w.Interrupt}}, nil
}

// Rejected pauses a running run for replanning because a gate was answered with no since it last went on (GATE-6), or
// expired as if it had been. Where a gate expired that ends its run, the run ends.
func Rejected(s run.State, now time.Time) ([]events.Payload, error) {
	if s.Status != events.Running && s.Status != events.Paused {
		return nil, nil
	}
	for _, g := range s.Gates {
		if g.Status == run.GateExpired && g.OnExpiry == events.ExpiryFails {
			r := end(s, now, events.FinishExpired, "gate "+g.ID+" expired", g.Reason)
			return stopFirst(s, r), nil
		}
	}
	if s.Status != events.Running {
		return nil, nil
	}
	for _, g := range s.Gates {
		if g.CallID != "" && s.Harness(g.StepID) {
			continue // the step of the harness ends as told, there is nothing to plan anew
		}
		if g.Scope == events.ScopeCheck {
			continue // the agent reads why, and goes on
		}
		if g.Status == run.GateExpired && g.Resolution > s.ResumedAt && g.OnExpiry != events.ExpiryApproves &&
			g.OnExpiry != events.ExpiryEscalates {
			return []events.Payload{&events.RunPausedData{Event: "run_paused", From: s.Status, To: events.Paused,
				By: g.By, Reason: "gate expired: " + g.Reason, Gate: g.ID, ClockStopped: true}}, nil
		}
		if g.Status == run.GateRejected && g.Resolution > s.ResumedAt {
			return []events.Payload{&events.RunPausedData{Event: "run_paused", From: s.Status, To: events.Paused,
				By: g.By, Reason: "gate rejected: " + g.Reason, Gate: g.ID, ClockStopped: true}}, nil
		}
	}
	return nil, nil
}

// Resume lets a paused run go on.
func Resume(s run.State, w Wish) ([]events.Payload, error) {
	if s.Took(w.Input) {
		return nil, nil
	}
	if s.Status != events.Paused || s.Stopping != nil {
		return nil, &MoveError{From: s.Status, To: events.Running, Stopping: s.Stopping != nil}
	}
	return []events.Payload{&events.RunResumedData{Event: "run_resumed", From: s.Status, To: events.Running, By: w.By,
		Input: w.Input}}, nil
}

// Adjust changes the autonomy level for steps not yet started (GATE-10). Saying the level in force again says nothing.
func Adjust(s run.State, level int, w Wish) ([]events.Payload, error) {
	if s.Took(w.Input) {
		return nil, nil
	}
	if s.Status.Ended() {
		return nil, &MoveError{From: s.Status, To: s.Status}
	}
	if s.Options.Autonomy == level {
		return nil, nil
	}
	return []events.Payload{&events.RunAdjustedData{Event: "run_adjusted", Autonomy: level,
		FromAutonomy: s.Options.Autonomy, By: w.By, Input: w.Input}}, nil
}

// Stop ends a run: completed where all steps are, else failed. A run that was only created is started first, so that
// the table of moves is kept.
func Stop(s run.State, now time.Time, w Wish) ([]events.Payload, error) {
	if s.Took(w.Input) {
		return nil, nil
	}
	if s.Status.Ended() {
		return nil, &MoveError{From: s.Status, To: events.Failed}
	}
	if done, total := s.StepsCompleted(); s.Status == events.Running && total > 0 && done == total {
		return completed(s, now), nil
	}
	why, text := events.FinishStopped, "stopped"
	var say []events.Payload
	if s.Status == events.Created {
		why, text = events.FinishCancelled, "cancelled before start"
		say = append(say, started(s, s.Created))
	}
	r := end(s, now, why, text, w.Reason)
	r.By, r.Input = w.By, w.Input
	return append(say, stopFirst(s, r)...), nil
}

// Timeout ends a run whose time is up. It answers nothing before that, or without a limit. halted is how long the
// station was halted since the run started, which does not count.
func Timeout(s run.State, now time.Time, halted time.Duration) ([]events.Payload, error) {
	at, ok := Deadline(s)
	if !ok || now.Before(at.Add(halted)) || s.Status.Ended() {
		return nil, nil
	}
	text := "timeout: the run took longer than " + (time.Duration(s.Options.TimeoutMS) * time.Millisecond).String()
	if stopped := time.Duration(s.Clock.StoppedMS) * time.Millisecond; stopped > 0 {
		text += ", without " + stopped.Round(time.Second).String() + " in which it was paused or waited for a provider"
	}
	r := end(s, now, events.FinishTimeout, text, "")
	return stopFirst(s, r), nil
}

// Deadline is when the run's time is up. Pauses and waits for a provider do not count; ok is false where it has no
// limit, has not started, or waits for a person to resume it.
func Deadline(s run.State) (at time.Time, ok bool) { return s.Deadline() }

// BirthTerm is how long a run may exist before it starts: whoever made it goes on with it at once, or tries again.
const BirthTerm = time.Minute

// Unstarted ends a run that no one has started in its BirthTerm. halted is how long the station was halted since it was
// created.
func Unstarted(s run.State, now time.Time, halted time.Duration) ([]events.Payload, error) {
	if s.Status != events.Created || now.Sub(s.CreatedAt)-halted < BirthTerm {
		return nil, nil
	}
	return cancelled(s, now, "the run was created and never started, because the station was full or stopped; send the task again with another id"), nil
}

// Dispossessed ends a run that lost the lock of its session before it started.
func Dispossessed(s run.State, now time.Time) ([]events.Payload, error) {
	if !Unborn(s) {
		return nil, nil
	}
	return cancelled(s, now, "session "+s.Created.Session+
		" was acquired by another run before this run started; send the task again with another id"), nil
}

// Unassigned ends a run whose work item was given to another, or closed, before it started.
func Unassigned(s run.State, now time.Time) ([]events.Payload, error) {
	if !Unborn(s) || s.Created.Work == nil {
		return nil, nil
	}
	return cancelled(s, now, "work item "+s.Created.Work.Work+" was unassigned before this run started"), nil
}

// Replaced ends a run that is no agent any more before it started: the address had to wait too long for it.
func Replaced(s run.State, now time.Time) ([]events.Payload, error) {
	if !Unborn(s) || s.Created.Address == nil {
		return nil, nil
	}
	return cancelled(s, now, "the agent "+s.Created.Address.Address+" was woken again before this run started"), nil
}

// Unborn reports whether a run exists and nothing has begun in it: whoever cancels it may die after run.started.
func Unborn(s run.State) bool {
	return s.Status == events.Created || s.Status == events.Running && s.Plan == nil && s.Planning == nil &&
		s.Stopping == nil
}

// cancelled ends a run before it starts. It is started first, so that the table of moves is kept.
func cancelled(s run.State, now time.Time, why string) (say []events.Payload) {
	if s.Status == events.Created {
		begun := started(s, s.Created)
		begun.Cancelled = why // whoever looks after a crash in between ends it, too, and does not begin it
		say = append(say, begun)
	}
	return append(say, &events.RunFailedData{Result: end(s, now, events.FinishCancelled, why, "")})
}

// cancelling reports whether a run was started only to be ended, and is not ended yet.
func cancelling(s run.State) bool {
	return s.Cancelled != "" && s.Status == events.Running && s.Plan == nil
}

// Planless reports whether a run was started and given no plan for as long as BirthTerm. Who started it may be gone.
// halted is how long the station was halted since then.
func Planless(s run.State, now time.Time, halted time.Duration) (overdue, owed bool) {
	if s.Status != events.Running || s.Plan != nil || s.StartedAt == nil {
		return false, false
	}
	return now.Sub(*s.StartedAt)-halted >= BirthTerm, true
}

// GiveUp ends a run that cannot get a plan, with a finish reason. One that has got it meanwhile goes on: whoever made
// the plan may be gone.
func GiveUp(s run.State, now time.Time, why, reason string) ([]events.Payload, error) {
	if s.Plan != nil {
		return Progress(s, now)
	}
	if s.Status != events.Running {
		return nil, nil
	}
	return []events.Payload{&events.RunFailedData{Result: end(s, now, why, shorten(reason, maxError), "")}}, nil
}

func end(s run.State, now time.Time, why, text, reason string) events.Result {
	r := result(s, now, events.Failed)
	if s.Status == events.Created {
		r.From = events.Running
	}
	r.FinishReason, r.Error = why, text
	if reason != "" {
		r.Error = shorten(text+": "+reason, maxError)
	}
	if s.Plan != nil {
		r.Output = output(s.Plan)
	}
	if left := untidied(s); left != "" && s.Stopping == nil { // whoever was stopping has said it
		r.Error = shorten(r.Error+"; not carried out: "+left, maxError)
	}
	return r
}

// Move begins the life of an open run at the place that all its events were copied to.
func Move(s run.State, fork, sameKey bool, by string) []events.Payload {
	if s.Sequence == 0 || s.Status.Ended() {
		return nil
	}
	return []events.Payload{&events.RunMovedData{Event: "run_moved", FromStation: s.Identity.Station, Covered: s.Sequence,
		Fork:    fork,
		SameKey: sameKey, By: by}}
}

// MakeWay ends the run of an agent whose next run goes on with the work.
func MakeWay(s run.State, now time.Time, order, by string) ([]events.Payload, error) {
	if s.Status.Ended() || s.Created == nil || s.Created.Address == nil {
		return nil, nil
	}
	text := "the next run of " + s.Created.Address.Address + " goes on with the work"
	if s.Status == events.Created {
		return cancelled(s, now, text), nil
	}
	r := end(s, now, events.FinishHandedOff, text, order)
	r.By = by
	return stopFirst(s, r), nil
}
