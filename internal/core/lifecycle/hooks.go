package lifecycle

import (
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// heldBack says what follows from the answers of the hooks at the start of a run: say holds its start where that is not
// stored yet, else the state remembers the answers. A run that was started only to be ended ends.
func heldBack(s run.State, now time.Time, say []events.Payload,
	answers []events.HookAnswer) (then []events.Payload, ends bool) {
	if cancelling(s) {
		return cancelled(s, now, s.Cancelled), true
	}
	a, ok := events.Decisive(answers)
	switch {
	case len(say) > 0 && !ok, len(say) == 0 && s.Held == nil, s.Status.Ended():
		return nil, false
	case len(say) == 0:
		a = s.Held.HookAnswer
	}
	if a.Answer == events.HookInterrupt {
		return []events.Payload{paused(a, nil)}, false
	}
	return blocked(s, now, a), true
}

// blocked ends a run that a hook did not let begin.
func blocked(s run.State, now time.Time, a events.HookAnswer) []events.Payload {
	r := result(s, now, events.Failed)
	r.From, r.FinishReason, r.Error = events.Running, events.FinishHook, shorten(hook.Why(a), maxError)
	return []events.Payload{&events.RunFailedData{Result: r}}
}

func paused(a events.HookAnswer, answers []events.HookAnswer) *events.RunPausedData {
	return &events.RunPausedData{Event: "run_paused", From: events.Running, To: events.Paused, By: a.Hook,
		Reason: shorten("interrupted by "+hook.Why(a), maxError), Hooks: answers, ClockStopped: true}
}

// Interrupted pauses a run that a hook interrupted at a turn or after a call, or whose model requests need a person:
// their provider was waited for as long as it may be, or refuses the key.
func Interrupted(s run.State) ([]events.Payload, error) {
	if s.Status != events.Running {
		return nil, nil
	}
	if s.Held != nil && s.Held.Told {
		return []events.Payload{paused(s.Held.HookAnswer, nil)}, nil
	}
	o := s.GivenUp()
	if o == nil || run.ForBudget(o) {
		return nil, nil // what follows from a budget is Unfunded
	}
	return []events.Payload{&events.RunPausedData{Event: "run_paused", From: events.Running, To: events.Paused,
		By: string(events.Executor), Reason: shorten("provider "+o.Provider+": "+o.Error, maxError),
		ClockStopped: true}}, nil
}

// AtStop says what becomes of the end of a run that is about to be said. asked tells whether the hooks were asked;
// where they must be first, owed is the end that they are asked about, and nothing is said. A run that would be
// completed fails where a hook blocks, and is paused where one interrupts; once a person has resumed it, it may end. A
// run that fails, fails: the answers are only recorded. A run that did not begin has no end to ask about.
func AtStop(s run.State, say []events.Payload, asked bool,
	answers []events.HookAnswer) (then []events.Payload, owed *events.Result) {
	if len(say) == 0 || s.StopPassed || s.Sequence == 0 || s.Status == events.Created {
		return say, nil
	}
	last := len(say) - 1
	switch end := say[last].(type) {
	case *events.RunFailedData:
		if !asked {
			return nil, &end.Result
		}
		end.Hooks = answers
	case *events.RunCompletedData:
		if !asked {
			return nil, &end.Result
		}
		end.Hooks = answers
		if a, ok := events.Decisive(answers); ok {
			say[last] = prevented(end.Result, a, answers)
		}
	}
	return say, nil
}

// SameEnd reports whether answers about one end of a run hold for another: hooks are told all of this.
func SameEnd(a, b events.Result) bool {
	return a.Status == b.Status && a.FinishReason == b.FinishReason && a.Output == b.Output && a.Error == b.Error
}

func prevented(r events.Result, a events.HookAnswer, answers []events.HookAnswer) events.Payload {
	if a.Answer == events.HookInterrupt {
		return paused(a, answers)
	}
	r.Status, r.Success, r.FinishReason = events.Failed, false, events.FinishHook
	r.Error = shorten(hook.Why(a), maxError)
	return &events.RunFailedData{Result: r}
}
