package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Execution is what Execute has of the framework: the state, the steps so far, and the ways to touch the world. It is
// for the goroutine that Execute runs in.
//
// Once a method of it has returned an error of the framework, such as ErrReplaced, nothing more is recorded and Run
// returns that error, whatever Execute does.
type Execution[S, I, O any] struct {
	journal *journal
	state   *PersistentState[S, I, O]
	// before is the state after the last step, and asked how many effects the step under way has asked for. results are
	// those that no record has yet.
	before  json.RawMessage
	asked   int
	results []events.HarnessEffect
	summary string
	// alive is the error of the context of Run.
	alive func() error
	err   error
}

// Step is the number of the step under way: CurrentStep is one less until it is yielded.
func (x *Execution[S, I, O]) Step() int { return x.state.len() + 1 }

// Replaying reports whether the step under way is recorded already. It is for logs; Execute must do the same anyway.
func (x *Execution[S, I, O]) Replaying() bool { return x.Step() <= x.journal.last() }

// State returns a copy of the state.
func (x *Execution[S, I, O]) State() S { return x.state.State() }

// StepHistory returns the steps so far, the oldest first.
func (x *Execution[S, I, O]) StepHistory() []Step[I, O] { return x.state.StepHistory() }

// Update replaces the state by what a function makes of a copy of it. It is recorded with the step. The function only
// computes: it runs again after a restart.
func (x *Execution[S, I, O]) Update(change func(S) S) {
	if err := x.state.Update(change); err != nil {
		x.fail(err)
	}
}

// Summarize says in words what the step under way changes.
func (x *Execution[S, I, O]) Summarize(summary string) { x.summary = summary }

// LoadContext returns the state, what is known about it and the most recent steps.
func (x *Execution[S, I, O]) LoadContext(ctx context.Context) (LoadedContext[S, I, O], error) {
	c := x.state.LoadContext()
	if x.journal.knowledge == nil {
		return c, nil
	}
	var err error
	c.RelevantKnowledge, err = Do(ctx, x, Effect[[]string]{Name: "knowledge", Class: Read,
		Do: func(ctx context.Context, _ Call) ([]string, error) {
			return x.journal.knowledge(ctx, x.state.encoded())
		}})
	return c, err
}

// Now is the time of the injected clock; after a restart it is the time that it was.
func (x *Execution[S, I, O]) Now(ctx context.Context) (time.Time, error) {
	return Do(ctx, x, Effect[time.Time]{Name: "now", Class: Read,
		Do: func(context.Context, Call) (time.Time, error) { return x.journal.clock.Now().UTC(), nil }})
}

// Sleep waits on the injected clock. In a step that is recorded it returns at once.
func (x *Execution[S, I, O]) Sleep(ctx context.Context, d time.Duration) error {
	if x.err != nil || x.Replaying() {
		return x.err
	}
	return x.journal.clock.Sleep(ctx, d)
}

// Ask lets an agent answer an input, with the context and the number of the step under way. The answer is recorded.
func (x *Execution[S, I, O]) Ask(ctx context.Context, a Agent[S, I, O], input I, constraints Constraints) (O, error) {
	c, err := x.LoadContext(ctx)
	if err != nil {
		var none O
		return none, err
	}
	p := AgentRunParams[S, I, O]{Input: input, Context: c, StepNumber: x.Step(), StepHistory: x.StepHistory(),
		Constraints: constraints}
	return Do(ctx, x, Effect[O]{Name: "agent " + a.Name(), Class: a.cfg.Effect,
		Do: func(ctx context.Context, call Call) (O, error) {
			p.Key = call.Key
			return a.Run(ctx, p)
		}})
}

// fail makes an error the one that Run ends with.
func (x *Execution[S, I, O]) fail(err error) error {
	if x.err == nil {
		x.err = err
	}
	return x.err
}

// diverged ends Run because Execute does not repeat its record.
func (x *Execution[S, I, O]) diverged(what, got, want string) error {
	return x.fail(&DivergedError{Step: x.Step(), What: what, Got: got, Want: want})
}

// yielded records a pair as the next step, or compares it with its record.
func (x *Execution[S, I, O]) yielded(ctx context.Context, y StepYield[I, O]) error {
	input, err := json.Marshal(y.Input)
	if err != nil {
		return x.fail(fmt.Errorf("encode the input: %w", err))
	}
	output, err := json.Marshal(y.Output)
	if err != nil {
		return x.fail(fmt.Errorf("encode the output: %w", err))
	}
	if n := x.journal.effects(x.Step()); n > x.asked {
		e, _ := x.journal.effect(x.Step(), x.asked+1)
		return x.diverged("effect "+strconv.Itoa(x.asked+1), "none", e.Name)
	}
	s := events.HarnessStep{Number: x.Step(), Input: input, Output: output, Effects: x.results,
		StateDelta: StateDelta{Summary: x.summary}}
	if x.Replaying() {
		s, err = x.repeated(s)
	} else {
		s.Timestamp = x.journal.clock.Now().UTC()
		s.Changed, s.Removed = diff(x.before, x.state.encoded())
		s.StateDelta.Modified = modified(s.Changed, s.Removed)
		err = x.journal.record(ctx, Control{Action: events.HarnessRecord, Epoch: x.journal.epoch, Step: &s})
		if err == nil && x.journal.publisher != nil {
			x.journal.publisher.Publish(Published{x.journal.id, x.journal.name, s})
		}
	}
	if err != nil {
		return x.fail(err)
	}
	return x.take(s)
}

// repeated compares a step with its record, and returns that.
func (x *Execution[S, I, O]) repeated(s events.HarnessStep) (events.HarnessStep, error) {
	want := x.journal.steps[s.Number-1]
	if err := same[I](x, "the input", s.Input, want.Input); err != nil {
		return want, err
	}
	if err := same[O](x, "the output", s.Output, want.Output); err != nil {
		return want, err
	}
	state, err := patch(x.before, want.Changed, want.Removed)
	if err != nil {
		return want, err
	}
	return want, same[S](x, "the state", x.state.encoded(), state)
}

// same compares two encoded values of a type.
func same[T, S, I, O any](x *Execution[S, I, O], what string, got, want json.RawMessage) error {
	g, err := canonical[T](got)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	w, err := canonical[T](want)
	if err != nil || !bytes.Equal(g, w) {
		return x.diverged(what, string(g), string(want))
	}
	return nil
}

// take counts a step that is recorded.
func (x *Execution[S, I, O]) take(s events.HarnessStep) error {
	var input I
	var output O
	if err := errors.Join(json.Unmarshal(s.Input, &input), json.Unmarshal(s.Output, &output)); err != nil {
		return x.fail(fmt.Errorf("step %d cannot be read again: %w", s.Number, err))
	}
	if s.Number > x.journal.last() {
		x.journal.under = map[int]effectRecord{}
	}
	x.state.Record(s.Number, s.Timestamp, input, output, s.StateDelta)
	x.before, x.asked, x.results, x.summary = x.state.encoded(), 0, nil, ""
	return nil
}

// skip takes all recorded steps without Execute.
func (x *Execution[S, I, O]) skip() error {
	for _, s := range slices.Clone(x.journal.steps) {
		state, err := patch(x.before, s.Changed, s.Removed)
		if err == nil {
			err = x.state.set(state)
		}
		if err == nil {
			err = x.take(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
